# SPDX-License-Identifier: Apache-2.0
"""The anthropic messages dialect: a reply as one JSON document or as its stream of server-sent events."""

import json
from collections.abc import Iterator
from typing import Any

from .reply import Reply, Tool, argument_pieces, tokens
from .sse import Event, Mark, event

Json = dict[str, Any]
# A block as it begins in a stream, the deltas that fill it, and the block when it is whole.
Block = tuple[Json, list[Json], Json]

# What a block makes whole once it has stopped; every delta is a token.
_WHOLE: dict[str, Mark] = {"text": "text", "tool_use": "tool-call"}


def offered_tools(request: Json) -> list[Tool]:
    return [Tool(tool["name"], tool.get("input_schema") or {}) for tool in request.get("tools") or []]


def document(reply: Reply, request: Json) -> Json:
    whole = [block for _, _, block in _blocks(reply)]
    return _message(reply) | {"content": whole, "stop_reason": _stop_reason(reply), "usage": _usage(reply)}


def stream(reply: Reply, request: Json) -> Iterator[Event]:
    opening = _message(reply) | {"usage": _usage(reply) | {"output_tokens": 1}}
    yield _event("message_start", message=opening)
    for index, (start, deltas, _) in enumerate(_blocks(reply)):
        yield _event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield _event("content_block_delta", "token", index=index, delta=delta)
        yield _event("content_block_stop", _WHOLE.get(start["type"], ""), index=index)
    ending = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", "final", delta=ending, usage=_usage(reply))
    yield _event("message_stop", "final")


def _event(kind: str, mark: Mark = "", **fields: Any) -> Event:
    return event({"type": kind, **fields}, kind, mark)


PING = _event("ping")


def _blocks(reply: Reply) -> Iterator[Block]:
    if reply.reasoning:
        signature = f"c2lnbmF0dXJl{reply.id}"
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": token} for token in tokens(reply.reasoning)]
        deltas.append({"type": "signature_delta", "signature": signature})
        whole = {"type": "thinking", "thinking": reply.reasoning, "signature": signature}
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas, whole
    if reply.text:
        deltas = [{"type": "text_delta", "text": token} for token in tokens(reply.text)]
        yield {"type": "text", "text": ""}, deltas, {"type": "text", "text": reply.text}
    for call in reply.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in argument_pieces(call.arguments)]
        block = {"type": "tool_use", "id": call.id.replace("call_", "toolu_"), "name": call.name}
        yield block | {"input": {}}, deltas, block | {"input": json.loads(call.arguments)}


def _message(reply: Reply) -> Json:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _usage(reply: Reply) -> Json:
    return {
        "input_tokens": reply.usage.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": reply.usage.output_tokens,
    }
