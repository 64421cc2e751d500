# SPDX-License-Identifier: Apache-2.0
"""The tool calls of a conversation and what the tools answered, read from its last request, in all three dialects."""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def tool_calls(messages: tuple[str, ...]) -> list[str]:
    """One line for each call and each result, in the order in which they stand."""
    return [line for message in messages for line in _lines(_object(message))]


def _object(text: str) -> Json:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _lines(item: Json) -> Iterator[str]:
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        yield _call(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield _result(item.get("call_id"), item.get("output"))
    elif item.get("role") == "tool":
        yield _result(item.get("tool_call_id"), item.get("content"))
    for call in _dicts(item.get("tool_calls")):
        function = call.get("function") or {}
        yield _call(call.get("id"), function.get("name"), function.get("arguments"))
    for block in _dicts(item.get("content")):
        if block.get("type") == "tool_use":
            yield _call(block.get("id"), block.get("name"), block.get("input"))
        elif block.get("type") == "tool_result":
            yield _result(block.get("tool_use_id"), block.get("content"))


def _dicts(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _call(id: object, name: object, arguments: object) -> str:
    return f"call {id} {name} {_text(arguments)}"


def _result(id: object, output: object) -> str:
    return f"result {id} {_text(output)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
