# SPDX-License-Identifier: Apache-2.0
"""Cases: the agent's own body, in full. SPEC.md sections 3.4 and 1."""

from history_delta_protocol import wire as names

from ..check import complete, equal, expect, refused, same_octets, speaks, status, told
from ..endpoint import Call
from ..frames import broken, conversation, delta, held, self_contained
from ..registry import SERVER
from ..wire import chunked, request_head
from .target import JSON, PATHS, Target

_BODIES = (
    b'{"model":"m","messages":[{"role":"user","content":"hi"}]}',
    b'{ "model" : "m" ,\r\n\t"messages" : [ {"role":"user","content":"\\ud83d"} , 12345678901234567890123 ] }\n',
    b'{"messages":[1e999,-0,NaN],"messages":[],"a":1,"a":2}',
    b'\xef\xbb\xbf{"messages":[]}',
    b"not JSON at all \x00\xff",
    b"",
)


@SERVER.case("2.1", "a body reaches the model octet for octet, whatever it is", "F-1", "F-2", "S-5")
async def _passed_on(target: Target) -> None:
    for body in _BODIES:
        response = await target.full(body)
        await target.taken(body, response)
        target.model.calls.clear()


@SERVER.case("2.2", "a body in chunks reaches the model octet for octet", "F-1", "S-5")
async def _chunked(target: Target) -> None:
    body = conversation(20)
    headers = target.headers(None, rollout=target.rollout, extra=[("Transfer-Encoding", "chunked")])
    sent = request_head("POST", target.path(), headers) + chunked(body[:1], body[1:700], body[700:])
    await target.taken(body, await target.exchange(sent))


@SERVER.case("2.3", "a body of 3 MB reaches the model octet for octet", "F-1", "S-5")
async def _large(target: Target) -> None:
    body = conversation(3, "x" * 1_000_000)
    await target.taken(body, await target.full(body))


@SERVER.case("2.4", "a body with a Content-Encoding is passed on with it, and not held", "S-6", "S-5")
async def _encoded(target: Target) -> None:
    body = conversation(2)
    response = await target.full(body, extra=[("Content-Encoding", "x-agent")])
    await target.taken(body, response)
    equal("Content-Encoding at the model", target.model.only().request.values("Content-Encoding"), ["x-agent"])
    expect(response.value(names.HELD_HEADER) is None, f"no {names.HELD_HEADER}", told(response))


@SERVER.case("2.14", "a body too large to hold is passed on, and not said to be held", "S-6", "F-1", timeout=60)
async def _too_large(target: Target) -> None:
    body = conversation(5, "x" * 8 * names.MIB)
    response = await target.full(body)
    await target.taken(body, response)
    said = response.values(names.HELD_HEADER)
    expect(said in ([], [held(body)]), f"no {names.HELD_HEADER}, or the right one", told(response))
    if said:
        await target.still_held(body)


@SERVER.case("2.5", "what can be split is held, and History-Delta-Held names it", "S-6", level="SHOULD")
async def _held(target: Target) -> None:
    for dialect in PATHS:
        for body in (conversation(3, dialect=dialect), conversation(0, dialect=dialect)):
            response = await target.full(body, dialect=dialect)
            equal(names.HELD_HEADER, response.values(names.HELD_HEADER), [held(body, dialect)])


@SERVER.case("2.6", "it is held whatever the model's status", "S-6", level="SHOULD")
async def _held_on_errors(target: Target) -> None:
    for code in (400, 409, 429, 500):

        async def fail(call: Call, code: int = code) -> None:
            await call.respond(b'{"error":{}}', status=code, reason="No")

        target.model.answer = fail
        body = conversation(2, str(code))
        response = await target.full(body)
        status(response, code)
        equal(names.HELD_HEADER, response.values(names.HELD_HEADER), [held(body)])


@SERVER.case("2.7", "what History-Delta-Held names is held when it is sent: before the model has ended", "S-6")
async def _held_at_once(target: Target) -> None:
    await target.hold(conversation(1, "probe"))
    target.model.answer = None
    body = conversation(3)
    connection = await target.connect()
    await connection.send(target.full_request(body))
    first = await target.model.next_call()
    await first.start(("Content-Type", "text/event-stream"))
    await first.chunk(b"data: 1\n\n")
    response = await connection.read_head()
    equal(names.HELD_HEADER, response.values(names.HELD_HEADER), [held(body)])
    longer = conversation(4)
    second = await target.connect()
    await second.send(target.frame_request(broken(delta(body, longer), lambda line: None)))
    call = await target.model.next_call()
    same_octets("the body at the model", call.request.body, longer)
    await call.respond()
    await first.end()


@SERVER.case("2.8", "every response to a model call of a rollout carries History-Delta-Version: 1", "S-7")
async def _spoken(target: Target) -> None:
    body = conversation(2)
    speaks(await target.full(body))
    speaks(await target.full(b"[]"))
    speaks(await target.full(body, version=None, delivery=None))
    speaks(await target.full(body, delivery="not-an-id"))
    speaks(await target.full(body, target=target.path(prefix=f"/ng-rollout/{target.rollout}"), rollout=None))

    async def fail(call: Call) -> None:
        await call.respond(b"no", status=503, reason="No")

    target.model.answer = fail
    speaks(await target.full(body))

    async def vanish(call: Call) -> None:
        call.reset()

    target.model.answer = vanish
    connection = await target.connect()
    await connection.send(target.full_request(body))
    if (answered := await connection.response_or_none()) is not None:
        speaks(answered)


@SERVER.case("2.9", "so does every response to a frame", "S-7")
async def _spoken_to_frames(target: Target) -> None:
    good = self_contained(conversation(1))
    speaks(await target.frame(broken(good, lambda line: None)))
    speaks(await target.frame(b"nothing\n"))
    speaks(await target.frame(b"nothing\n", version=None))
    speaks(await target.frame(b"nothing\n", rollout="-"))
    speaks(await target.frame(b"nothing\n", target=f"/{target.token}/v1/models"))
    speaks(await target.frame(b"nothing\n", rollout=None))
    speaks(await target.frame(broken(delta(conversation(1, "?"), conversation(2, "?")), lambda line: None)))


@SERVER.case("2.10", "the server does nothing with a reason for a full body", "C-7", "S-5")
async def _reasons(target: Target) -> None:
    body = conversation(2)
    for reason in ("not-json", "resync:disabled", "suspended", "no such reason", "\xff"):
        response = await target.full(body, extra=[(names.FULL_HEADER, reason)])
        await target.taken(body, response)
        complete(response)
        target.model.calls.clear()


@SERVER.case("2.11", "headers and members that it does not know disturb nothing", "F-25")
async def _unknown(target: Target) -> None:
    body = conversation(2)
    response = await target.full(body, extra=[("History-Delta-Unheard-Of", "1")])
    await target.taken(body, response)
    target.model.calls.clear()
    response = await target.frame(
        broken(self_contained(body), lambda line: None), extra=[("History-Delta-Unheard-Of", "1")]
    )
    await target.taken(body, response)


@SERVER.case("2.12", "a delivery id outside the grammar, or a header of ours twice, is refused", "S-1")
async def _malformed_headers(target: Target) -> None:
    body = conversation(1)
    ids = ("", "0" * 31, "0" * 33, "A" * 32, "g" * 32, "-" + "0" * 31)
    for delivery in ids:
        sent = target.full_request(body, delivery=None, extra=[(names.DELIVERY_HEADER, delivery)])
        refused(await target.exchange(sent), 400, names.MALFORMED_CODE)
    twice = (
        (names.VERSION_HEADER, "1"),
        (names.DELIVERY_HEADER, "0" * 32),
        (names.DELIVERY_HEADER.lower(), "1" * 32),
        (names.VERSION_HEADER.upper(), "1"),
        (names.ROLLOUT_HEADER, target.rollout),
    )
    for header in twice:
        refused(await target.full(body, extra=[header]), 400, names.MALFORMED_CODE)
    await target.nothing_arrived()


@SERVER.case("2.13", "what is refused is refused in the shape of the call's dialect", "S-1", "S-12")
async def _shapes(target: Target) -> None:
    for dialect in PATHS:
        response = await target.frame(b"nothing\n", dialect=dialect)
        refused(response, 400, names.MALFORMED_CODE)
        equal("Content-Type", (response.value("Content-Type") or "").partition(";")[0], JSON)
        outer = b'"type": "error"' in response.body or b'"type":"error"' in response.body
        expect(outer == (dialect == "messages"), f"an error in the shape of {dialect}", told(response))
