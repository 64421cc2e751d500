# SPDX-License-Identifier: Apache-2.0
"""From a request as received to what it is answered with: the reply and the fault, or a refusal. No I/O stands here."""

import json
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from history_delta_protocol.dialect import Dialect, dialect_of

from . import chat, messages, responses
from .director import Place, place_of, reply_at
from .faults import Befallen
from .recording import OTHER
from .reply import Reply
from .scenario import Fault, Scenario
from .tools import NoSuchTool

_ENCODERS: dict[str, ModuleType] = {"chat": chat, "responses": responses, "messages": messages}


@dataclass(frozen=True)
class Answer:
    """``wanted`` is the request, ``encoder`` what puts the reply into its dialect."""

    dialect: Dialect
    encoder: ModuleType
    wanted: dict[str, Any]
    reply: Reply
    label: str
    fault: Fault | None


@dataclass(frozen=True)
class Refusal:
    """For what is no request that can be answered; ``dialect`` is None for what is no model call."""

    dialect: Dialect | None
    status: int
    message: str
    label: str = OTHER
    fault: None = None


def answer_to(scenario: Scenario, befallen: Befallen, method: str, path: str, body: bytes) -> Answer | Refusal:
    """Decide, and count the request where its step has faults."""
    dialect = dialect_of(path) if method == "POST" else None
    if dialect is None:
        return Refusal(dialect_of(path), 404, f"the scripted model serves no {method} {path}")
    encoder, label = _ENCODERS[dialect.name], OTHER
    try:
        wanted: dict[str, Any] = json.loads(body)
        offered = encoder.offered_tools(wanted)
        place = place_of(scenario, body, bool(offered))
        label = place.label
        reply = reply_at(place, scenario, body, str(wanted.get("model")), offered)
    except NoSuchTool as error:
        return Refusal(dialect, 400, f"no tool for the scenario's next step, {error}", label)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Refusal(dialect, 400, f"not a {dialect.name} request: {error!r}")
    return Answer(dialect, encoder, wanted, reply, label, _fault(scenario, befallen, place))


def label_of(scenario: Scenario, method: str, path: str, body: bytes) -> str:
    """What the model takes a request for (see ``Recording``), without its being sent."""
    return answer_to(scenario, Befallen(()), method, path, body).label


def _fault(scenario: Scenario, befallen: Befallen, place: Place) -> Fault | None:
    name = place.conversation.name
    return befallen.next("" if name == scenario.marker else name, place.step)
