# SPDX-License-Identifier: Apache-2.0
"""Cases: frames that cannot be rebuilt, beyond what the vectors show. SPEC.md section 7."""

from history_delta_protocol import chain, frame
from history_delta_protocol import wire as names

from ..check import complete, equal, expect, refused, resync, status, told
from ..endpoint import Call
from ..frames import body_of, broken, conversation, delta, encoded, message, parts_of, result_of, self_contained
from ..registry import SERVER
from .memory import PeakMemory
from .target import PATHS, Target, new_id

_OTHER = chain.item_hash(b"something that nobody holds")


@SERVER.case("5.8", "a resync comes before any inference, in each dialect, with its three marks and its code", "S-19")
async def _before_inference(target: Target) -> None:
    for dialect in PATHS:
        unknown = delta(conversation(2, "never sent", dialect), conversation(3, "never sent", dialect), dialect)
        resync(await target.frame(encoded(unknown), dialect=dialect), names.RESYNC_UNKNOWN_BASE)
    await target.nothing_arrived()


@SERVER.case("5.9", "the same delivery in full is then served, and held", "S-19", "S-21")
async def _healed(target: Target) -> None:
    old, new = conversation(2), conversation(3)
    delivery = new_id()
    resync(await target.frame(encoded(delta(old, new)), delivery=delivery), names.RESYNC_UNKNOWN_BASE)
    await target.taken(new, await target.full(new, delivery=delivery))
    await target.still_held(new)


@SERVER.case("5.10", "a full send is never answered with a resync", "S-19")
async def _never_for_full(target: Target) -> None:
    for body in (conversation(2), b"nothing", encoded(delta(conversation(1), conversation(2)))):
        response = await target.full(body)
        status(response, 200)
        equal(names.RESYNC_HEADER, response.values(names.RESYNC_HEADER), [])


@SERVER.case("5.11", "a 409 of the model's own is passed on without a mark of ours", "S-19", "F-5")
async def _foreign(target: Target) -> None:
    async def conflict(call: Call) -> None:
        await call.respond(b'{"error":{"code":"busy"}}', (names.RESYNC_HEADER, "unknown-base"), status=409, reason="No")

    target.model.answer = conflict
    body = conversation(2)
    for response in (await target.full(body), await target.frame(encoded(self_contained(body)))):
        status(response, 409)
        equal(names.RESYNC_HEADER, response.values(names.RESYNC_HEADER), [])
        equal("the body", response.body, b'{"error":{"code":"busy"}}')


@SERVER.case("5.12", "the frame is decoded first, then base, head and tail are found, in this order", "S-14")
async def _order(target: Target) -> None:
    old, new = conversation(2), conversation(3)
    await target.hold(old)
    good = delta(old, new)
    no_tail = good._replace(result=good.result._replace(tail=_OTHER, length=1))
    no_head = no_tail._replace(result=no_tail.result._replace(head=_OTHER))
    no_base = no_head._replace(base_chain=_OTHER)
    resync(await target.frame(encoded(no_tail)), names.RESYNC_UNKNOWN_TAIL)
    resync(await target.frame(encoded(no_head)), names.RESYNC_UNKNOWN_HEAD)
    resync(await target.frame(encoded(no_base)), names.RESYNC_UNKNOWN_BASE)
    malformed = broken(no_base, lambda line: line.pop("edits"))
    refused(await target.frame(malformed), 400, names.MALFORMED_CODE)
    short = good._replace(result=good.result._replace(length=1))
    resync(await target.frame(encoded(short)), names.RESYNC_MISMATCH)
    await target.nothing_arrived()


@SERVER.case("5.13", "a frame that stands for gigabytes is refused before anything is copied", "S-14", timeout=30)
async def _amplified(target: Target) -> None:
    size = names.MIB
    old = body_of([message("x" * size)])
    await target.hold(old)
    copies = frame.Pieces(0, [(0, size)] * names.MAX_PIECES)
    made = delta(old, old)._replace(edits=[frame.Edit(1, 0, [(b",", copies)] * 70)])
    memory = PeakMemory(target.server)
    resync(await target.frame(encoded(made)), names.RESYNC_MISMATCH)
    growth = memory.growth()
    expect(growth is None or growth < 64 * size, "less than 64 MiB more memory", f"{growth} octets more")


@SERVER.case("5.14", "what was held before a refusal is held after it", "S-12", "S-15")
async def _undisturbed(target: Target) -> None:
    old, new = conversation(2), conversation(3)
    await target.hold(old)
    good = delta(old, new)
    await target.frame(encoded(good._replace(base_chain=_OTHER)))
    await target.frame(encoded(good._replace(append=[(b",", b"[]")])))
    await target.frame(encoded(good) + b"x")
    await target.frame(b"")
    await target.still_held(old)
    resync(await target.frame(encoded(delta(new, conversation(4)))), names.RESYNC_UNKNOWN_BASE)


@SERVER.case("5.16", "messages that section 4 would not find harm their own rollout alone", "S-18", "S-28")
async def _forged(target: Target) -> None:
    body = conversation(2)
    await target.hold(body)
    before, after = parts_of(body), [(b",", b'{"a":1},{"b":2}'), (b",", b"no value")]
    made = self_contained(body)
    value = before.chain[-1]
    for pair in after:
        value = chain.extend(value, *pair)
    forged = made._replace(
        append=[*before.messages, *after],
        result=made.result._replace(
            message_count=len(before.messages) + len(after),
            chain=value,
            length=len(body) + sum(len(separator) + len(content) for separator, content in after),
        ),
    )
    response = await target.frame(encoded(forged), rollout=f"{target.rollout}-forger")
    if response.status == 200:
        whole = b"".join(separator + content for separator, content in forged.append)
        await target.taken(before.head + whole + before.tail, response)
    else:
        expect(400 <= response.status < 500, "the model's answer, or a refusal", told(response))
    await target.still_held(body)


@SERVER.case("5.15", "head and tail that came in a frame are held with its history", "S-17")
async def _items_of_frames(target: Target) -> None:
    first = body_of([message("a")], model="one")
    second = body_of([message("a"), message("b")], model="two")
    third = body_of([message("a"), message("b"), message("c")], model="two")
    await target.hold(first)
    await target.taken(second, await target.frame(encoded(delta(first, second))))
    target.model.calls.clear()
    response = await target.frame(encoded(delta(second, third)))
    await target.taken(third, response)
    complete(response)
    result = result_of(third)
    wanted = f"{result.message_count} {chain.to_text(result.chain)}"
    expect(response.values(names.HELD_HEADER) == [wanted], f"{names.HELD_HEADER}: {wanted}", told(response))
