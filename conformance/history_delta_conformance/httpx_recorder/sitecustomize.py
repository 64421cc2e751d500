# SPDX-License-Identifier: Apache-2.0
"""Run by every Python that starts with this folder on PYTHONPATH: writes down what httpx clients are given to send.

One JSON line when a request is given, one when its response has ended, and its body in a file by itself, in
``FILE.bodies``. The standard library alone, on any Python from 3.8 on. What fails here is not recorded, and no failure
of the agent's.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.abc
import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_VARIABLE = "HISTORY_DELTA_RECORD_HTTPX"
_CLIENTS = {"httpx._client", "httpx2._client"}


class Recorder:
    """Appends to one file, from any thread and process: a line is one write."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._bodies = path + ".bodies"
        self._numbers = itertools.count(1)

    def begin(self, request: Any) -> Recording:
        recording = Recording(self, f"{os.getpid()}-{next(self._numbers)}")
        try:
            self._write_request(recording.name, request)
        except Exception:
            recording.lost = True
        return recording

    def _write_request(self, name: str, request: Any) -> None:
        body = _body(request)
        if body is not None:
            os.makedirs(self._bodies, exist_ok=True)
            with open(os.path.join(self._bodies, name), "wb") as file:
                file.write(body)
        self.write(
            event="request",
            id=name,
            time=time.monotonic(),
            method=request.method,
            url=str(request.url),
            target=request.url.raw_path.decode("ascii"),
            headers=[[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers.raw],
            length=None if body is None else len(body),
            sha256=None if body is None else hashlib.sha256(body).hexdigest(),
        )

    def write(self, **fields: Any) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, (json.dumps(fields) + "\n").encode("ascii"))
        finally:
            os.close(descriptor)


class Recording:
    """One request, until its response has ended."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.name = name
        self.lost = False
        self.bytes = 0
        self._recorder = recorder
        self._status: int | None = None
        self._answered: float | None = None

    def answered(self, response: Any) -> None:
        self._status, self._answered = response.status_code, time.monotonic()

    def over(self, ended: str, error: BaseException | None = None) -> None:
        """``ended`` is complete, closed (by the agent, before its end) or exception."""
        if self.lost:
            return
        self.lost = True
        with contextlib.suppress(Exception):
            self._recorder.write(
                event="response",
                id=self.name,
                time=time.monotonic(),
                status=self._status,
                answered=self._answered,
                bytes=self.bytes,
                ended=ended,
                error=error and type(error).__name__,
            )


def _body(request: Any) -> bytes | None:
    """None where it is a stream, which can be read but once."""
    try:
        return bytes(request.content)
    except Exception:
        return None


def _record_clients(module: ModuleType, recorder: Recorder) -> None:
    library = sys.modules[module.__name__.partition(".")[0]]
    client: Any = module.__dict__["Client"]
    async_client: Any = module.__dict__["AsyncClient"]
    client.send = _recorded_send(client.send, recorder, library)
    async_client.send = _recorded_async_send(async_client.send, recorder, library)


def _recorded_send(original: Callable[..., Any], recorder: Recorder, library: Any) -> Callable[..., Any]:
    def send(self: Any, request: Any, *, stream: bool = False, **named: Any) -> Any:
        recording = recorder.begin(request)
        try:
            response = original(self, request, stream=True, **named)
        except BaseException as error:
            recording.over("exception", error)
            raise
        _follow(recording, response, lambda: _recorded_stream(library, response.stream, recording))
        if not stream:  # as httpx does itself; so it is seen where a response breaks off
            try:
                response.read()
            except BaseException:
                response.close()
                raise
        return response

    return send


def _recorded_async_send(original: Callable[..., Any], recorder: Recorder, library: Any) -> Callable[..., Any]:
    async def send(self: Any, request: Any, *, stream: bool = False, **named: Any) -> Any:
        recording = recorder.begin(request)
        try:
            response = await original(self, request, stream=True, **named)
        except BaseException as error:
            recording.over("exception", error)
            raise
        _follow(recording, response, lambda: _recorded_async_stream(library, response.stream, recording))
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response

    return send


def _follow(recording: Recording, response: Any, recorded_stream: Callable[[], Any]) -> None:
    recording.answered(response)
    if response.is_closed:  # it was never on a wire
        recording.over("complete")
    else:
        response.stream = recorded_stream()


def _recorded_stream(library: Any, stream: Any, recording: Recording) -> Any:
    class Recorded(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            try:
                for piece in stream:
                    recording.bytes += len(piece)
                    yield piece
            except Exception as error:
                recording.over("exception", error)
                raise
            recording.over("complete")

        def close(self) -> None:
            try:
                stream.close()
            finally:
                recording.over("closed")

    return Recorded()


def _recorded_async_stream(library: Any, stream: Any, recording: Recording) -> Any:
    class Recorded(library.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in stream:
                    recording.bytes += len(piece)
                    yield piece
            except Exception as error:
                recording.over("exception", error)
                raise
            recording.over("complete")

        async def aclose(self) -> None:
            try:
                await stream.aclose()
            finally:
                recording.over("closed")

    return Recorded()


class Finder(importlib.abc.MetaPathFinder):
    """Has a loader of ours put round that of httpx's clients."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._looking = False

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _CLIENTS or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = RecordingLoader(spec.loader, self._recorder)
        return spec


class RecordingLoader(importlib.abc.Loader):
    def __init__(self, loader: Any, recorder: Recorder) -> None:
        self._loader = loader
        self._recorder = recorder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        with contextlib.suppress(Exception):
            _clean_environment()
            _record_clients(module, self._recorder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _clean_environment() -> None:
    """What the agent's tools inherit is what they would without a recorder."""
    os.environ.pop(_VARIABLE, None)
    others = [entry for entry in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if entry not in ("", _HERE)]
    if others:
        os.environ["PYTHONPATH"] = os.pathsep.join(others)


def _run_next() -> None:
    """The sitecustomize that this one stands before; where there is none, site knows what to do with the error."""
    this = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except BaseException:
        sys.modules["sitecustomize"] = this
        raise


if _HERE in sys.path and __name__ == "sitecustomize":
    sys.path.remove(_HERE)
    if os.environ.get(_VARIABLE):
        sys.meta_path.insert(0, Finder(Recorder(os.path.abspath(os.environ[_VARIABLE]))))
    _run_next()
