# SPDX-License-Identifier: Apache-2.0
"""The responses dialect, from the agent's side: the model's items go into the history as they came."""

from collections.abc import Iterable

from .history import SYSTEM_PROMPT, Answer, BrokenStream, Call, Conversation, Json
from .tools import TOOLS


class ResponsesConversation(Conversation):
    path = "/responses"
    headers: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, model: str, prompt: str) -> None:
        self._model = model
        self._items: list[Json] = [{"role": "user", "content": [{"type": "input_text", "text": prompt}]}]

    def request(self) -> Json:
        return {
            "model": self._model,
            "instructions": SYSTEM_PROMPT,
            "input": self._items,
            "tools": [
                {"type": "function", "name": name, "description": text, "parameters": schema}
                for name, text, schema in TOOLS
            ],
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "stream": True,
        }

    def take_answer(self, events: Iterable[Json]) -> Answer:
        completed: Json | None = None
        for event in events:
            if event["type"] == "response.completed":
                completed = event["response"]
        if completed is None:
            raise BrokenStream("no response.completed")
        self._items += completed["output"]
        return _answer(completed["output"])

    def add_results(self, results: list[tuple[Call, str]]) -> None:
        self._items += [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in results]


def _answer(items: list[Json]) -> Answer:
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    calls = [
        Call(item["call_id"], item["name"], item["arguments"]) for item in items if item["type"] == "function_call"
    ]
    return Answer("".join(part.get("text", "") for part in parts), calls)
