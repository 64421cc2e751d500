# SPDX-License-Identifier: Apache-2.0
"""``--rewrite FILE``: points a file at the shim in place, for configuration that cannot be reached in any other way.

The original stands beside it, as ``FILE.history-delta-original``, from before the first byte changes until after the
last is restored, and is locked by the run that owns it. Unlocked, it was left by a run that was killed: the next run
with the same FILE restores it first. The file is written, not replaced, so that owner, mode, links and mounts stay.
"""

import contextlib
import fcntl
import os
from typing import Optional

from .substitute import Substitution
from .temporary import create_beside

_SUFFIX = ".history-delta-original"
_CHANGED_SUFFIX = ".history-delta-changed"


class RewriteError(Exception):
    """The file cannot be rewritten; the message says which and why."""


class Rewrite(object):
    """One file pointed at the shim, from construction until ``restore``."""

    def __init__(self, path: str, substitution: Substitution) -> None:
        self.path = os.path.realpath(path)
        self._substitution = substitution
        try:
            self._original = _read(self.path)
            self._written = substitution.apply(self._original)
            os.close(os.open(self.path, os.O_WRONLY))  # read-only: fails before anything is kept
            self._lock = _keep(self.path, self._original)
            _write(self.path, self._written)
        except OSError as error:
            raise RewriteError("%s cannot be rewritten: %s" % (path, error.strerror or error))

    def restore(self) -> None:
        """Give the file its bytes back; where the agent edited it, only the origin in it."""
        try:
            content = _read(self.path)
            unchanged = content == self._written
            _write(self.path, self._original if unchanged else self._substitution.undo(content))
        except FileNotFoundError:
            pass  # the agent removed it
        with contextlib.suppress(FileNotFoundError):  # that too
            os.unlink(self.path + _SUFFIX)
        os.close(self._lock)


def recover(path: str, substitution: Substitution) -> Optional[str]:
    """Restore what a killed run left; what to tell the user, if anything. Raises RewriteError: another run has it."""
    path = os.path.realpath(path)
    kept = path + _SUFFIX
    lock = _lock(kept)
    if lock is None:
        return None
    try:
        with os.fdopen(os.dup(lock), "rb") as file:
            original = file.read()
        line = _recover(path, original, substitution)
        os.unlink(kept)
    except OSError as error:
        raise RewriteError("%s cannot be restored from %s: %s" % (path, kept, error.strerror or error))
    finally:
        os.close(lock)
    return line


def _recover(path: str, original: bytes, substitution: Substitution) -> str:
    try:
        content = _read(path)
    except FileNotFoundError:
        return "%s was removed during a run that was killed; not restored" % path
    if content != original and not substitution.matches_any_shim(original, content):
        _replace(path + _CHANGED_SUFFIX, content)
        _write(path, original)
        return "restored %s after a run that was killed; its edited content is in %s" % (path, path + _CHANGED_SUFFIX)
    _write(path, original)
    return "restored %s after a run that was killed" % path


def _replace(path: str, content: bytes) -> None:
    descriptor, partial = create_beside(path)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.rename(partial, path)


def _keep(path: str, original: bytes) -> int:
    """Put the original beside the file, complete and locked at the moment that it appears."""
    kept = path + _SUFFIX
    lock, partial = create_beside(kept)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _write_all(lock, original)
        os.fsync(lock)
        os.link(partial, kept)
    except FileExistsError:
        os.close(lock)
        raise RewriteError("%s is rewritten by another run" % path)
    except OSError:
        os.close(lock)
        raise
    finally:
        os.unlink(partial)
    return lock


def _lock(kept: str) -> Optional[int]:
    """The kept original, locked; None where there is none."""
    while True:
        try:
            lock = os.open(kept, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RewriteError("%s cannot be opened: %s" % (kept, error.strerror or error))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise RewriteError("%s is rewritten by another run" % kept[: -len(_SUFFIX)])
        if os.fstat(lock).st_nlink:
            return lock
        os.close(lock)  # restored between our open and our lock


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        _write_all(descriptor, content)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
