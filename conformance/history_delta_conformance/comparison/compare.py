# SPDX-License-Identifier: Apache-2.0
"""Compares a run with the transport off with one with it on, aspect by aspect.

What two runs never have in common is normalised first, by the rules and by nothing else. Within the run with the
transport on, ``raw`` compares what was sent with what arrived, without any rule.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ..calls import Fingerprint
from ..report.results import Finding, RuleCount
from . import attempts, requests
from .evidence import Evidence
from .normalise import Normaliser
from .pairing import in_order, pair
from .pieces import Pieces, pieces_of, raw_text, split_label
from .rules import RECORD, RULES, Rule
from .text import diff
from .tool_calls import tool_calls

# An agent's several sessions are numbered, in the order in which they were begun.
_SESSION = re.compile("session-[0-9]+")


@dataclass(frozen=True)
class Comparison:
    """What differs, one finding for each kind in each aspect, and what each rule changed in either run."""

    findings: tuple[Finding, ...]
    counts: dict[str, RuleCount]

    @property
    def names(self) -> set[str]:
        return {finding.name for finding in self.findings}


@dataclass(frozen=True)
class _Run:
    """A run's evidence, normalised."""

    requests: list[Pieces]
    final_text: str
    usage: str
    record: dict[str, str]
    git_diff: str


def compare(off: Evidence, on: Evidence, rules: Sequence[Rule] = RULES) -> Comparison:
    normalise = Normaliser(off, rules), Normaliser(on, rules)
    runs = _normalised(off, normalise[0]), _normalised(on, normalise[1])
    counts = {
        rule.name: RuleCount(normalise[0].counts[rule.name], normalise[1].counts[rule.name])
        for rule in rules
        if rule.is_for(off.agent)
    }
    return Comparison(tuple(_collapsed([*_findings(*runs), *_plain(off, on)])), counts)


def raw(
    sent: Counter[Fingerprint], received: Counter[Fingerprint], lost: Counter[Fingerprint] | None = None
) -> tuple[Finding, ...]:
    """Whether every body reached the model as the agent sent it, as often as it was sent, and nothing else did.

    ``lost`` are those that were dropped on purpose.
    """
    gone, new = sent - received - (lost or Counter()), received - sent
    if not gone and not new:
        return ()
    summary = f"{gone.total()} bodies did not arrive as they were sent, {new.total()} arrived that were not sent so"
    shown = [f"{sign}{' '.join(each)}" for sign, bodies in (("-", gone), ("+", new)) for each in bodies.elements()]
    return (Finding("bodies", "body-not-equal", summary, "\n".join(shown)),)


def _normalised(run: Evidence, normalise: Normaliser) -> _Run:
    # The order matters: ids are numbered as they appear.
    ordered = in_order(run.requests, lambda each: normalise.masked(raw_text(each), requests.ASPECT))
    return _Run(
        [
            pieces_of(each.label, number, normalise(raw_text(each), requests.ASPECT))
            for number, each in enumerate(ordered)
        ],
        normalise(run.final_text, "final-text"),
        normalise(json.dumps(run.usage, indent=1, default=str), "usage"),
        {
            normalise(name, RECORD): normalise(text, RECORD)
            for name, text in _sessions_in_order(run.session_record, normalise)
        },
        normalise(run.git_diff, "git-diff"),
    )


def _sessions_in_order(record: Mapping[str, str], normalise: Normaliser) -> Iterator[tuple[str, str]]:
    """The texts by name, those of sessions in the order of what they hold: chance decides which of two sub-agents that
    are started at once gets its session first."""
    sessions = [name for name in sorted(record) if _SESSION.fullmatch(name)]
    by_content = sorted(sessions, key=lambda name: normalise.masked(record[name], RECORD))
    texts = {**record, **{name: record[other] for name, other in zip(sessions, by_content, strict=True)}}
    yield from sorted(texts.items())


def _findings(off: _Run, on: _Run) -> Iterator[Finding]:
    yield from requests.findings(pair(off.requests, on.requests))
    yield from _tool_calls(off.requests, on.requests)
    yield from _text("final-text", "the last thing that the agent said", off.final_text, on.final_text)
    yield from _text("usage", "the usage that the agent counted", off.usage, on.usage)
    yield from _mapping(RECORD, "record", off.record, on.record)
    yield from _text("git-diff", "what git says of the workspace", off.git_diff, on.git_diff)


def _plain(off: Evidence, on: Evidence) -> Iterator[Finding]:
    """What needs no normalisation."""
    yield from _mapping("workspace", "file", off.workspace, on.workspace)
    if off.exit_status != on.exit_status:
        statuses = str(off.exit_status), str(on.exit_status)
        yield Finding("exit-status", "exit-status-changed", "the exit status was {}, now {}".format(*statuses))
    yield from attempts.findings(off.attempts, on.attempts)


def _tool_calls(off: Sequence[Pieces], on: Sequence[Pieces]) -> Iterator[Finding]:
    old, new = _calls_by_conversation(off), _calls_by_conversation(on)
    for name in dict.fromkeys([*old, *new]):
        if old.get(name, []) != new.get(name, []):
            lines = old.get(name, []), new.get(name, [])
            shown = diff(*("\n".join(each) for each in lines))
            kind = "tool-calls-changed"
            if Counter(lines[0]) <= Counter(lines[1]):
                kind = "tool-calls-added"
            elif Counter(lines[1]) <= Counter(lines[0]):
                kind = "tool-calls-missing"
            yield Finding("tool-calls", kind, f"{name}: {len(lines[0])} calls and results, now {len(lines[1])}", shown)


def _calls_by_conversation(run: Sequence[Pieces]) -> dict[str, list[str]]:
    """As each conversation's last requests tell them: several, where conversations share a name."""
    last: dict[str, int] = {}
    for request in run:
        name, step = split_label(request.label)
        last[name] = max(step, last.get(name, 0))
    calls: dict[str, list[str]] = {name: [] for name in last}
    for text, (name, step) in sorted({request.text: split_label(request.label) for request in run}.items()):
        if step == last[name]:
            calls[name] += tool_calls(next(each for each in run if each.text == text).messages)
    return calls


def _text(aspect: str, what: str, off: str, on: str) -> Iterator[Finding]:
    if off != on:
        yield Finding(aspect, f"{aspect}-changed", f"{what} is not the same", diff(off, on))


def _mapping(aspect: str, what: str, off: Mapping[str, str], on: Mapping[str, str]) -> Iterator[Finding]:
    for name in dict.fromkeys([*off, *on]):
        if name not in on:
            yield Finding(aspect, f"{what}-missing", f"{name} is missing", f"-{name}")
        elif name not in off:
            yield Finding(aspect, f"{what}-added", f"{name} was added", f"+{name}")
        elif off[name] != on[name]:
            yield Finding(aspect, f"{what}-changed", f"{name} is not the same", diff(off[name], on[name]))


def _collapsed(found: Iterable[Finding]) -> list[Finding]:
    """The first of each kind, saying how many more there are: one fault early on shows in all that follows."""
    by_kind: dict[tuple[str, str], list[Finding]] = {}
    for finding in found:
        by_kind.setdefault((finding.aspect, finding.name), []).append(finding)
    return [
        same[0] if len(same) == 1 else replace(same[0], summary=f"{same[0].summary} (and {len(same) - 1} more such)")
        for same in by_kind.values()
    ]
