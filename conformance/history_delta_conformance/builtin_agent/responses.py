# SPDX-License-Identifier: Apache-2.0
"""The responses dialect, from the agent's side: the model's items go into the history as they came."""

from collections.abc import Iterable, Sequence

from .history import Answer, BrokenStream, Call, Conversation, Json
from .tools import Tool


class ResponsesConversation(Conversation):
    path = "/responses"
    headers: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, model: str, system: str) -> None:
        self._beginning = {"model": model, "instructions": system}
        self._items: list[Json] = []

    def ask(self, prompt: str) -> None:
        self._items.append({"role": "user", "content": [{"type": "input_text", "text": prompt}]})

    def start_over(self, prompt: str) -> None:
        self._items = []
        self.ask(prompt)

    def request(self, tools: Sequence[Tool]) -> Json:
        offered = [
            {"type": "function", "name": tool.name, "description": tool.text, "parameters": tool.schema}
            for tool in tools
        ]
        ending = {"store": False, "include": ["reasoning.encrypted_content"], "stream": True}
        return {**self._beginning, "input": self._items, "tools": offered, **ending}

    def take_answer(self, events: Iterable[Json]) -> Answer:
        completed: Json | None = None
        for event in events:
            if event["type"] == "response.completed":
                completed = event["response"]
        if completed is None:
            raise BrokenStream("no response.completed")
        self._items += completed["output"]
        answer, usage = _answer(completed["output"]), completed.get("usage") or {}
        answer.input_tokens, answer.output_tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
        return answer

    def add_results(self, results: list[tuple[Call, str]]) -> None:
        self._items += [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in results]


def _answer(items: list[Json]) -> Answer:
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    calls = [
        Call(item["call_id"], item["name"], item["arguments"]) for item in items if item["type"] == "function_call"
    ]
    return Answer("".join(part.get("text", "") for part in parts), calls)
