# SPDX-License-Identifier: Apache-2.0
"""Cases: the limits, as this server has them. SPEC.md sections 6.6, 6.7, 8 and 10.1."""

import asyncio
import gzip
import io
import secrets

from history_delta_protocol import wire as names

from ..base import NotRun
from ..check import complete, expect, refused, resync, speaks, status, told
from ..frames import body_of, broken, conversation, delta, encoded, message, self_contained
from ..registry import SERVER
from ..wire import Connection, Response
from .memory import PeakMemory
from .target import Target, new_id

_GZIP = ("Content-Encoding", "gzip")
_SPARE = 64 * names.MIB
# How far a case goes in search of a limit that nobody tells.
_MOST_CALLS = 300
_MOST_BYTES = 160 * names.MIB
_HISTORIES = (320 * names.MIB, 960 * names.MIB)


def _padded(line_bytes: int) -> bytes:
    """A self-contained frame with a line of that length."""
    line, _, literals = encoded(self_contained(conversation(1))).partition(b"\n")
    return line[:-1] + b" " * (line_bytes - len(line)) + line[-1:] + b"\n" + literals


@SERVER.case("7.1", "a line over the server's limit is refused with 413, which names the limit", "S-13")
async def _line(target: Target) -> None:
    limit = await target.limit("frame_line_bytes", names.MAX_FRAME_LINE_BYTES)
    refused(await target.frame(_padded(limit + 1)), 413, names.TOO_LARGE_CODE, str(limit))
    refused(await target.frame(b" " * (limit + 2)), 413, names.TOO_LARGE_CODE, str(limit))
    await target.nothing_arrived()


@SERVER.case("7.2", "a line at the limit is taken", "S-13")
async def _line_at_limit(target: Target) -> None:
    limit = await target.limit("frame_line_bytes", names.MAX_FRAME_LINE_BYTES)
    await target.taken(conversation(1), await target.frame(_padded(limit)))


@SERVER.case("7.3", "a body-length over the server's limit is refused with 413, which names the limit", "S-13")
async def _body(target: Target) -> None:
    limit = await target.limit("body_bytes", names.MAX_BODY_BYTES)
    old, new = conversation(1), conversation(2)
    await target.hold(old)

    def grow(line: dict[str, list[int]]) -> None:
        line["result"][4] = limit + 1

    refused(await target.frame(broken(delta(old, new), grow)), 413, names.TOO_LARGE_CODE, str(limit))
    await target.nothing_arrived()
    await target.still_held(old)


@SERVER.case("7.4", "a frame that decompresses beyond the limit is refused, and never allocated", "S-11", timeout=120)
async def _bomb(target: Target) -> None:
    await target.needs_gzip()
    limit = await target.limit("body_bytes", names.MAX_BODY_BYTES)
    for start in (encoded(self_contained(conversation(1))), b""):
        bomb = _bomb_of(start, 8 * limit)
        memory = PeakMemory(target.server)
        response = await target.frame(bomb, extra=[_GZIP])
        refused(response, 413, names.TOO_LARGE_CODE)
        growth = memory.growth()
        allowed = 2 * limit + _SPARE
        expect(growth is None or growth < allowed, f"less than {allowed} octets more memory", f"{growth} octets more")
    await target.nothing_arrived()


def _bomb_of(start: bytes, size: int) -> bytes:
    """One gzip member that says ``start`` and then so many zeros, made without ever holding them."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as packed:
        packed.write(start)
        piece = bytes(4 * names.MIB)
        for _ in range(size // len(piece)):
            packed.write(piece)
    return out.getvalue()


@SERVER.case("7.5", "a frame that is compressed well within the limit is taken", "S-11", "F-20")
async def _well_compressed(target: Target) -> None:
    await target.needs_gzip()
    body = body_of([message("x" * 2 * names.MIB)])
    packed = gzip.compress(encoded(self_contained(body)), mtime=0)
    await target.taken(body, await target.frame(packed, extra=[_GZIP]))


@SERVER.case("7.6", "over a limit on calls in flight: 429 with Retry-After, for that rollout alone", "S-27", "S-7")
async def _calls(target: Target) -> None:
    target.model.answer = None
    body = conversation(1)
    delivery = new_id()
    for _ in range(_MOST_CALLS):
        connection = await target.connect()
        await connection.send(target.full_request(body, delivery=delivery))
        refusal = await _refusal_or_call(target, connection)
        if refusal is not None:
            break
        delivery = new_id()
    else:
        raise NotRun(f"no limit was met with {_MOST_CALLS} calls in flight")
    _is_busy(refusal)
    other = await target.connect()
    await other.send(target.full_request(body, rollout=f"r-{secrets.token_hex(8)}"))
    await (await target.model.next_call()).respond()
    status(await other.read_response(), 200)
    for call in target.model.calls:
        if not call.is_over.is_set():
            await call.respond()
    again = await target.connect()
    await again.send(target.full_request(body, delivery=delivery))
    await (await target.model.next_call()).respond()
    complete(await again.read_response())


async def _refusal_or_call(target: Target, connection: Connection) -> Response | None:
    """Whichever comes of a request: a response of the server's own, or (None) a call at the model."""
    response = asyncio.ensure_future(connection.read_response())
    call = asyncio.ensure_future(target.model.next_call())
    done, pending = await asyncio.wait((response, call), return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return response.result() if response in done else None


def _is_busy(response: Response) -> None:
    refused(response, 429, names.BUSY_CODE)
    speaks(response)
    expect((response.value("Retry-After") or "").isdigit(), "Retry-After in seconds", told(response))


@SERVER.case("7.7", "over a limit on octets in flight: 429 with Retry-After", "S-27", timeout=120)
async def _octets(target: Target) -> None:
    target.model.answer = None
    body = body_of([message("x" * 8 * names.MIB)])
    for _ in range(_MOST_BYTES // len(body)):
        connection = await target.connect()
        await connection.send(target.full_request(body))
        refusal = await _refusal_or_call(target, connection)
        if refusal is not None:
            _is_busy(refusal)
            return
    raise NotRun(f"no limit was met with {_MOST_BYTES} octets in flight")


@SERVER.case("7.8", "a head of a megabyte is refused, and nothing of it reaches the model", "S-30")
async def _head(target: Target) -> None:
    connection = await target.connect()
    await connection.send(target.full_request(conversation(1), extra=[("X-Large", "x" * names.MIB)]))
    response = await connection.response_or_none()
    expect(response is None or 400 <= response.status < 500, "a 4xx or the end", told(response) if response else "")
    await target.nothing_arrived()


@SERVER.case("7.9", "histories beyond what a server holds are let go of: a resync answers", "S-30", timeout=300)
async def _histories(target: Target) -> None:
    for octets in _HISTORIES:
        first = body_of([message(secrets.token_hex(4 * names.MIB))])
        await target.hold(first)
        held = 0
        while held < octets:
            latest = body_of([message(secrets.token_hex(4 * names.MIB))])
            await target.hold(latest)
            held += len(latest)
        # Asking after it before would have kept it.
        response = await target.frame(encoded(delta(first, first)))
        if response.status == names.RESYNC_STATUS:
            resync(response, names.RESYNC_UNKNOWN_BASE, names.RESYNC_UNKNOWN_HEAD, names.RESYNC_UNKNOWN_TAIL)
            await target.still_held(latest)
            return
        await target.taken(first, response)
    raise NotRun(f"no limit was met with {octets} octets of histories")
