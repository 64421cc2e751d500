# SPDX-License-Identifier: Apache-2.0
"""A server of this project between two relays that spoil one thing: ``broken_server.py FAULT --listen … --model …``.

The cases must find each fault by number. ``faithful`` spoils nothing: whatever fails there, the relays are to blame.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path

from history_delta_conformance.cases.endpoint import Call, Endpoint, Request
from history_delta_conformance.cases.transcript import Transcript
from history_delta_conformance.cases.wire import Connection, Response, request_head
from history_delta_conformance.processes import SERVER_COMMAND, ReadyProcess


class Relay:
    """Passes requests and responses on faithfully; a fault replaces one of its methods."""

    port = 0

    async def __call__(self, call: Call) -> None:
        request = self.request(call.request)
        connection = await self.send(request)
        response = await connection.response_or_none(request.method)
        if response is None:
            await connection.close()
            call.reset()
            return
        await self.answer(call, connection, self.response(request, response))
        await connection.close()

    async def send(self, request: Request) -> Connection:
        connection = await Connection.open("127.0.0.1", self.port, Transcript(), "relay")
        headers = [header for header in request.headers if header[0].lower() not in _FRAMING]
        if request.body or request.method == "POST":
            headers.append(("Content-Length", str(len(request.body))))
        await connection.send(request_head(request.method, request.target, headers) + request.body)
        return connection

    def request(self, request: Request) -> Request:
        return request

    def response(self, request: Request, response: Response) -> Response:
        return response

    async def answer(self, call: Call, connection: Connection, response: Response) -> None:
        headers = [header for header in response.headers if header[0].lower() not in _FRAMING]
        await call.start(*headers, status=response.status, reason=response.reason)
        if response.body:
            await call.chunk(response.body)
        if response.ending == "complete":
            await call.end()
        else:
            self.broke(call)

    def broke(self, call: Call) -> None:
        call.close()


_FRAMING = ("content-length", "transfer-encoding", "connection")


class Streaming(Relay):
    """Passes pieces on as they come."""

    async def __call__(self, call: Call) -> None:
        connection = await self.send(call.request)
        response = await connection.read_head(call.request.method)
        headers = [header for header in response.headers if header[0].lower() not in _FRAMING]
        await call.start(*headers, status=response.status, reason=response.reason)
        while (piece := await connection.next_data(response)) is not None:
            await call.chunk(piece)
        if response.ending == "complete":
            await call.end()
        else:
            await self.at_the_break(call)
        await connection.close()

    async def at_the_break(self, call: Call) -> None:
        call.close()


class EndsWhatBroke(Streaming):
    async def at_the_break(self, call: Call) -> None:
        await call.end()


class ResetsWhatBroke(Streaming):
    async def at_the_break(self, call: Call) -> None:
        call.reset()


class AddsOurHeaders(Relay):
    def request(self, request: Request) -> Request:
        request.headers.append(("history-delta-version", "1"))
        return request


class LetsForgeriesThrough(Relay):
    def response(self, request: Request, response: Response) -> Response:
        response.headers.append(("History-Delta-Held", "7 " + "A" * 43))
        return response


class RefusesMismatches(Relay):
    def response(self, request: Request, response: Response) -> Response:
        if ("History-Delta-Resync", "mismatch") in response.headers:
            response.status = 400
        return response


class ForgetsDeliveries(Relay):
    def request(self, request: Request) -> Request:
        fresh = os.urandom(16).hex()
        request.headers = [
            (name, fresh) if name.lower() == "history-delta-delivery" and len(value) == 32 else (name, value)
            for name, value in request.headers
        ]
        return request


class SharesRollouts(Relay):
    def request(self, request: Request) -> Request:
        request.headers = [
            (name, "shared") if name.lower() == "history-delta-rollout" else (name, value)
            for name, value in request.headers
        ]
        return request


class RefusesWithoutVersion(Relay):
    def response(self, request: Request, response: Response) -> Response:
        if response.status >= 400:
            response.headers = [header for header in response.headers if header[0] != "History-Delta-Version"]
        return response


class WritesBodiesAnew(Relay):
    def request(self, request: Request) -> Request:
        with contextlib.suppress(ValueError):
            request.body = json.dumps(json.loads(request.body)).encode()
        return request


class ForwardsReservedPaths(Relay):
    def request(self, request: Request) -> Request:
        request.target = request.target.replace("/.history-delta", "/history-delta")
        return request


class ForwardsStrayFrames(Relay):
    def request(self, request: Request) -> Request:
        if not request.target.endswith(("/completions", "/responses", "/messages")):
            request.headers = [
                (name, "application/octet-stream") if name.lower() == "content-type" else (name, value)
                for name, value in request.headers
            ]
        return request


class FollowsTheTarget(Relay):
    async def send(self, request: Request) -> Connection:
        scheme, found, rest = request.target.partition("://127.0.0.1:")
        port = int(rest.partition("/")[0]) if found and scheme in ("http", "HTTP", "https") else self.port
        mine, self.port = self.port, port
        try:
            return await super().send(request)
        finally:
            self.port = mine


class RetriesBehind(Relay):
    """Stands between server and model, and asks the model once more where it did not answer."""

    async def __call__(self, call: Call) -> None:
        for _ in range(2):
            connection = await self.send(call.request)
            response = await connection.response_or_none(call.request.method)
            if response is not None:
                await self.answer(call, connection, response)
                return
        call.close()


# In front of the server, behind it: a relay that is not named is none.
FAULTS: dict[str, tuple[type[Relay] | None, type[Relay] | None]] = {
    "faithful": (Streaming, None),
    "buffers": (Relay, None),
    "ends-what-broke": (EndsWhatBroke, None),
    "resets-what-broke": (ResetsWhatBroke, None),
    "forwards-hop-local": (None, AddsOurHeaders),
    "lets-forgeries-through": (LetsForgeriesThrough, None),
    "answers-mismatch-with-400": (RefusesMismatches, None),
    "forgets-deliveries": (ForgetsDeliveries, None),
    "shares-rollouts": (SharesRollouts, None),
    "refuses-without-version": (RefusesWithoutVersion, None),
    "writes-bodies-anew": (None, WritesBodiesAnew),
    "forwards-reserved-paths": (ForwardsReservedPaths, None),
    "forwards-stray-frames": (ForwardsStrayFrames, None),
    "follows-the-target": (FollowsTheTarget, None),
    "retries": (None, RetriesBehind),
}


async def main(fault: str, listen: str, model: str) -> None:
    front, behind = FAULTS[fault]
    host, _, port = listen.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        async with Endpoint(behind() if behind else Relay()) as back:
            back.behave.port = int(model.rpartition(":")[2])
            upstream = back.origin if behind else model
            address = "127.0.0.1:0" if front else listen
            options = ["--upstream", upstream, "--listen", address, "--admin-listen", "127.0.0.1:0"]
            enabled = {"HISTORY_DELTA_ENABLED": os.environ["HISTORY_DELTA_ENABLED"]}
            async with ReadyProcess("server", [*SERVER_COMMAND, *options], Path(folder), enabled) as server:
                if front is None:
                    await asyncio.Event().wait()
                relay = front()
                relay.port = int(server.url.rpartition(":")[2])
                async with Endpoint(relay, host, int(port)):
                    await asyncio.Event().wait()


async def until_told_to_stop(work) -> None:
    """The server within is a session of its own: it must be stopped, and not left behind."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--listen")
    parser.add_argument("--model")
    options = parser.parse_args()
    asyncio.run(until_told_to_stop(main(options.fault, options.listen, options.model)))
