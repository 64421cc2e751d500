# SPDX-License-Identifier: Apache-2.0
"""Ready files: how a process that was started on a free port says where it listens."""

import json
import os
from pathlib import Path


def write_ready_file(path: Path, url: str) -> None:
    """Write ``{"url", "pid"}`` in one step: a reader sees all of it or no file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps({"url": url, "pid": os.getpid()}), encoding="utf-8")
    partial.replace(path)
