# SPDX-License-Identifier: Apache-2.0
"""The agent as a command: works on its prompts in the current folder, prints what it says, leaves a record if asked."""

import argparse
import json
import sys
from pathlib import Path

from .attempts import PASSING
from .history import Json
from .session import DIALECTS, EndlessTask, Session, Setup
from .tools import TASK, TOOLS

_NAME = "builtin"


def main() -> int:
    """Exit code 0 if the model ended the task; 1, with one line on stderr, if anything went wrong."""
    options = _parser().parse_args()
    setup = Setup(options.base_url, DIALECTS[options.dialect], options.model, Path.cwd(), options.window)
    session = Session(setup, _NAME, lambda text: print(text, flush=True), (*TOOLS, TASK))
    try:
        if options.title:
            session.title(options.prompts[0])
        for prompt in options.prompts:
            session.work(prompt)
        return 0
    except (*PASSING, EndlessTask, ValueError, LookupError) as error:
        print(f"built-in agent: {error!r}", file=sys.stderr)
        return 1
    finally:
        _leave_record(session.record.all_events(), options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("builtin-agent", description="A tiny agent; works in the current folder")
    add = parser.add_argument
    add("--base-url", required=True, help="with the API's version, such as http://127.0.0.1:8000/v1")
    add("--dialect", choices=list(DIALECTS), default="chat")
    add("--model", default="mock-model")
    add("--window", type=int, default=200_000, metavar="TOKENS", help="a history near this size is compacted")
    add("--title", action="store_true", help="have the model name the task first")
    add("--session-file", type=Path, metavar="FILE", help="what happened, as JSON lines")
    add("--usage-file", type=Path, metavar="FILE", help="calls and tokens, as JSON")
    add("prompts", nargs="+", metavar="prompt", help="what to do, one after the other in the same session")
    return parser


def _leave_record(events: list[Json], options: argparse.Namespace) -> None:
    if options.session_file is not None:
        lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in events]
        options.session_file.write_text("".join(lines), encoding="utf-8", errors="surrogatepass")
    if options.usage_file is not None:
        options.usage_file.write_text(json.dumps(_usage(events)), encoding="utf-8")


def _usage(events: list[Json]) -> Json:
    figures = [event["usage"] for event in events if event["event"] == "answer"]
    tokens = {name: sum(usage[name] for usage in figures) for name in ("input_tokens", "output_tokens")}
    return {"answers": len(figures), **tokens}


if __name__ == "__main__":
    sys.exit(main())
