# SPDX-License-Identifier: Apache-2.0
"""The published list of cases, docs/cases.md, made from the registry; run this module to write it to stdout."""

from collections.abc import Iterator

from . import load
from .base import Case
from .registry import SERVER, SHIM, UNOBSERVABLE, Registry
from .requirements import REQUIREMENTS
from .server import ground
from .shim import process

_INTRODUCTION = f"""\
# Published cases

Numbered checks of the [protocol](../protocol/SPEC.md) that anyone can run against a server or a shim of their own. A
number stands for the same case for ever. Each case names the requirements that it checks, with `SHOULD` where it fails
for what the specification only recommends.

    history-delta conformance server \\
        --command "{ground.EXAMPLE}"
    history-delta conformance server --url http://127.0.0.1:8700
    history-delta conformance shim \\
        --command "{process.EXAMPLE}"

What a command starts has `HISTORY_DELTA_ENABLED=1` in its environment, and neither other settings of that prefix nor
proxies of yours; `env NAME=VALUE` in front of the command sets others. Placeholders become the address to listen on,
and where the model or the server is. A shim's command may also have `{process.ROLLOUT_PLACE}`, the rollout's id.

`--list` shows this list, `--case 3.1 --case '4.*'` chooses from it, `--json` and `--junit` write the results to files.
The exit code is 0 where every case passed or was not run for the reason given, 1 otherwise, and 2 where nothing could
be run.

This file is generated: `python -m history_delta_conformance.cases.listing > docs/cases.md`.
"""


def document() -> str:
    """The whole of docs/cases.md."""
    load()
    lines = [_INTRODUCTION]
    for title, registry in (("Servers", SERVER), ("Shims", SHIM)):
        lines += [f"## {title}", "", *_kind(registry)]
    lines += ["## By requirement", "", *_by_requirement()]
    if UNOBSERVABLE:
        lines += ["## Without a case", "", "What cannot be seen from outside of an implementation:", ""]
        lines += [f"- {name} ({level}): {reason}" for (name, level), reason in UNOBSERVABLE.items()] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _kind(registry: Registry) -> Iterator[str]:
    for group, title in sorted(registry.groups.items()):
        cases = [case for case in registry if case.order[0] == group]
        yield from (f"### {registry.kind} {group}: {title}", "", "| case | title | requirements |", "|---|---|---|")
        yield from map(_row, cases)
        yield ""


def _row(case: Case) -> str:
    marks: list[str] = [case.level] if case.level == "SHOULD" else []
    marks += ["slow"] if case.slow else []
    title = case.title.replace("|", "\\|")
    return f"| {case.number} | {title} | {' '.join(case.requirements)}{' · ' * bool(marks)}{', '.join(marks)} |"


def _by_requirement() -> Iterator[str]:
    yield from ("| requirement | section | cases |", "|---|---|---|")
    for requirement in REQUIREMENTS.values():
        cases = [case.name for registry in (SERVER, SHIM) for case in registry if requirement.id in case.requirements]
        yield f"| {requirement.id} | {requirement.section} | {', '.join(cases) or '–'} |"
    yield ""


if __name__ == "__main__":
    print(document(), end="")
