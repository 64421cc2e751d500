# SPDX-License-Identifier: Apache-2.0
"""Which turn comes next, from the request alone: no state is kept, so any number of conversations can run at once.

Every text that the model says begins with a marker, ``[tool-use step 3 of 12]``; the last marker in a request says how
far its conversation is. That survives compaction, since a summary by this model carries the marker on, and it holds
for an agent that hands over its history as one text. A request without tools is a side call: title or summary. Faults
do not stand here: a step that fails is one that has not been taken.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .reply import Reply, Tool, ToolCall, Usage
from .scenario import Conversation, Scenario, Turn
from .tools import concrete_calls

_TITLE_CALL = re.compile(rb"\btitle\b", re.IGNORECASE)
# Of what the model is sent, not the size is counted but the steps: the size depends on paths, times and names that the
# agent makes up, and so would every figure that the agent reports.
_TOKENS_PER_STEP = 1000
_CHARACTERS_PER_TOKEN = 4

SideCall = Literal["title", "summary"]


@dataclass(frozen=True)
class Place:
    """What a request is for: a step of a conversation (counted from 1), or a side call, which is at no step (0)."""

    conversation: Conversation
    done: int
    side_call: SideCall | None = None

    @property
    def step(self) -> int:
        return 0 if self.side_call else self.done + 1

    @property
    def label(self) -> str:
        return self.side_call or f"{self.conversation.name} {self.step}"


def place_of(scenario: Scenario, body: bytes, has_tools: bool) -> Place:
    """What a request with this body is for; ``has_tools`` says whether it offers any."""
    conversation = _conversation_of(scenario, body)
    done = _steps_done(conversation, body)
    # Where no turn calls a tool, an agent without tools takes every step.
    if not has_tools and done and any(turn.calls for turn in conversation.turns):
        return Place(conversation, done, "summary")
    if not has_tools and not done and _TITLE_CALL.search(body):
        return Place(conversation, done, "title")
    return Place(conversation, done)


def reply_at(place: Place, scenario: Scenario, body: bytes, model: str, offered: Sequence[Tool]) -> Reply:
    """The reply to a request that is for this. Raises NoSuchTool where the agent lacks a tool for the turn."""
    conversation, done = place.conversation, place.done
    if place.side_call == "summary":
        return _reply(place, body, model, Turn(text=_marked(conversation, done, scenario.summary)))
    if place.side_call == "title":
        return _reply(place, body, model, Turn(text=scenario.title))
    if done >= len(conversation.turns):
        return _reply(place, body, model, Turn(text=_marked(conversation, done, "There is nothing left to do.")))
    turn = conversation.turns[done]
    text = _marked(conversation, done + 1, turn.text)
    calls = tuple(
        ToolCall(f"call_{conversation.name}_{done + 1}_{number}".replace("-", "_"), *call)
        for number, call in enumerate(concrete_calls(turn.calls if offered else (), offered, body), start=1)
    )
    return _reply(place, body, model, Turn(text=text, reasoning=turn.reasoning, input_tokens=turn.input_tokens), calls)


def _conversation_of(scenario: Scenario, body: bytes) -> Conversation:
    main = Conversation(name=scenario.marker, match="", turns=scenario.turns)
    # The main conversation quotes a sub-agent's prompt in its tool call, so its own marker goes first.
    if _steps_done(main, body):
        return main
    return next((other for other in scenario.conversations if other.match.encode() in body), main)


def _steps_done(conversation: Conversation, body: bytes) -> int:
    markers = re.findall(rb"\[" + re.escape(conversation.name.encode()) + rb" step (\d+) of \d+\]", body)
    return int(markers[-1]) if markers else 0


def _marked(conversation: Conversation, step: int, text: str) -> str:
    return f"[{conversation.name} step {step} of {len(conversation.turns)}] {text}"


def _reply(place: Place, body: bytes, model: str, turn: Turn, calls: tuple[ToolCall, ...] = ()) -> Reply:
    said = len(turn.text) + len(turn.reasoning) + sum(len(call.arguments) for call in calls)
    counted = _TOKENS_PER_STEP * (place.done + 1) if turn.input_tokens is None else turn.input_tokens
    usage = Usage(counted, 1 + said // _CHARACTERS_PER_TOKEN)
    return Reply(hashlib.sha256(body).hexdigest()[:24], model, turn.text, turn.reasoning, calls, usage)
