# SPDX-License-Identifier: Apache-2.0
"""What a conversation is in any dialect: a history that grows until it is compacted, and answers from streams."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .tools import Tool

Json = dict[str, Any]


class BrokenStream(Exception):
    """The stream ended without the event that ends an answer in its dialect."""


@dataclass
class Call:
    """A tool call as the model made it; ``arguments`` is JSON text."""

    id: str
    name: str
    arguments: str = ""


@dataclass
class Answer:
    """``input_tokens`` and ``output_tokens`` are what the model says it was sent and has said."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0


class Conversation(ABC):
    """One dialect's history. ``path`` is what follows the base URL, ``headers`` what the dialect demands beside."""

    path: str
    headers: dict[str, str]

    @abstractmethod
    def __init__(self, model: str, system: str) -> None: ...

    @abstractmethod
    def ask(self, prompt: str) -> None:
        """Append what the user says."""

    @abstractmethod
    def start_over(self, prompt: str) -> None:
        """Forget the history but for the system prompt, and let the user say this."""

    @abstractmethod
    def request(self, tools: Sequence[Tool]) -> Json:
        """The body of the next call: the whole history, as every agent sends it."""

    @abstractmethod
    def take_answer(self, events: Iterable[Json]) -> Answer:
        """Read the events of a stream to their end and append the answer. Raises BrokenStream; then nothing is
        appended."""

    @abstractmethod
    def add_results(self, results: list[tuple[Call, str]]) -> None:
        """Append what the tools answered."""
