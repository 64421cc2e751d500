# SPDX-License-Identifier: Apache-2.0
"""Every request verbatim, as evidence: bytes, headers and order, in memory and, if asked, in a folder."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

INDEX = "index.jsonl"
OTHER = "other"


@dataclass(frozen=True)
class Recording:
    """One request as it was received. ``number`` counts from 1 in the order in which bodies were complete.

    ``label`` is what the model took it for: a conversation and the step that is asked for (``tool-use 3``), ``title``,
    ``summary``, or ``other`` for what is no model call that it understands. ``fault`` is the kind of the fault that it
    was answered with, if any.
    """

    number: int
    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    sha256: str
    label: str = OTHER
    fault: str = ""

    def index_entry(self) -> dict[str, object]:
        return {
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers],
            "body_bytes": len(self.body),
            "sha256": self.sha256,
            "label": self.label,
            "fault": self.fault,
        }


@dataclass
class Recorder:
    """Collects recordings; with a folder, also as ``NNNN.body`` beside one JSON line each in ``index.jsonl``."""

    folder: Path | None = None
    recordings: list[Recording] = field(default_factory=list)

    def record(
        self,
        method: str,
        path: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        label: str = OTHER,
        fault: str = "",
    ) -> Recording:
        number = len(self.recordings) + 1
        recording = Recording(number, method, path, headers, body, hashlib.sha256(body).hexdigest(), label, fault)
        self.recordings.append(recording)
        if self.folder is not None:
            self._store(self.folder, recording)
        return recording

    def _store(self, folder: Path, recording: Recording) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{recording.number:04}.body").write_bytes(recording.body)
        with (folder / INDEX).open("a", encoding="utf-8") as index:
            index.write(json.dumps(recording.index_entry()) + "\n")
