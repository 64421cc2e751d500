# SPDX-License-Identifier: Apache-2.0
"""Builds ``dist/history_delta_shim.pyz``: protocol and shim in one file that any Python from 3.6 on runs.

Reproducible: the same sources give the same bytes, whenever, wherever and by whomever it is built. (Compression is
zlib's at its default level; a Python built on another deflate implementation may pack differently, never wrongly.)
"""

import argparse
import hashlib
import os
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PACKAGES = (
    os.path.join(ROOT, "protocol", "history_delta_protocol"),
    os.path.join(ROOT, "shim", "history_delta_shim"),
)
SHEBANG = b"#!/usr/bin/env python3\n"
MAX_BYTES = 110 * 1000


def sources():
    """(name in the archive, path) of every file, in the order in which they are stored."""
    found = [("__main__.py", os.path.join(HERE, "history_delta_shim", "__main__.py"))]
    for package in PACKAGES:
        for folder, folders, names in os.walk(package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(".py"):
                    found.append((os.path.relpath(path, os.path.dirname(package)).replace(os.sep, "/"), path))
    return found


def build(target):
    """Write the archive, whole or not at all, and return its SHA-256 in hex."""
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    partial = f"{target}.{os.getpid()}"
    with open(partial, "wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sources():
                archive.writestr(_entry(name), _read(path), _compression(name))
    os.chmod(partial, 0o755)
    os.replace(partial, target)
    return hashlib.sha256(_read(target)).hexdigest()


def _compression(name):
    """What every Python that an agent starts may load first is stored as it is: zlib takes longer to load than it."""
    return zipfile.ZIP_STORED if os.path.basename(name) == "sitecustomize.py" else zipfile.ZIP_DEFLATED


def _entry(name):
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o100644 << 16
    entry.create_system = 3  # Unix, on whatever system it is built
    return entry


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description="Build the shim as one file.")
    parser.add_argument("--output", default=os.path.join(ROOT, "dist", "history_delta_shim.pyz"))
    target = parser.parse_args().output
    digest = build(target)
    size = os.path.getsize(target)
    sys.stdout.write(f"{digest}  {os.path.relpath(target)}  {size} bytes\n")
    if size > MAX_BYTES:
        sys.exit(f"history-delta: the shim has grown beyond {MAX_BYTES} bytes")


if __name__ == "__main__":
    main()
