# SPDX-License-Identifier: Apache-2.0
"""Names beside a file for what is to take its place, in folders that others may write to as well.

The name cannot be guessed and must be new: nobody's file or link that stands there already is written to.
"""

import os
from typing import Tuple


def name_beside(path: str) -> str:
    """A name in the same folder, so that a rename from there is atomic."""
    return "%s.%s" % (path, os.urandom(8).hex())


def create_beside(path: str, mode: int = 0o600) -> Tuple[int, str]:
    """A new empty file there, open for reading and writing: (descriptor, name)."""
    name = name_beside(path)
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), name
