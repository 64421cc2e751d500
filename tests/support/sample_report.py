# SPDX-License-Identifier: Apache-2.0
"""Reports to show: a large and varied one, a good one, one full of hostile text. They are the same on every call."""

import random
from typing import Any

from history_delta_conformance.report.results import (
    AgentUsed,
    CallBytes,
    Cell,
    Finding,
    Report,
    RuleCount,
    RuleUsed,
    ScenarioUsed,
)
from msgspec.structs import replace

ROWS = (
    ("opencode", "chat", "proxy"),
    ("opencode", "messages", "proxy"),
    ("codex", "responses", "proxy"),
    ("pi", "chat", "proxy"),
    ("hermes", "chat", "proxy"),
    ("hermes", "chat", "in-process"),
    ("kilo", "chat", "proxy"),
)
VERSIONS = {"opencode": "1.2.10", "codex": "0.98.0", "pi": "0.52.9", "hermes": "0.9.0", "kilo": "1.0.21"}
SCENARIOS = {
    "tool-use": "12 turns with parallel tools, 30 kB of output, emoji, CRLF and a failing command",
    "long-history": "60 turns, ending at 500 kB",
    "sub-agents": "two sub-agents in parallel",
    "title": "the side call for a title",
    "compaction": "the history is compacted in one prompt",
    "compaction-between-prompts": "the history is compacted between two prompts",
    "pruning": "an old tool output is rewritten",
    "server-loses-state": "the server forgets everything in mid-run",
    "shim-restarts": "the shim is restarted in mid-run",
    "drop-before": "the connection drops before the response",
    "drop-during": "the connection drops during the response",
    "drop-after": "the connection drops after the response",
    "repeat": "a delivery comes twice",
    "switched-off": "the protocol is switched off in mid-run",
    "status-429": "the model answers 429 once",
    "status-429-retry-after": "the model answers 429 and says when to come back",
    "status-500": "the model answers 500 once",
    "status-503": "the model answers 503 once",
    "reset-before": "the model's connection is reset before a response",
    "cut-after-tool-call": "the stream is cut after a completed tool call",
    "reset": "the model's connection is reset in mid-stream",
    "no-final-event": "the stream ends without the final event",
    "short-length": "the response is shorter than its Content-Length",
    "stall": "the stream stalls",
    "drip": "the stream comes slowly",
}
RULES = (
    RuleUsed("tool-call-id", "agents that mint ids of tool calls draw them at random"),
    RuleUsed("date", "system prompts hold today's date"),
    RuleUsed("port", "the two runs listen on different free ports"),
    RuleUsed("tool-order", "kilo lists its tools in the order of a hash set, off against off as well", ("kilo",)),
)
DIFF = """\
--- off: tool-use 7
+++ on: tool-use 7
@@ -41,5 +41,5 @@
   {"role": "user", "content": "Count the files."},
-  {"role": "tool", "tool_call_id": "<id 7>", "content": "total 12\\r"},
+  {"role": "tool", "tool_call_id": "<id 7>", "content": "total 12"},
   {"role": "assistant", "content": "12 files 👍🏽, naïve, 数"}
"""
# Ends elements, scripts, fences, tables and CDATA sections, moves the cursor, turns the text round, cannot be encoded.
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> ]]> ``` ~~~~ | `a` {{ 7*7 }} {% x %} &amp; "
    "\x1b[31m\x00\x08\r\u202egnirts\u2066 \udc80 \ufffe \u200b עברית *b* _i_ <b> javascript:alert(3)"
)
HOSTILE_DIFF = f"--- off\n+++ on\n@@ -1 +1 @@\n-{HOSTILE}\n+````\n+# no heading\n+</pre></td></table>{HOSTILE}\n"


def cell(**changes: Any) -> Cell:
    """A cell that passed, 12 calls long, but for ``changes``."""
    off, on = calls(12)
    passed = Cell(
        agent="codex",
        version="0.98.0",
        dialect="responses",
        mode="proxy",
        scenario="tool-use",
        verdict="passed",
        requests=13,
        equal=13,
        off_calls=off,
        calls=on,
        rules={"date": RuleCount(12, 12), "port": RuleCount(3, 2)},
        off_seconds=11.25,
        on_seconds=12.5,
        folder="runs/tool-use/codex-responses",
    )
    return replace(passed, **changes)


def calls(number: int, first: int = 20_000, added: int = 8_000) -> tuple[tuple[CallBytes, ...], tuple[CallBytes, ...]]:
    """The calls of a run with the transport off and of one with it on."""
    chance = random.Random(number)
    off, on, body = [], [], first
    for step in range(1, number + 1):
        kind = "self-contained" if step == 1 else "delta"
        new = first if step == 1 else chance.randrange(added // 4, added)
        off.append(CallBytes(f"tool-use {step}", "off", body, body))
        on.append(CallBytes(f"tool-use {step}", kind, body, new // 3 + 300))
        body += chance.randrange(added // 2, added)
    return tuple(off), tuple(on)


FINDING = Finding("requests", "message-changed", "request 7 (tool-use 7): message 14 differs", DIFF)
FAILED = cell(verdict="failed", reason="message-changed", equal=12, findings=(FINDING,))
NOT_RUN = cell(
    verdict="not-run", reason="codex 0.98.0 could not be installed: no network", requests=0, equal=0, off_calls=(),
    calls=(), rules={}, off_seconds=0.0, on_seconds=0.0, folder=None,
)  # fmt: skip


def report(*cells: Cell, **changes: Any) -> Report:
    """A report on these cells alone."""
    made = Report(
        started="2026-03-01T09:30:00Z",
        seconds=1_815.4,
        command="history-delta conformance --agents all --jobs 2",
        versions={"history-delta": "0.1.0", "Python": "3.12.3", "platform": "Linux x86_64"},
        agents=tuple(AgentUsed(name, version, version) for name, version in VERSIONS.items()),
        scenarios=tuple(ScenarioUsed(name, text) for name, text in SCENARIOS.items()),
        rules=RULES,
        cells=cells,
    )
    return replace(made, **changes)


def good_report() -> Report:
    return report(
        *(_passed(row, scenario) for scenario in SCENARIOS for row in ROWS if _problem(row, scenario) is None)
    )


def sample_report() -> Report:
    """All agents and scenarios: 175 cells, of which some failed, were not run, do not apply or are unstable."""
    cells = [_cell(row, scenario) for scenario in SCENARIOS for row in ROWS]
    agents = [AgentUsed(name, version, version) for name, version in VERSIONS.items()]
    agents[2] = AgentUsed("pi", "0.53.0", "0.52.9", "an untested version: 0.53.0 is installed, 0.52.9 was tested")
    return report(*cells, agents=tuple(agents))


def hostile_report() -> Report:
    """Whatever an agent, a model or a machine can name, named as badly as can be."""
    finding = Finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE_DIFF)
    bad = cell(agent=HOSTILE, version=HOSTILE, dialect=HOSTILE, mode=HOSTILE, scenario=HOSTILE, verdict="failed",
               reason=HOSTILE, findings=(finding,), unstable=(finding,), rules={HOSTILE: RuleCount(1, 2)},
               off_calls=(CallBytes(HOSTILE, "off", 10, 10),), calls=(CallBytes(HOSTILE, HOSTILE, 10, 10),),
               folder=HOSTILE)  # fmt: skip
    left_out = replace(NOT_RUN, scenario=HOSTILE, reason=HOSTILE)
    no_use = replace(NOT_RUN, scenario=HOSTILE, agent="pi", verdict="not-applicable", reason=HOSTILE)
    return report(
        bad,
        left_out,
        no_use,
        command=HOSTILE,
        versions={HOSTILE: HOSTILE},
        agents=(AgentUsed(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        scenarios=(ScenarioUsed(HOSTILE, HOSTILE),),
        rules=(RuleUsed(HOSTILE, HOSTILE, (HOSTILE,)),),
    )


_Row = tuple[str, str, str]


def _cell(row: _Row, scenario: str) -> Cell:
    made = _passed(row, scenario)
    problem = _problem(row, scenario)
    if problem is not None:
        verdict, reason = problem
        return replace(NOT_RUN, agent=made.agent, version=made.version, dialect=made.dialect, mode=made.mode,
                       scenario=scenario, verdict=verdict, reason=reason)  # fmt: skip
    if row[0] == "kilo" and scenario == "tool-use":
        order = Finding("requests", "order", "the tools stand in another order", "-[a, b]\n+[b, a]\n")
        return replace(made, unstable=(order,))
    if (row[0], scenario) in (("codex", "drop-during"), ("kilo", "drip")):
        file = Finding("workspace", "file-differs", "result.txt has another SHA-256")
        return replace(made, verdict="failed", reason="", findings=(FINDING, file), equal=made.requests - 1)
    return made


def _problem(row: _Row, scenario: str) -> tuple[str, str] | None:
    if scenario == "sub-agents" and row[0] == "pi":
        return "not-applicable", "pi has no sub-agents"
    if scenario.startswith("compaction") and row[2] == "in-process":
        return "not-applicable", "hermes compacts alike in both modes"
    if row == ("opencode", "messages", "proxy") and scenario not in ("tool-use", "long-history"):
        return "not-applicable", "only the 12-turn run is made in other dialects"
    if row[0] == "pi" and scenario in ("stall", "drip"):
        return "not-run", "pi did not end within 120 s with the transport off"
    return None


def _passed(row: _Row, scenario: str) -> Cell:
    agent, dialect, mode = row
    off, on = calls(60 if scenario == "long-history" else 12 + len(scenario) % 5)
    off_twin = () if scenario == "tool-use" else None
    return cell(agent=agent, version=VERSIONS[agent], dialect=dialect, mode=mode, scenario=scenario, off_calls=off,
                calls=on, requests=len(on), equal=len(on), unstable=off_twin,
                folder=f"runs/{scenario}/{agent}-{dialect}")  # fmt: skip
