# SPDX-License-Identifier: Apache-2.0
"""The responses dialect: a reply as one JSON document or as its stream of server-sent events."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

from .reply import Reply, Tool, argument_pieces, tokens
from .sse import PING, Event, Mark, event

Json = dict[str, Any]
Events = Iterator[tuple[str, Json]]

# What an item makes whole once it is done; every delta is a token.
_WHOLE: dict[str, Mark] = {"message": "text", "function_call": "tool-call"}

__all__ = ["PING", "document", "offered_tools", "stream"]


def offered_tools(request: Json) -> list[Tool]:
    return list(_functions(request.get("tools") or []))


def _functions(tools: list[Json], namespace: str = "") -> Iterator[Tool]:
    for tool in tools:
        if tool.get("type") == "function":
            yield Tool(tool["name"], tool.get("parameters") or {}, namespace)
        elif tool.get("type") == "namespace":
            yield from _functions(tool.get("tools") or [], tool["name"])


def document(reply: Reply, request: Json) -> Json:
    return _response(reply, request, "completed", _items(reply, request)) | {"usage": _usage(reply)}


def stream(reply: Reply, request: Json) -> Iterator[Event]:
    sequence = count()
    for kind, fields in _events(reply, request):
        yield event({"type": kind, "sequence_number": next(sequence), **fields}, kind, _mark(kind, fields))


def _mark(kind: str, fields: Json) -> Mark:
    if kind == "response.output_item.done":
        return _WHOLE.get(fields["item"]["type"], "")
    if kind == "response.completed":
        return "final"
    return "token" if kind.endswith(".delta") else ""


def _events(reply: Reply, request: Json) -> Events:
    opening = _response(reply, request, "in_progress", [])
    yield "response.created", {"response": opening}
    yield "response.in_progress", {"response": opening}
    for index, item in enumerate(_items(reply, request)):
        place = {"output_index": index, "item_id": item["id"]}
        yield "response.output_item.added", {"output_index": index, "item": _begun(item)}
        yield from _ITEM_EVENTS[item["type"]](item, place)
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": document(reply, request)}


def _reasoning_events(item: Json, place: Json) -> Events:
    text = item["summary"][0]["text"]
    place = place | {"summary_index": 0}
    yield "response.reasoning_summary_part.added", place | {"part": {"type": "summary_text", "text": ""}}
    for token in tokens(text):
        yield "response.reasoning_summary_text.delta", place | {"delta": token}
    yield "response.reasoning_summary_text.done", place | {"text": text}
    yield "response.reasoning_summary_part.done", place | {"part": item["summary"][0]}


def _message_events(item: Json, place: Json) -> Events:
    part = item["content"][0]
    place = place | {"content_index": 0}
    yield "response.content_part.added", place | {"part": part | {"text": ""}}
    for token in tokens(part["text"]):
        yield "response.output_text.delta", place | {"delta": token, "logprobs": []}
    yield "response.output_text.done", place | {"text": part["text"], "logprobs": []}
    yield "response.content_part.done", place | {"part": part}


def _call_events(item: Json, place: Json) -> Events:
    for piece in argument_pieces(item["arguments"]):
        yield "response.function_call_arguments.delta", place | {"delta": piece}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield "response.function_call_arguments.done", place | done


_ITEM_EVENTS = {"reasoning": _reasoning_events, "message": _message_events, "function_call": _call_events}


def _items(reply: Reply, request: Json) -> list[Json]:
    items: list[Json] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        reasoning: Json = {"id": f"rs_{reply.id}", "type": "reasoning", "summary": summary}
        if "reasoning.encrypted_content" in (request.get("include") or []):
            reasoning["encrypted_content"] = f"c2NyaXB0ZWQ{reply.id}"
        items.append(reasoning)
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{reply.id}", "type": "message", "status": "completed", "role": "assistant"}
        items.append(message | {"content": [part]})
    for number, call in enumerate(reply.calls):
        item = {"id": f"fc_{reply.id}_{number}", "type": "function_call", "status": "completed", "call_id": call.id}
        namespace = {"namespace": call.namespace} if call.namespace else {}
        items.append(item | {"name": call.name, **namespace, "arguments": call.arguments})
    return items


def _begun(item: Json) -> Json:
    """An item as it stands when the stream first names it."""
    empty = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    return item | {name: value for name, value in empty.items() if name in item}


def _response(reply: Reply, request: Json, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        "metadata": {},
    }


def _usage(reply: Reply) -> Json:
    usage = reply.usage
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
