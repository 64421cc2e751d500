# SPDX-License-Identifier: Apache-2.0
"""The anthropic messages dialect, from the agent's side."""

import json
from collections.abc import Iterable

from .history import SYSTEM_PROMPT, Answer, BrokenStream, Call, Conversation, Json
from .tools import TOOLS

_MAX_TOKENS = 8192
# Which field of a block each kind of delta adds to.
_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesConversation(Conversation):
    path = "/messages"
    headers: dict[str, str] = {"anthropic-version": "2023-06-01"}  # noqa: RUF012

    def __init__(self, model: str, prompt: str) -> None:
        self._model = model
        self._messages: list[Json] = [{"role": "user", "content": prompt}]

    def request(self) -> Json:
        return {
            "model": self._model,
            "max_tokens": _MAX_TOKENS,
            "system": SYSTEM_PROMPT,
            "messages": self._messages,
            "tools": [{"name": name, "description": text, "input_schema": schema} for name, text, schema in TOOLS],
            "stream": True,
        }

    def take_answer(self, events: Iterable[Json]) -> Answer:
        blocks: list[Json] = []
        arguments: dict[int, str] = {}
        stopped = False
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
            elif event["type"] == "content_block_delta":
                _grow(blocks, arguments, event["index"], event["delta"])
            stopped = stopped or event["type"] == "message_stop"
        if not stopped:
            raise BrokenStream("no message_stop")
        for index, text in arguments.items():
            blocks[index]["input"] = json.loads(text)
        self._messages.append({"role": "assistant", "content": blocks})
        return _answer(blocks, arguments)

    def add_results(self, results: list[tuple[Call, str]]) -> None:
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in results]
        self._messages.append({"role": "user", "content": content})


def _grow(blocks: list[Json], arguments: dict[int, str], index: int, delta: Json) -> None:
    if delta["type"] == "input_json_delta":
        arguments[index] = arguments.get(index, "") + delta["partial_json"]
    else:
        name = _GROWS[delta["type"]]
        blocks[index][name] += delta[name]


def _answer(blocks: list[Json], arguments: dict[int, str]) -> Answer:
    calls = [Call(blocks[index]["id"], blocks[index]["name"], text) for index, text in arguments.items()]
    return Answer("".join(block["text"] for block in blocks if block["type"] == "text"), calls)
