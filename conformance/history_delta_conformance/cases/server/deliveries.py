# SPDX-License-Identifier: Apache-2.0
"""Cases: a delivery that comes again runs once, and is answered with the first one's response. SPEC.md section 8."""

import asyncio

from history_delta_protocol import wire as names

from ..check import complete, equal, error_of, expect, refused, resync, same_octets, status, told
from ..endpoint import Call
from ..frames import conversation, delta, encoded, self_contained
from ..registry import SERVER
from ..wire import Connection
from .target import PATHS, Target, new_id

_EVENTS = (b"data: one\n\n", b"data: two\n\n", b"data: [DONE]\n\n")
_BODY = conversation(2)


async def _sent(target: Target, delivery: str, body: bytes = _BODY) -> Connection:
    connection = await target.connect()
    await connection.send(target.full_request(body, delivery=delivery))
    return connection


async def _begun(target: Target, delivery: str) -> tuple[Connection, Call]:
    """A call that is under way: its first event has been seen."""
    target.model.answer = None
    connection = await _sent(target, delivery)
    call = await target.model.next_call()
    await call.start(("Content-Type", "text/event-stream"))
    await call.chunk(_EVENTS[0])
    return connection, call


def _is_once(target: Target) -> None:
    equal("the calls at the model", len(target.model.calls), 1)


@SERVER.case("11.1", "repeated while it runs, it joins the first one's response from the first octet", "S-21")
async def _while_running(target: Target) -> None:
    delivery = new_id()
    first, call = await _begun(target, delivery)
    await first.read_head()
    second = await _sent(target, delivery)
    head = await second.read_head()
    equal("what comes first", await second.next_data(head), _EVENTS[0])
    for event in _EVENTS[1:]:
        await call.chunk(event)
    await call.end()
    rest = b""
    while (piece := await second.next_data(head)) is not None:
        rest += piece
    equal("what comes then", rest, b"".join(_EVENTS[1:]))
    complete(head)
    await target.nothing_arrived(1)


@SERVER.case("11.2", "repeated after its end, it gets the same response again", "S-21")
async def _after_end(target: Target) -> None:
    async def answer(call: Call) -> None:
        await call.respond(f"answer {len(target.model.calls)}".encode(), ("X-Answer", "1"), status=201, reason="Made")

    target.model.answer = answer
    delivery = new_id()
    responses = [await target.full(_BODY, delivery=delivery) for _ in range(3)]
    for response in responses:
        status(response, 201)
        complete(response)
        equal("the body", response.body, b"answer 1")
        equal("X-Answer", response.values("X-Answer"), ["1"])
    await target.nothing_arrived(1)


@SERVER.case("11.3", "so does the repeat of a call that the model refused", "S-21")
async def _after_error(target: Target) -> None:
    async def fail(call: Call) -> None:
        await call.respond(b'{"error":{}}', status=500, reason="No")

    target.model.answer = fail
    delivery = new_id()
    for _ in range(2):
        status(await target.full(_BODY, delivery=delivery), 500)
    await target.nothing_arrived(1)


@SERVER.case("11.4", "a frame and the full body that it stands for are the same delivery", "S-21")
async def _either_form(target: Target) -> None:
    old, new = conversation(2), conversation(3)
    await target.hold(old)
    for first, second in ((target.full, target.frame), (target.frame, target.full)):
        delivery = new_id()
        for send in (first, second):
            data = new if send == target.full else encoded(delta(old, new))
            response = await send(data, delivery=delivery)
            status(response, 200)
            complete(response)
        await target.nothing_arrived(1)
        target.model.calls.clear()


@SERVER.case("11.5", "several repeats at once are one call, and each is answered in full", "S-21")
async def _at_once(target: Target) -> None:
    delivery = new_id()
    connections = [await _sent(target, delivery) for _ in range(5)]
    responses = await asyncio.gather(*(connection.read_response() for connection in connections))
    for response in responses:
        status(response, 200)
        complete(response)
    await target.nothing_arrived(1)


@SERVER.case("11.6", "a repeat is answered after the first one's connection has gone", "S-21")
async def _first_gone(target: Target) -> None:
    delivery = new_id()
    first, call = await _begun(target, delivery)
    await first.read_head()
    second = await _sent(target, delivery)
    head = await second.read_head()
    first.reset()
    await call.chunk(_EVENTS[1])
    await call.end()
    body = b""
    while (piece := await second.next_data(head)) is not None:
        body += piece
    equal("the body", body, b"".join(_EVENTS[:2]))
    complete(head)
    _is_once(target)


@SERVER.case("11.7", "if the first one's response broke, a repeat gets what was received, and a cut", "S-21", "F-21")
async def _broken(target: Target) -> None:
    delivery = new_id()
    first, call = await _begun(target, delivery)
    call.close()
    for response in (await first.read_response(), await target.full(_BODY, delivery=delivery)):
        status(response, 200)
        equal("the body", response.body, _EVENTS[0])
        expect(response.ending != "complete", "a response that is cut", told(response))
    target.model.answer = None
    _is_once(target)


@SERVER.case("11.8", "with another body, path or query, it is refused with 422", "S-22")
async def _reused(target: Target) -> None:
    delivery = new_id()
    status(await target.full(_BODY, delivery=delivery), 200)
    others = (
        target.full_request(conversation(3), delivery=delivery),
        target.full_request(_BODY + b" ", delivery=delivery),
        target.full_request(_BODY, delivery=delivery, dialect="messages"),
        target.full_request(_BODY, delivery=delivery, target=target.path() + "?x=1"),
        target.frame_request(encoded(self_contained(conversation(3))), delivery=delivery),
    )
    for sent in others:
        refused(await target.exchange(sent), 422, names.REUSED_CODE)
    await target.nothing_arrived(1)


@SERVER.case("11.9", "equal bodies with ids of their own are calls of their own", "S-21")
async def _by_id_alone(target: Target) -> None:
    for dialect in PATHS:
        for _ in range(2):
            status(await target.full(_BODY, dialect=dialect), 200)
    equal("the calls at the model", len(target.model.calls), 2 * len(PATHS))


@SERVER.case("11.10", "what the server refused itself is not remembered: the id serves once more", "S-21", "S-19")
async def _not_remembered(target: Target) -> None:
    limit = await target.limit("frame_line_bytes", names.MAX_FRAME_LINE_BYTES)
    frames = (
        encoded(delta(conversation(2, "unknown"), conversation(3, "unknown"))),
        b"not a frame\n",
        b" " * (limit + 2),
    )
    for frame in frames:
        delivery = new_id()
        response = await target.frame(frame, delivery=delivery)
        expect(400 <= response.status < 500, "a refusal", told(response))
        await target.taken(_BODY, await target.full(_BODY, delivery=delivery))
        target.model.calls.clear()


@SERVER.case("11.11", "a repeat whose response is too large to be kept is not dispatched", "S-23", "S-21", timeout=60)
async def _too_large(target: Target) -> None:
    large = bytes(24 * names.MIB)

    async def answer(call: Call) -> None:
        await call.respond(large)

    target.model.answer = answer
    delivery = new_id()
    first = await target.full(_BODY, delivery=delivery)
    expect(first.body == large and first.ending == "complete", "the whole response", told(first))
    connection = await _sent(target, delivery)
    again = await connection.response_or_none()
    whole = again is None or (again.body == large and again.ending == "complete")
    expect(whole, "the same response, or the end of the connection before its first octet", told(again or first))
    await target.nothing_arrived(1)


@SERVER.case("11.12", "a delivery is known for 60 s after its end", "S-23", level="SHOULD", slow=True, timeout=90)
async def _known_long_enough(target: Target) -> None:
    delivery = new_id()
    status(await target.full(_BODY, delivery=delivery), 200)
    await asyncio.sleep(57)
    await target.full(_BODY, delivery=delivery)
    _is_once(target)


@SERVER.case(
    "11.13", "where no model can be reached: 502, and the delivery is not remembered", "S-24", "S-7", alone=True
)
async def _unreachable(target: Target) -> None:
    delivery = new_id()
    await target.endpoint.stop_listening()
    try:
        response = await target.full(_BODY, delivery=delivery)
    finally:
        await target.endpoint.listen()
    refused(response, 502, names.UPSTREAM_UNREACHABLE_CODE)
    await target.taken(_BODY, await target.full(_BODY, delivery=delivery))


@SERVER.case("11.14", "a call that the model may have acted on is not repeated, whoever asks", "S-26", "S-21")
async def _uncertain(target: Target) -> None:
    async def vanish(call: Call) -> None:
        call.reset()

    async def close(call: Call) -> None:
        call.close()

    for leave in (vanish, close):
        target.model.answer = leave
        delivery = new_id()
        for _ in range(2):
            connection = await _sent(target, delivery)
            response = await connection.response_or_none()
            if response is not None:
                refused(response, 502, names.UPSTREAM_FAILED_CODE)
        await target.nothing_arrived(1)
        target.model.calls.clear()


@SERVER.case("11.15", "nor is it where it was the next one on a connection that served before", "S-26")
async def _uncertain_on_a_kept_connection(target: Target) -> None:
    status(await target.full(_BODY), 200)
    target.model.calls.clear()

    async def close(call: Call) -> None:
        call.close()

    target.model.answer = close
    connection = await _sent(target, new_id())
    response = await connection.response_or_none()
    expect(response is None or response.status >= 500, "a failure", told(response) if response else "")
    expect(response is None or error_of(response), "an error of the server's own", told(response) if response else "")
    await target.nothing_arrived(1)


@SERVER.case("11.16", "a repeat of a call without a response yet waits for the first one's", "S-21")
async def _no_response_yet(target: Target) -> None:
    target.model.answer = None
    delivery = new_id()
    first = await _sent(target, delivery)
    call = await target.model.next_call()
    second = await _sent(target, delivery)
    await target.nothing_arrived(1)
    await call.respond(b"the answer")
    for connection in (first, second):
        response = await connection.read_response()
        complete(response)
        same_octets("the body", response.body, b"the answer")


@SERVER.case("11.17", "a resync is answered to a repeat as well, until the delivery is dispatched", "S-19", "S-21")
async def _resync_again(target: Target) -> None:
    delivery = new_id()
    frame = encoded(delta(conversation(2, "unknown"), conversation(3, "unknown")))
    for _ in range(2):
        resync(await target.frame(frame, delivery=delivery), names.RESYNC_UNKNOWN_BASE)
    await target.nothing_arrived()
