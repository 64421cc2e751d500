# SPDX-License-Identifier: Apache-2.0
"""The loop: ask the model, do what it calls for, ask again, until it calls for nothing. Sub-agents are sessions too."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import prompts
from .attempts import PASSING, attempts
from .chat import ChatConversation
from .endpoint import Endpoint
from .history import Answer, Call, Conversation, Json
from .messages import MessagesConversation
from .responses import ResponsesConversation
from .tools import TASK, TOOLS, Tool, run_tool

DIALECTS: dict[str, type[Conversation]] = {
    "chat": ChatConversation,
    "responses": ResponsesConversation,
    "messages": MessagesConversation,
}
_MAX_CALLS = 200
# The share of the context window from which on a history is compacted.
_FULL = 0.9


class EndlessTask(Exception):
    """The model went on calling tools for longer than any task takes."""


@dataclass(frozen=True)
class Setup:
    """What all sessions of a run have in common. ``window`` is the context window, in tokens."""

    base_url: str
    dialect: type[Conversation]
    model: str
    workspace: Path
    window: int


@dataclass
class Record:
    """What happened in a session, and in those of its helpers, in the order in which it started them."""

    session: str
    events: list[Json] = field(default_factory=list)
    helpers: list["Record"] = field(default_factory=list)

    def add(self, event: str, **fields: object) -> None:
        self.events.append({"session": self.session, "event": event, **fields})

    def all_events(self) -> list[Json]:
        return self.events + [event for helper in self.helpers for event in helper.all_events()]


class Session:
    """One agent's conversation with the model; ``say`` hears each of its answers, ``record`` has all of it."""

    def __init__(
        self, setup: Setup, name: str, say: Callable[[str], None], tools: Sequence[Tool], parent: str | None = None
    ) -> None:
        self.record = Record(name)
        self._setup, self._say, self._tools = setup, say, tools
        lineage = {"x-session-id": name} | ({"x-parent-session-id": parent} if parent else {})
        self._endpoint = Endpoint(setup.base_url, lineage)
        self._conversation = setup.dialect(setup.model, prompts.SYSTEM)
        self._in_context = 0

    def title(self, prompt: str) -> None:
        """Have the model name the task, in a conversation of its own."""
        side = self._setup.dialect(self._setup.model, prompts.TITLE)
        side.ask(prompt)
        self.record.add("title", text=self._answer(side, ()).text)

    def work(self, prompt: str) -> str:
        """Have the model do a task and return the last thing that it says. Raises what ended it before that."""
        self.record.add("prompt", text=prompt)
        self._ask(prompt)
        for _ in range(_MAX_CALLS):
            answer = self._answer(self._conversation, self._tools)
            self._in_context = answer.input_tokens + answer.output_tokens
            self._say(answer.text)
            if not answer.calls:
                return answer.text
            self._conversation.add_results(self._do_all(answer.calls))
            if self._is_full:
                self._compact(prompts.GO_ON)
        raise EndlessTask(f"not done after {_MAX_CALLS} calls")

    def _ask(self, prompt: str) -> None:
        if self._is_full:
            self._compact(prompt)
        else:
            self._conversation.ask(prompt)

    @property
    def _is_full(self) -> bool:
        return self._in_context > _FULL * self._setup.window

    def _compact(self, then: str) -> None:
        self._conversation.ask(prompts.SUMMARY)
        summary = self._answer(self._conversation, ()).text
        self.record.add("compaction", text=summary)
        self._conversation.start_over(f"{summary}\n\n{then}")
        self._in_context = 0

    def _answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Answer:
        def call() -> Answer:
            try:
                return conversation.take_answer(self._endpoint.events(conversation, tools))
            except BaseException:
                self._endpoint.close()
                raise

        answer = attempts(call, lambda what: self.record.add("failure", what=what))
        usage = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
        self.record.add("answer", text=answer.text, calls=[vars(call) for call in answer.calls], usage=usage)
        return answer

    def _do_all(self, calls: list[Call]) -> list[tuple[Call, str]]:
        """Helpers work at the same time; all else is done in order."""
        with ThreadPoolExecutor(len(calls)) as helpers:
            helping: dict[str, Future[str]] = {
                call.id: helpers.submit(self._helper(call)) for call in calls if self._is_task(call)
            }
            results = [(call, helping[call.id].result() if call.id in helping else self._do(call)) for call in calls]
        for call, text in results:
            self.record.add("result", call=call.id, text=text)
        return results

    def _is_task(self, call: Call) -> bool:
        return call.name == TASK.name and TASK in self._tools

    def _helper(self, call: Call) -> Callable[[], str]:
        """What does the call; it may run in a thread of its own."""
        name = self.record.session
        helper = Session(self._setup, f"{name}.{len(self.record.helpers) + 1}", lambda text: None, TOOLS, parent=name)
        self.record.helpers.append(helper.record)

        def work() -> str:
            try:
                return helper.work(json.loads(call.arguments)["prompt"])
            except (*PASSING, EndlessTask, ValueError, LookupError, TypeError) as error:
                return f"error: {error!r}"

        return work

    def _do(self, call: Call) -> str:
        return run_tool(call.name, json.loads(call.arguments), self._setup.workspace)
