# SPDX-License-Identifier: Apache-2.0
"""Puts the in-process transport into the Python programs that a command starts, by their environment.

``environment`` is for the command; ``join`` is called in each such program once it has loaded httpx, by the
sitecustomize in the folder ``injected``. Little is imported here: the rest is, with the first call to the upstream.
"""

import functools
import json
import os
from typing import Any, Callable, Dict, List, Mapping, MutableMapping, Optional

VARIABLE = "HISTORY_DELTA_IN_PROCESS"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "injected")

# Of what is loaded of httpx: the class, its method, and what stands in for that.
_METHODS = (("HTTPTransport", "handle_request", False), ("AsyncHTTPTransport", "handle_async_request", True))


def environment(
    environ: Mapping[str, str], upstream: str, rollout: str, log_file: Optional[str], log_body_hash: bool
) -> Dict[str, str]:
    """The environment with the transport in it. Raises ValueError where our path cannot stand in PYTHONPATH."""
    if os.pathsep in FOLDER:
        raise ValueError("%s cannot be put on PYTHONPATH" % FOLDER)
    given = environ.get("PYTHONPATH")
    others = [entry for entry in (given or "").split(os.pathsep) if given and entry != FOLDER]
    told = {
        "upstream": upstream,
        "rollout": rollout,
        "log_file": log_file,
        "log_body_hash": log_body_hash,
        "roots": _roots(),
        "pythonpath_was_empty": given == "",
    }
    return dict(environ, **{"PYTHONPATH": os.pathsep.join([FOLDER] + others), VARIABLE: json.dumps(told)})


def join(module: Any, options: Dict[str, Any]) -> None:
    """Have the transports of httpx's module for them use ours, and the environment look as if we were not there."""
    _hide(os.environ, options["pythonpath_was_empty"])
    late = _Late(options)
    for kind, method, asynchronous in _METHODS:
        original = getattr(getattr(module, kind), method)
        if original.__code__.co_varnames[: original.__code__.co_argcount] == ("self", "request"):
            setattr(getattr(module, kind), method, (_async_method if asynchronous else _method)(original, late))
    late.log_joined(module.__name__.partition(".")[0])


def _hide(environ: MutableMapping[str, str], was_empty: bool) -> None:
    """What the agent's own children inherit, and its tools print, is what it would be without us."""
    environ.pop(VARIABLE, None)
    if "PYTHONPATH" not in environ:
        return
    others = [entry for entry in environ["PYTHONPATH"].split(os.pathsep) if entry != FOLDER]
    if others or was_empty:
        environ["PYTHONPATH"] = os.pathsep.join(others)
    else:
        del environ["PYTHONPATH"]


def _method(original: Callable[..., Any], late: "_Late") -> Callable[..., Any]:
    @functools.wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        transport = late.transport_for(request)
        if transport is None:
            return original(self, request)
        return transport.handle(late.options, request, functools.partial(original, self))

    return handle_request


def _async_method(original: Callable[..., Any], late: "_Late") -> Callable[..., Any]:
    @functools.wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        transport = late.transport_for(request)
        if transport is None:
            return await original(self, request)
        return await transport.handle_async(late.options, request, functools.partial(original, self))

    return handle_async_request


class _Late(object):
    """The transport, loaded when a request to the upstream's host is made."""

    def __init__(self, told: Dict[str, Any]) -> None:
        self.options: Any = None
        self._told = told
        self._transport: Any = None
        self._broken = False

    def transport_for(self, request: Any) -> Any:
        """The module that is to handle the request, None where it is none of our business."""
        if self._broken or request.url.raw_host.decode("ascii") not in self._told["upstream"].lower():
            return None
        if self._transport is None:
            self._load()
        return self._transport

    def _load(self) -> None:
        try:
            from . import httpx_transport, in_process, origin

            upstream, told = origin.parse_origin(self._told["upstream"]), self._told
            self.options = in_process.Options(upstream, told["rollout"], told["log_file"], told["log_body_hash"])
            self._transport = httpx_transport
        except Exception:  # the agent goes on without us
            self._broken = True

    def log_joined(self, library: str) -> None:
        """Without this line in the log, no program with httpx was started."""
        if self._told["log_file"] is None:
            return
        from . import log, settings

        fd = settings.open_log(self._told["log_file"])
        log.Log(fd).event("joined", pid=os.getpid(), library=library)
        if fd is not None and fd > 2:
            os.close(fd)


def _roots() -> List[str]:
    """Where the packages of the shim lie: one file, or two folders."""
    import history_delta_protocol

    places = [FOLDER, os.path.abspath(history_delta_protocol.__file__)]
    return [os.path.dirname(os.path.dirname(place)) for place in places]
