# SPDX-License-Identifier: Apache-2.0
"""Cases: a response whose source broke is cut, never ended, and nothing of it is lost. SPEC.md section 8."""

from collections.abc import Callable

from history_delta_protocol import wire as names

from ..check import equal, expect, refused, same_octets, status, told
from ..endpoint import Call
from ..frames import conversation, encoded, self_contained
from ..registry import SERVER
from ..wire import Response
from .target import Target

_BODY = conversation(2)
_CAME = b"data: tool call\n\ndata: half of"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_CHUNK = b"%x\r\n%b\r\n" % (len(_CAME), _CAME)

Break = Callable[[Call], None]


def _close(call: Call) -> None:
    call.close()


def _reset(call: Call) -> None:
    call.reset()


async def _cut(target: Target, sent: bytes, broken_by: Break, request: bytes | None = None) -> Response:
    """The response to a call to which the model sends this and then breaks, once that has been seen to arrive."""
    target.model.answer = None
    connection = await target.connect()
    await connection.send(request or target.full_request(_BODY))
    call = await target.model.next_call()
    await call.send(sent)
    response = await connection.read_head()
    while len(response.body) < len(_CAME):
        piece = await connection.next_data(response)
        expect(piece is not None, f"{len(_CAME)} octets of the response", told(response))
        response.body += piece or b""
    broken_by(call)
    while (piece := await connection.next_data(response)) is not None:
        response.body += piece
    return response


def _is_cut(response: Response) -> None:
    status(response, 200)
    equal("what came of the body", response.body, _CAME)
    expect(response.ending == "cut", "a response that ends short, without a terminal chunk", told(response))


@SERVER.case("13.1", "a stream that ends without its terminal chunk is cut", "F-21")
async def _stream(target: Target) -> None:
    for request in (
        target.full_request(_BODY),
        target.full_request(_BODY, rollout=None),
        target.frame_request(encoded(self_contained(_BODY))),
    ):
        _is_cut(await _cut(target, _CHUNKED + _CHUNK, _close, request))


@SERVER.case("13.2", "a body that ends short of its Content-Length is cut", "F-21")
async def _short(target: Target) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    _is_cut(await _cut(target, head + _CAME, _close))


@SERVER.case("13.3", "a stream that is reset is cut, and what came before reaches the client", "F-21")
async def _reset_stream(target: Target) -> None:
    _is_cut(await _cut(target, _CHUNKED + _CHUNK, _reset))


@SERVER.case("13.4", "a stream that ends inside a chunk is cut", "F-21")
async def _inside_a_chunk(target: Target) -> None:
    started = b"%x\r\n%b" % (len(_CAME) + 100, _CAME)
    _is_cut(await _cut(target, _CHUNKED + started, _close))


@SERVER.case("13.5", "a stream whose chunks break the grammar is cut", "F-21")
async def _broken_chunks(target: Target) -> None:
    target.model.answer = None
    connection = await target.connect()
    await connection.send(target.full_request(_BODY))
    call = await target.model.next_call()
    await call.send(_CHUNKED + _CHUNK)
    response = await connection.read_head()
    while len(response.body) < len(_CAME):
        response.body += await connection.next_data(response) or b""
    await call.send(b"no size\r\nmore\r\n0\r\n\r\n")
    while (piece := await connection.next_data(response)) is not None:
        response.body += piece
    call.over()
    _is_cut(response)


@SERVER.case("13.6", "a body that ends with its connection, and is reset instead, is cut", "F-21")
async def _reset_to_the_end(target: Target) -> None:
    _is_cut(await _cut(target, b"HTTP/1.1 200 OK\r\n\r\n" + _CAME, _reset))


@SERVER.case("13.7", "before its first octet, a broken response is a 502 or the end of the connection", "F-21", "S-26")
async def _before(target: Target) -> None:
    for partial in (b"", b"HTTP/1.1 200 OK\r\nContent-Type: te", b"HTTP/1.1 100 Continue\r\n\r\n", b"what?\r\n\r\n"):
        for broken_by in (_close, _reset):

            async def answer(call: Call, partial: bytes = partial, broken_by: Break = broken_by) -> None:
                if partial:
                    await call.send(partial)
                broken_by(call)

            target.model.answer = answer
            connection = await target.connect()
            await connection.send(target.full_request(_BODY))
            response = await connection.response_or_none()
            if response is not None:
                refused(response, 502, names.UPSTREAM_FAILED_CODE)


@SERVER.case("13.8", "all of a large body arrives before the cut, at a client that is slow to read", "F-21")
async def _nothing_is_lost(target: Target) -> None:
    large = bytes(range(256)) * 8192
    target.model.answer = None
    connection = await target.connect()
    await connection.send(target.full_request(_BODY))
    call = await target.model.next_call()
    await call.start()
    response = await connection.read_head()
    for start in range(0, len(large), 65536):
        await call.chunk(large[start : start + 65536])
    call.close()
    parts = []
    while (piece := await connection.next_data(response)) is not None:
        parts.append(piece)
    same_octets("the body", b"".join(parts), large)
    expect(response.ending == "cut", "a cut", told(response))


@SERVER.case("13.9", "a cut closes its own connection alone: others go on", "F-21")
async def _others(target: Target) -> None:
    target.model.answer = None
    first, second = await target.connect(), await target.connect()
    await first.send(target.full_request(_BODY))
    broken = await target.model.next_call()
    await second.send(target.full_request(_BODY))
    whole = await target.model.next_call()
    await broken.send(_CHUNKED + _CHUNK)
    broken.reset()
    _is_cut(await first.read_response())
    await whole.respond(b"whole")
    equal("the other's body", (await second.read_response()).body, b"whole")
