# SPDX-License-Identifier: Apache-2.0
"""Scenarios: what the scripted model says, turn by turn, and how it fails.

A scenario has one main conversation and, where an agent starts sub-agents, others that are told apart by their prompt.
Tool calls name what is to be done (shell, write, read, task); how an agent's own tool is called is in ``tools``. How a
scenario is written down as TOML is in ``scenario_file``.
"""

from typing import Annotated, Literal

import msgspec

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="tool"):
    pass


class Shell(_Strict, frozen=True, tag="shell"):
    command: str


class Write(_Strict, frozen=True, tag="write"):
    path: str
    content: str


class Read(_Strict, frozen=True, tag="read"):
    path: str


class Task(_Strict, frozen=True, tag="task"):
    """Starts a sub-agent. Its prompt should hold the ``match`` of one of the scenario's conversations."""

    description: str
    prompt: str


class Wait(_Strict, frozen=True, tag="wait"):
    """Waits for a sub-agent, counted from 1 in the order in which they were started, where starting one does not."""

    sub_agent: int


Call = Shell | Write | Read | Task | Wait


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model. ``input_tokens`` overrides the usage figure, so as to make an agent compact."""

    text: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    input_tokens: int | None = None


Turns = Annotated[tuple[Turn, ...], msgspec.Meta(min_length=1)]


class Conversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The turns of a sub-agent, recognised by ``match`` standing in the request."""

    name: _Text
    match: _Text
    turns: Turns


class ExpectedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the workspace must hold in the end, with exactly this content."""

    path: str
    content: str


Need = Literal["sub-agents", "compaction", "pruning", "follow-up", "title"]
FaultKind = Literal["status", "reset-before", "cut", "reset", "no-final-event", "short-length", "stall", "drip"]
DisturbanceKind = Literal[
    "server-loses-state", "shim-restarts", "switched-off", "drop-before", "drop-during", "drop-after", "repeat"
]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure of the model in place of the answer, or in the answer, of a step (counted from 1).

    ``conversation`` names a sub-agent's; empty is the main one. The first ``times`` requests for that step fail, those
    after it are answered, or meet the next fault for the step. ``status`` and ``retry_after`` (seconds; None: no such
    header) belong to ``status``; ``after`` says where ``cut``, ``reset``, ``short-length`` and ``stall`` act: behind
    the first piece of the answer, its whole text, or its first tool call with all arguments. ``seconds`` is how long
    ``stall`` lasts, and the whole answer of ``drip`` (2 where it is not said); where an answer breaks, how long after
    what was sent of it (0.2): an agent that finds bytes and break at once may do one thing or another.
    """

    step: _Count
    kind: FaultKind
    conversation: str = ""
    times: _Count = 1
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    retry_after: _Seconds | None = None
    after: Literal["first-token", "text", "tool-call"] = "text"
    seconds: _Seconds | None = None

    @property
    def lasting(self) -> float:
        """The seconds, said or not."""
        if self.seconds is not None:
            return self.seconds
        return 2.0 if self.kind in ("stall", "drip") else 0.2


class Disturbance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that befalls the transport when the first request for a step (counted from 1) of the main conversation
    is on its way; the model has no part in it."""

    step: _Count
    kind: DisturbanceKind


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole scenario.

    ``prompt`` is what to ask the agent and ``follow_ups`` what to ask it in the same session, one after the other, once
    it is done with that; ``title`` and ``summary`` answer its side calls; ``window`` is the context window to tell the
    agent. ``description`` is one line for reports. ``needs`` names what an agent must be able to do. ``same_off_as``
    names a scenario that is the same with the transport off, so that its run serves for both.
    """

    name: _Text
    prompt: _Text
    turns: Turns
    follow_ups: tuple[str, ...] = ()
    window: _Count = 200_000
    title: str = "Scripted task"
    summary: str = "Everything so far went as planned; go on with the next step."
    description: str = ""
    needs: tuple[Need, ...] = ()
    same_off_as: str = ""
    conversations: tuple[Conversation, ...] = ()
    faults: tuple[Fault, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    files: tuple[ExpectedFile, ...] = ()

    @property
    def marker(self) -> str:
        """What the main conversation is called in markers and labels: to be the same as another with the transport
        off, it must be called the same as well."""
        return self.same_off_as or self.name

    @property
    def final_text(self) -> str:
        return self.turns[-1].text
