# SPDX-License-Identifier: Apache-2.0
"""The anthropic messages dialect, from the agent's side."""

import json
from collections.abc import Iterable, Sequence

from .history import Answer, BrokenStream, Call, Conversation, Json
from .tools import Tool

_MAX_TOKENS = 8192
# Which field of a block each kind of delta adds to.
_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesConversation(Conversation):
    path = "/messages"
    headers: dict[str, str] = {"anthropic-version": "2023-06-01"}  # noqa: RUF012

    def __init__(self, model: str, system: str) -> None:
        self._beginning = {"model": model, "max_tokens": _MAX_TOKENS, "system": system}
        self._messages: list[Json] = []

    def ask(self, prompt: str) -> None:
        self._messages.append({"role": "user", "content": prompt})

    def start_over(self, prompt: str) -> None:
        self._messages = []
        self.ask(prompt)

    def request(self, tools: Sequence[Tool]) -> Json:
        listed = [{"name": tool.name, "description": tool.text, "input_schema": tool.schema} for tool in tools]
        offered = {"tools": listed} if tools else {}
        return {**self._beginning, "messages": self._messages, **offered, "stream": True}

    def take_answer(self, events: Iterable[Json]) -> Answer:
        blocks: list[Json] = []
        arguments: dict[int, str] = {}
        usage: Json = {}
        stopped = False
        for event in events:
            usage |= event.get("usage") or event.get("message", {}).get("usage") or {}
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
        answer = _answer(blocks, arguments)
        answer.input_tokens, answer.output_tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
        return answer

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
