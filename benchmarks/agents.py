# SPDX-License-Identifier: Apache-2.0
"""What real agents upload, over every scenario and dialect that they speak, through real shim and server.

Each row is one `history-delta demo`: bodies as the agent sent them and as they reached the model are compared by
SHA-256, on the evidence of recording relays. "New" is the first body plus all appended and rewritten bytes; without
gzip the wire may carry 3 % and 400 B a call more than that, with gzip 45 % of it.

    python benchmarks/agents.py [--agent NAME] [--markdown FILE] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DIALECTS = {
    "opencode": ["chat", "responses", "messages"],
    "codex": ["responses"],
    "pi": ["chat", "responses", "messages"],
    "hermes": ["chat"],
    "kilo": ["chat"],
}
SCENARIOS = {
    "opencode": ["tool-use", "sub-agents", "compaction"],
    "codex": ["tool-use", "compaction"],
    "pi": ["tool-use", "compaction-between-prompts"],
    "hermes": ["tool-use", "compaction"],
    "kilo": ["tool-use"],
}
_HEADINGS = ("agent", "dialect", "scenario", "requests", "bodies B", "new B", "wire B, no gzip", "of its limit")
_HEADINGS += ("wire B", "of new", "fewer", "equal")


class Case(NamedTuple):
    agent: str
    dialect: str
    scenario: str


def cases(agent: str | None) -> Iterator[Case]:
    for name in [agent] if agent else DIALECTS:
        for scenario in SCENARIOS[name]:
            for dialect in DIALECTS[name]:
                yield Case(name, dialect, scenario)


def run(case: Case) -> dict[str, Any]:
    """One run; SystemExit where it does not end well."""
    options = ["--agent", case.agent, "--dialect", case.dialect, "--scenario", case.scenario, "--json"]
    command = [sys.executable, "-m", "history_delta_conformance.cli", "demo", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(options)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    del result["calls"], result["kept"]
    return {**case._asdict(), **result}


def row(result: dict[str, Any]) -> str:
    limit = 1.03 * result["new_bytes"] + 400 * result["requests"]
    sizes = [f"{result[name]:,}" for name in ("body_bytes", "new_bytes", "sent_plain_bytes")]
    cells = [result["agent"], result["dialect"], result["scenario"], str(result["requests"]), *sizes]
    cells += [f"{result['sent_plain_bytes'] / limit:.2f}", f"{result['sent_bytes']:,}"]
    cells += [
        f"{result['sent_bytes'] / result['new_bytes']:.2f}",
        f"{result['body_bytes'] / result['sent_bytes']:.1f}x",
    ]
    cells.append("all" if result["bodies_equal"] else "NO")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--agent", choices=list(DIALECTS), help="that one alone")
    parser.add_argument("--markdown", type=Path, help="write the table there as well")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    arguments = parser.parse_args()
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + "---|" * len(_HEADINGS)]
    print("\n".join(lines))
    results = []
    for case in cases(arguments.agent):
        results.append(run(case))
        lines.append(row(results[-1]))
        print(lines[-1], flush=True)
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
