# SPDX-License-Identifier: Apache-2.0
"""Run by every Python that ``run --in-process`` starts: waits for httpx to be imported, and is gone otherwise.

It parses on Python 2.7, says nothing, imports nothing that is not loaded already, and leaves neither itself nor its
folder behind: the next sitecustomize, which this one stands before, is run as if it were the first.
"""

# mypy: ignore-errors

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_WATCHED = ("httpx._transports.default", "httpx2._transports.default")


class _Watch(object):
    """A finder that finds nothing by itself, but sees httpx's transports go by."""

    def __init__(self, told):
        self._told = told
        self._waiting = set(_WATCHED)

    def find_spec(self, name, path=None, target=None):
        if name not in self._waiting:
            return None
        self._waiting.discard(name)  # the search below comes by here as well
        try:
            from importlib.util import find_spec

            spec = find_spec(name)
            self._join_after(spec.loader)
        except Exception:
            return None
        return spec

    def _join_after(self, loader):
        load = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            load(module)
            try:
                _join(module, self._told)
            except Exception:
                pass  # the agent goes on without us

        loader.exec_module = exec_module


def _join(module, told):
    import json

    options = json.loads(told)
    for package in ("history_delta_protocol", "history_delta_shim"):
        if package not in sys.modules:
            _load(package, options["roots"])
    from history_delta_shim import injection

    injection.join(module, options)


def _load(package, roots):
    """Without having the roots on sys.path, where others would find what lies there too."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec(package, roots)
    if not hasattr(spec.loader, "exec_module"):  # an archive, before Python 3.10
        spec.loader.load_module(package)
        return
    sys.modules[package] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[package])


def _start():
    told = os.environ.get("HISTORY_DELTA_IN_PROCESS")
    if told and sys.version_info >= (3, 6):
        sys.meta_path.insert(0, _Watch(told))


if _FOLDER in sys.path:
    sys.path.remove(_FOLDER)
    _start()
    _self = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except BaseException:
        # Where there is no other, this is what site has always met with. Whoever loads us takes us away again.
        sys.modules[__name__] = _self
        raise
