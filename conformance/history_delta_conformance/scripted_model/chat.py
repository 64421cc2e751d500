# SPDX-License-Identifier: Apache-2.0
"""The chat completions dialect: a reply as one JSON document or as its stream of server-sent events."""

import time
from collections.abc import Iterator
from typing import Any

from .reply import Reply, Tool, argument_pieces, tokens
from .sse import DONE, PING, Event, Mark, event, marked

Json = dict[str, Any]

__all__ = ["PING", "document", "offered_tools", "stream"]


def offered_tools(request: Json) -> list[Tool]:
    functions = [tool["function"] for tool in request.get("tools") or [] if tool.get("type") == "function"]
    return [Tool(function["name"], function.get("parameters") or {}) for function in functions]


def document(reply: Reply, request: Json) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
    return _envelope(reply, "chat.completion") | {"choices": [choice], "usage": _usage(reply)}


def stream(reply: Reply, request: Json) -> Iterator[Event]:
    for delta, mark in _deltas(reply):
        yield _chunk(reply, delta, mark)
    yield _chunk(reply, {}, "final", _finish_reason(reply))
    if (request.get("stream_options") or {}).get("include_usage"):
        usage = {"choices": [], "usage": _usage(reply)}
        yield event(_envelope(reply, "chat.completion.chunk") | usage, mark="final")
    yield DONE


def _deltas(reply: Reply) -> Iterator[tuple[Json, Mark]]:
    yield {"role": "assistant", "content": ""}, ""
    for token in tokens(reply.reasoning):
        yield {"reasoning_content": token}, "token"
    for token, mark in marked(tokens(reply.text), "text"):
        yield {"content": token}, mark
    for index, call in enumerate(reply.calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}, ""
        for piece, mark in marked(argument_pieces(call.arguments), "tool-call"):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, mark


def _chunk(reply: Reply, delta: Json, mark: Mark = "", finish_reason: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return event(_envelope(reply, "chat.completion.chunk") | {"choices": [choice]}, mark=mark)


def _envelope(reply: Reply, kind: str) -> Json:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": int(time.time()), "model": reply.model}


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Reply) -> Json:
    usage = reply.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
