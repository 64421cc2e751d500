# SPDX-License-Identifier: Apache-2.0
"""What a run left behind, in the form in which two runs are compared. It is raw: nothing is normalised here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ModelRequest:
    """A request as the model received it. ``label`` is the model's own view of it (``tool-use 3``, ``title``)."""

    label: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True)
class Attempt:
    """A model call as the agent made it, and how it ended: ``status`` None where no response began, ``complete`` False
    where the response was cut. ``size`` is that of the answer's body, where all of it was seen."""

    label: str
    status: int | None
    complete: bool
    size: int | None = None


@dataclass(frozen=True)
class Evidence:
    """One run.

    ``requests`` are in the order of their arrival, probes included. ``usage`` and ``session_record`` are the agent's
    own (text of any form, by name). ``workspace`` maps relative paths to permissions and SHA-256. ``paths`` are this
    run's own folders and ``addresses`` its endpoints: name (``<workspace>``) -> text that stands for it.
    """

    agent: str
    dialect: str
    requests: tuple[ModelRequest, ...]
    attempts: tuple[Attempt, ...]
    final_text: str
    exit_status: int | None
    usage: Mapping[str, object]
    session_record: Mapping[str, str]
    workspace: Mapping[str, str]
    git_diff: str
    paths: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
