# SPDX-License-Identifier: Apache-2.0
"""Private copies of configuration: a directory of our own in which substituted files are copies and the rest links.

What the agent writes lands where it would have landed without us: through the links while it runs, and by ``settle``
for what it created or replaced. A substituted copy is ours alone and never carried back.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from typing import Dict, List, Mapping, Optional

from .agents import Home
from .temporary import name_beside

_SLOTS = 64
_MAX_CONFIG_BYTES = 8 * 1024 * 1024  # a larger file is no configuration


class PrivateDirectory(object):
    """A locked directory, mode 0700, that ``close`` removes and that the next run reuses after a crash.

    The name is the lowest free number below the user's cache directory: agents show their home's path to the model, so
    that a random name would make every prompt differ. It is not below the temporary directory, where Codex refuses to
    set up its helpers; that is the last resort, also where others can write to the cache directory.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._lock = -1
        self._made: List[str] = []
        self._homes: List[PrivateHome] = []
        try:
            self.path = self._take_slot(_cache_directory(environ))
        except OSError:
            self.path = tempfile.mkdtemp(prefix="history-delta-")

    def _take_slot(self, parent: str) -> str:
        for folder in (os.path.dirname(parent), parent):
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
                self._made.append(folder)
        _check_ours(parent)
        for number in range(_SLOTS):
            path = os.path.join(parent, "run-%d" % number)
            lock = lock_file(path + ".lock")
            if lock is not None:
                self._lock = lock
                shutil.rmtree(path, ignore_errors=True)
                os.mkdir(path, 0o700)
                return path
        raise OSError(errno.EBUSY, "all private directories are in use", parent)

    def home(self, original: str, home: Home, copies: Dict[str, bytes]) -> str:
        """A private copy of an agent's home, with other content in the files named in ``copies``."""
        mirrored = PrivateHome(os.path.join(self.path, home.variable.lower()), os.path.abspath(original), copies)
        self._homes.append(mirrored)
        mirrored.create(home)
        return mirrored.path

    def beside_links(self, original: str, content: bytes) -> str:
        """A private file with other content, among links to what stands beside the original."""
        directory = os.path.join(self.path, "file-%d" % len(self._homes))
        folder, name = os.path.split(os.path.abspath(original))
        mirrored = PrivateHome(directory, folder, {name: content})
        self._homes.append(mirrored)
        mirrored.create(None)
        return os.path.join(directory, name)

    def close(self) -> List[str]:
        """Settle every home and remove the directory; what could not be carried over, one line each."""
        lines = []
        for home in self._homes:
            lines.extend(home.settle())
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            with contextlib.suppress(FileNotFoundError):  # the agent may have emptied the cache
                os.unlink(self.path + ".lock")
            for folder in [os.path.dirname(self.path), *reversed(self._made)]:
                _remove_if_empty(folder)
            os.close(self._lock)
        return lines


class PrivateHome(object):
    """One mirrored directory: ``copies`` by name, everything else of ``original`` linked."""

    def __init__(self, path: str, original: str, copies: Dict[str, bytes]) -> None:
        self.path = path
        self._original = original
        self._copies = copies
        self._linked: List[str] = []
        self._made: List[str] = []

    def create(self, home: Optional[Home]) -> None:
        os.mkdir(self.path, 0o700)
        names = set(names_in(self._original))
        if home is not None:
            for name in home.directories:
                if name not in names:
                    self._make(name)
            names.update(self._made, home.records)
        for name in sorted(names.difference(self._copies)):
            os.symlink(os.path.join(self._original, name), os.path.join(self.path, name))
            self._linked.append(name)
        for name, content in self._copies.items():
            _write_copy(os.path.join(self.path, name), content, os.path.join(self._original, name))

    def _make(self, name: str) -> None:
        try:
            os.mkdir(os.path.join(self._original, name), 0o700)
        except OSError:
            return  # read-only: the agent could not have made it either
        self._made.append(name)

    def settle(self) -> List[str]:
        lines = []
        for name in sorted(names_in(self.path)):
            path, original = os.path.join(self.path, name), os.path.join(self._original, name)
            if name in self._copies:
                if read(path) != self._copies[name]:
                    lines.append("the agent's change to its copy of %s is not carried over" % original)
            elif name in self._linked and os.path.islink(path):
                continue
            else:
                lines.extend(_carry(path, original, replace=name in self._linked))
        for name in self._made:
            _remove_if_empty(os.path.join(self._original, name))
        return lines


def lock_file(path: str) -> Optional[int]:
    """Create and lock a file; None where another process holds it. Unlinked while locked, it is free again."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return lock
        except OSError:
            os.close(lock)
            return None
        os.close(lock)  # its holder unlinked it between our open and our lock


def read(path: str) -> Optional[bytes]:
    """The content of a regular file of a configuration's size; None where there is none."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _MAX_CONFIG_BYTES:
            return None
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _cache_directory(environ: Mapping[str, str]) -> str:
    cache = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "history-delta")


def _check_ours(folder: str) -> None:
    """Raises OSError for a folder in which others could put files and links in the place of ours."""
    found = os.lstat(folder)
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or shared:
        raise OSError(errno.EACCES, "not the user's alone", folder)


def names_in(directory: str) -> List[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _write_copy(path: str, content: bytes, original: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.chmod(path, os.stat(original).st_mode & 0o777)


def _carry(path: str, original: str, replace: bool) -> List[str]:
    """Move what the agent made to where it would have made it; ``replace`` where it replaced what was there."""
    if os.path.isdir(path) and not os.path.islink(path) and os.path.isdir(original):
        lines = []
        for name in names_in(path):
            lines.extend(_carry(os.path.join(path, name), os.path.join(original, name), replace))
        return lines
    if os.path.lexists(original) and not replace:
        return ["%s was made by another run meanwhile; that of this run is lost" % original]
    try:
        _move(path, original)
    except OSError as error:
        return ["%s could not be written: %s" % (original, error)]
    return []


def _move(path: str, original: str) -> None:
    try:
        os.rename(path, original)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = name_beside(original)
        shutil.move(path, beside)
        os.rename(beside, original)


def _remove_if_empty(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:
        pass
