# SPDX-License-Identifier: Apache-2.0
"""From what a run left, in memory and in its folder, to the evidence that is compared. Nothing is judged here."""

import hashlib
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from history_delta_protocol.dialect import split_rollout_path

from ..agents import Agent, Task
from ..calls import is_model_call
from ..chain import Mode
from ..observer import Exchange
from ..run import RunResult
from ..scripted_model import Recording, label_of
from ..scripted_model.recording import OTHER
from .evidence import Attempt, Evidence, ModelRequest

_GIT = ".git"


def gather(agent: Agent, result: RunResult) -> Evidence:
    """Read the workspace and the agent's own record, and put them beside what relays and model saw."""
    task = result.task
    return Evidence(
        agent=agent.name,
        dialect=task.dialect,
        requests=tuple(map(_request, result.model_side)),
        attempts=tuple(_attempt(result, exchange) for exchange in result.agent_side if is_model_call(exchange)),
        final_text=result.agent.final_text,
        exit_status=result.agent.exit_status,
        usage=agent.usage(task),
        session_record=agent.session_record(task),
        workspace=dict(file_hashes(task.workspace)),
        git_diff=_git_diff(task.workspace),
        paths=paths_of(task),
        addresses={"<address>": task.origin.removeprefix("http://")},
        folder=task.folder.parent,
    )


def paths_of(task: Task) -> Mapping[str, str]:
    """The folders of one run by the names that stand for them."""
    return {
        "<workspace>": str(task.workspace),
        "<home>": str(task.home),
        "<agent>": str(task.folder),
        "<folder>": str(task.folder.parent),
    }


def file_hashes(workspace: Path) -> Iterator[tuple[str, str]]:
    """Everything but what is git's own, folders too, by its relative path: type and permissions, then the hash of a
    file's content or where a link points."""
    for path in sorted(workspace.rglob("*")):
        relative = path.relative_to(workspace)
        if relative.parts[0] != _GIT:
            yield str(relative), f"{stat.filemode(path.lstat().st_mode)} {_content(path)}".rstrip()


def _content(path: Path) -> str:
    if path.is_symlink():
        return str(path.readlink())
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _git_diff(workspace: Path) -> str:
    """What was changed, added and removed since the first commit, whether or not the agent told git of it."""
    _git(workspace, "add", "--all")
    first = _git(workspace, "rev-list", "--max-parents=0", "HEAD").split()[-1]
    return _git(workspace, "diff", "--cached", "--binary", first)


def _git(workspace: Path, *arguments: str) -> str:
    command = ["git", "-C", str(workspace), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return done.stdout.decode(errors="surrogateescape")


def _request(recording: Recording) -> ModelRequest:
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in recording.headers)
    label = _label(recording.label, recording.method, recording.path)
    return ModelRequest(label, recording.method, recording.path, headers, recording.body)


def _attempt(result: RunResult, exchange: Exchange) -> Attempt:
    """Labelled as the model would have it, for it need not have got there. Who leaves early had all it wanted."""
    path = split_rollout_path(exchange.target).rest
    label = label_of(result.scenario, exchange.method, path, exchange.body)
    # In process it is not told how much of an answer there was beside what the agent read.
    is_whole = exchange.response_complete and not exchange.left and result.mode is not Mode.IN_PROCESS
    size = exchange.response_bytes if is_whole else None
    complete = exchange.response_complete or exchange.left
    return Attempt(_label(label, exchange.method, path), exchange.status, complete, size)


def _label(label: str, method: str, path: str) -> str:
    """A probe goes by what it asks for."""
    return f"{method} {path}" if label == OTHER else label
