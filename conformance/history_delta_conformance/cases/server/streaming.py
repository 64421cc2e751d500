# SPDX-License-Identifier: Apache-2.0
"""Cases: responses pass on as they come, unchanged, and end as they ended. SPEC.md section 8."""

from history_delta_protocol import wire as names

from ..check import complete, equal, expect, same_octets, status, told
from ..endpoint import Call
from ..frames import conversation, encoded, self_contained
from ..registry import SERVER
from ..wire import Connection, Header, Response
from .target import Target, new_id

_BODY = conversation(2)
_STREAM: Header = ("Content-Type", "text/event-stream")


async def _begun(target: Target, sent: bytes | None = None) -> tuple[Connection, Call]:
    target.model.answer = None
    connection = await target.connect()
    await connection.send(sent or target.full_request(_BODY))
    return connection, await target.model.next_call()


async def _so_much(connection: Connection, response: Response, length: int) -> bytes:
    """The next octets of a body, so many."""
    data = b""
    while len(data) < length:
        piece = await connection.next_data(response)
        expect(piece is not None, f"{length} octets", f"{len(data)} octets, and the end ({response.ending})")
        data += piece or b""
    return data


@SERVER.case("12.1", "each event is passed on before the model sends the next", "F-23")
async def _event_by_event(target: Target) -> None:
    for sent in (
        target.full_request(_BODY),
        target.full_request(_BODY, rollout=None),
        target.frame_request(encoded(self_contained(_BODY))),
    ):
        connection, call = await _begun(target, sent)
        await call.start(_STREAM)
        response = await connection.read_head()
        for number in range(5):
            event = f"data: {number}\n\n".encode()
            await call.chunk(event)
            equal("the event", await _so_much(connection, response, len(event)), event)
        await call.end()
        equal("what follows", await connection.next_data(response), None)
        complete(response)


@SERVER.case("12.2", "a part of an event is passed on without waiting for the rest of it", "F-23")
async def _octet_by_octet(target: Target) -> None:
    connection, call = await _begun(target)
    await call.start(_STREAM)
    response = await connection.read_head()
    for octet in 'data: {"a":"\N{GRINNING FACE}"}'.encode():
        await call.chunk(bytes([octet]))
        equal("the octet", await _so_much(connection, response, 1), bytes([octet]))
    await call.end()


@SERVER.case("12.3", "so is the head before the body, and the beginning of a body of known length", "F-23")
async def _known_length(target: Target) -> None:
    connection, call = await _begun(target)
    await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    response = await connection.read_head()
    status(response, 200)
    for half in (b"01234", b"56789"):
        await call.send(half)
        equal("the half", await _so_much(connection, response, 5), half)
    call.over()
    equal("what follows", await connection.next_data(response), None)
    complete(response)


@SERVER.case("12.4", "a body passes on octet for octet, however it is framed", "F-23")
async def _octets(target: Target) -> None:
    large = bytes(range(256)) * 8192

    async def in_chunks(call: Call) -> None:
        await call.start()
        for start in range(0, len(large), 100_000):
            await call.chunk(large[start : start + 100_000])
        await call.end()

    async def with_length(call: Call) -> None:
        await call.respond(large)

    async def to_the_end(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + large)
        call.close()

    for answer in (in_chunks, with_length, to_the_end):
        target.model.answer = answer
        response = await target.full(_BODY)
        complete(response)
        same_octets("the body", response.body, large)


@SERVER.case("12.5", "towards the client, a response is delimited by its length or by chunks", "F-22")
async def _delimited(target: Target) -> None:
    async def old(call: Call) -> None:
        await call.send(b"HTTP/1.0 200 OK\r\n\r\nall of it")
        call.close()

    async def new(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        call.close()

    for answer in (old, new):
        target.model.answer = answer
        response = await target.full(_BODY)
        expect(response.framing != "close", "Content-Length or Transfer-Encoding", told(response))
        complete(response)
        equal("the body", response.body, b"all of it")


@SERVER.case("12.6", "interim responses of the model's do not stand for its response", "F-23")
async def _interim(target: Target) -> None:
    async def answer(call: Call) -> None:
        await call.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        await call.respond(b"final", status=201, reason="Made")

    target.model.answer = answer
    response = await target.full(_BODY)
    status(response, 201)
    equal("the body", response.body, b"final")


@SERVER.case("12.7", "a response without a body ends at once", "F-22", "F-23")
async def _no_body(target: Target) -> None:
    async def nothing(call: Call) -> None:
        await call.send(b"HTTP/1.1 204 No Content\r\nX-Answer: 1\r\n\r\n")
        call.over()

    target.model.answer = nothing
    connection = await target.connect()
    for _ in range(2):
        await connection.send(target.full_request(_BODY))
        response = await connection.read_response()
        status(response, 204)
        equal("X-Answer", response.values("X-Answer"), ["1"])


@SERVER.case("12.8", "a stream that ends well without a final event ends well", "F-23")
async def _no_final_event(target: Target) -> None:
    async def answer(call: Call) -> None:
        await call.start(_STREAM)
        await call.chunk(b"data: half an ev")
        await call.end()

    target.model.answer = answer
    response = await target.full(_BODY)
    complete(response)
    equal("the body", response.body, b"data: half an ev")


@SERVER.case("12.9", "a client that leaves after the final event has not failed", "F-24", level="SHOULD")
async def _left_at_the_end(target: Target) -> None:
    delivery = new_id()
    connection, call = await _begun(target, target.full_request(_BODY, delivery=delivery))
    await call.start(_STREAM)
    await call.chunk(b"data: final\n\n")
    response = await connection.read_head()
    await _so_much(connection, response, 13)
    await connection.close()
    await call.chunk(b"\n")
    await call.end()
    again = await target.full(_BODY, delivery=delivery)
    complete(again)
    equal("the body of a repeat", again.body, b"data: final\n\n\n")
    equal("the calls at the model", len(target.model.calls), 1)


@SERVER.case("12.10", "a call whose client has left, and which does not end, is cancelled", "F-24", level="SHOULD")
async def _cancelled(target: Target) -> None:
    connection, call = await _begun(target)
    await call.start(_STREAM)
    await call.chunk(b"data: 1\n\n")
    await connection.read_head()
    await connection.close()
    await call.wait_until_given_up("the server to close its connection to the model")
    call.over()


@SERVER.case("12.11", "so is one whose client leaves before the response begins", "F-24", level="SHOULD")
async def _cancelled_early(target: Target) -> None:
    connection, call = await _begun(target)
    connection.reset()
    await call.wait_until_given_up("the server to close its connection to the model")
    call.over()


@SERVER.case("12.12", "a client that leaves reads on for no more than 64 KiB or 250 ms", "F-24", level="SHOULD")
async def _not_for_long(target: Target) -> None:
    connection, call = await _begun(target)
    await call.start(_STREAM)
    await connection.read_head()
    await connection.close()
    for _ in range(64):
        await call.chunk(bytes(64 * names.KIB))
    await call.wait_until_given_up("the server to close its connection to the model")
    call.over()
