# SPDX-License-Identifier: Apache-2.0
"""The chat completions dialect, from the agent's side."""

from collections.abc import Iterable, Sequence

from .history import Answer, BrokenStream, Call, Conversation, Json
from .tools import Tool


class ChatConversation(Conversation):
    path = "/chat/completions"
    headers: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, model: str, system: str) -> None:
        self._model = model
        self._messages: list[Json] = [{"role": "system", "content": system}]

    def ask(self, prompt: str) -> None:
        self._messages.append({"role": "user", "content": prompt})

    def start_over(self, prompt: str) -> None:
        del self._messages[1:]
        self.ask(prompt)

    def request(self, tools: Sequence[Tool]) -> Json:
        functions = [{"name": tool.name, "description": tool.text, "parameters": tool.schema} for tool in tools]
        offered = {"tools": [{"type": "function", "function": function} for function in functions]} if tools else {}
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self._model, "messages": self._messages, **offered, **streamed}

    def take_answer(self, events: Iterable[Json]) -> Answer:
        answer, reasoning, finished = Answer(), "", False
        for event in events:
            for choice in event["choices"]:
                delta = choice["delta"]
                answer.text += delta.get("content") or ""
                reasoning += delta.get("reasoning_content") or ""
                _take_call_pieces(answer.calls, delta.get("tool_calls") or [])
                finished = finished or choice.get("finish_reason") is not None
            if usage := event.get("usage"):
                answer.input_tokens, answer.output_tokens = usage["prompt_tokens"], usage["completion_tokens"]
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
