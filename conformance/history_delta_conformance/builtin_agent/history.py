# SPDX-License-Identifier: Apache-2.0
"""What a conversation is, whatever the dialect: a history that only grows, and answers read from a stream."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SYSTEM_PROMPT = """\
You are a careful coding agent. You work in one folder, the workspace, and change files only there.
You have three tools: bash runs a shell command, write writes a whole file, read returns one. Call several at once where
they do not depend on each other. Look before you change anything; keep what you write small and plain. When a command
fails, read what it says and think before you try again. When you are done, say in a sentence what you did."""


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
    text: str = ""
    calls: list[Call] = field(default_factory=list)


class Conversation(ABC):
    """One dialect's history. ``path`` is what follows the base URL, ``headers`` what the dialect demands beside."""

    path: str
    headers: dict[str, str]

    @abstractmethod
    def __init__(self, model: str, prompt: str) -> None: ...

    @abstractmethod
    def request(self) -> Json:
        """The body of the next call: the whole history, as every agent sends it."""

    @abstractmethod
    def take_answer(self, events: Iterable[Json]) -> Answer:
        """Read the events of a stream to their end and append the answer. Raises BrokenStream."""

    @abstractmethod
    def add_results(self, results: list[tuple[Call, str]]) -> None:
        """Append what the tools answered."""
