# SPDX-License-Identifier: Apache-2.0
"""Applies the rules to the texts of one run and counts what each changed.

A generated id becomes its kind and a number, in the order in which ids of that kind first appear in the run, so that
two that were exchanged stay visible. What the rules are, and why, is in ``rules``.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from .evidence import Evidence
from .rules import Rule

Substitution = Callable[[re.Match[str]], str]


class Normaliser:
    """One run's. Texts must be given in an order that does not depend on which of two concurrent calls came first."""

    def __init__(self, run: Evidence, rules: Sequence[Rule]) -> None:
        self.counts: Counter[str] = Counter()
        own: dict[str, Mapping[str, str]] = {"": {}, "paths": run.paths, "addresses": run.addresses}
        self._own = {text: name for names in own.values() for name, text in names.items() if text}
        self._rules = [
            (rule, rule.pattern or _any_of(own[rule.own].values())) for rule in rules if rule.is_for(run.agent)
        ]
        self._numbers: dict[tuple[str, str], str] = {}
        self._used: Counter[str] = Counter()

    def __call__(self, text: str, aspect: str) -> str:
        for rule, pattern in self._rules:
            if not rule.aspects or aspect in rule.aspects:
                text, count = pattern.subn(self._substitution(rule), text)
                self.counts[rule.name] += count
        return text

    def masked(self, text: str, aspect: str) -> str:
        """The same, uncounted and without giving out numbers: ids that have none yet cannot be told apart."""
        for rule, pattern in self._rules:
            if not rule.aspects or aspect in rule.aspects:
                text = pattern.sub(self._substitution(rule, give_numbers=False), text)
        return text

    def _substitution(self, rule: Rule, give_numbers: bool = True) -> Substitution:
        if rule.rewrite is not None:
            rewrite = rule.rewrite
            return lambda match: _replaced(match, rewrite(match))
        if rule.pattern is None:
            return lambda match: self._own[match.group()]
        constant = rule.constant or f"<{rule.kind or rule.name}>"
        if rule.kind and give_numbers:
            return lambda match: _replaced(match, self._numbered(rule.kind, match["value"]))
        return lambda match: _replaced(match, self._numbers.get((rule.kind, match["value"]), constant))

    def _numbered(self, kind: str, value: str) -> str:
        if (kind, value) not in self._numbers:
            self._used[kind] += 1
            self._numbers[kind, value] = f"<{kind}-{self._used[kind]}>"
        return self._numbers[kind, value]


def _replaced(match: re.Match[str], new: str) -> str:
    """The match with its group ``value`` replaced: the rest is what anchors it and stays."""
    start, end = match.span("value")
    return match.string[match.start() : start] + new + match.string[end : match.end()]


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Any of these as a whole word, the longest first; nothing where there are none."""
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(map(re.escape, longest_first))})(?![0-9A-Za-z_])" if longest_first else r"(?!)")
