# SPDX-License-Identifier: Apache-2.0
"""The chat completions dialect, from the agent's side."""

from collections.abc import Iterable

from .history import SYSTEM_PROMPT, Answer, BrokenStream, Call, Conversation, Json
from .tools import TOOLS


class ChatConversation(Conversation):
    path = "/chat/completions"
    headers: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, model: str, prompt: str) -> None:
        self._model = model
        self._messages: list[Json] = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": prompt},
        ]

    def request(self) -> Json:
        functions = [{"name": name, "description": text, "parameters": schema} for name, text, schema in TOOLS]
        return {
            "model": self._model,
            "messages": self._messages,
            "tools": [{"type": "function", "function": function} for function in functions],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def take_answer(self, events: Iterable[Json]) -> Answer:
        answer, reasoning, finished = Answer(), "", False
        for event in events:
            for choice in event["choices"]:
                delta = choice["delta"]
                answer.text += delta.get("content") or ""
                reasoning += delta.get("reasoning_content") or ""
                _take_call_pieces(answer.calls, delta.get("tool_calls") or [])
                finished = finished or choice.get("finish_reason") is not None
        if not finished:
            raise BrokenStream("no finish_reason")
        self._messages.append(_message(answer, reasoning))
        return answer

    def add_results(self, results: list[tuple[Call, str]]) -> None:
        self._messages += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results]


def _take_call_pieces(calls: list[Call], pieces: list[Json]) -> None:
    for piece in pieces:
        if piece["index"] == len(calls):
            calls.append(Call(piece["id"], piece["function"]["name"]))
        calls[piece["index"]].arguments += piece["function"].get("arguments") or ""


def _message(answer: Answer, reasoning: str) -> Json:
    message: Json = {"role": "assistant", "content": answer.text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return message
