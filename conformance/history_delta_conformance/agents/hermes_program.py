# SPDX-License-Identifier: Apache-2.0
"""A program that has Hermes within itself, as a training environment has it: ``python hermes_program.py JOB.json``.

It is run by the Python that Hermes is installed for, and imports nothing of ours. The job holds the arguments of the
agent, the prompt and a file for the result; the answer is printed.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any


def main(job_file: str) -> int:
    job: dict[str, Any] = json.loads(Path(job_file).read_text(encoding="utf-8"))
    with contextlib.redirect_stdout(sys.stderr):
        result = converse(job["agent"], job["prompt"])
    Path(job["result"]).write_text(json.dumps(result, default=str), encoding="utf-8")
    print(result.get("final_response") or "")
    return 0 if result.get("completed") else 1


def converse(arguments: dict[str, Any], prompt: str) -> dict[str, Any]:
    from gateway.session_context import declare_stateless_channel  # type: ignore[import-not-found]
    from run_agent import AIAgent  # type: ignore[import-not-found]

    # Nothing of ours comes back to a sub-agent later: its result belongs into the conversation.
    declare_stateless_channel()
    result: dict[str, Any] = AIAgent(**arguments).run_conversation(prompt, None, [])
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
