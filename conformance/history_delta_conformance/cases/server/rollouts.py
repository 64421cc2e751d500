# SPDX-License-Identifier: Apache-2.0
"""Cases: to which rollout a call belongs, and what rollouts share: nothing. SPEC.md sections 2, 3.2 and 11."""

import secrets

from history_delta_protocol import wire as names

from ..check import equal, none_of_ours, refused, resync, status
from ..frames import body_of, conversation, delta, encoded, message
from ..registry import SERVER
from ..vectors import Vector, read
from .target import Target, new_id


def _can_stand_on_the_wire(vector: Vector) -> bool:
    target, header = vector["target"], vector["rollout_header"] or ""
    return all("!" <= sign <= "~" for sign in target) and header.isascii() and header.isprintable()


@SERVER.case("10.1", "an id outside the grammar, in path or header, is refused (vectors)", "S-2")
async def _invalid(target: Target) -> None:
    for vector in filter(_can_stand_on_the_wire, read("names")["refused_targets"]):
        header = vector["rollout_header"]
        extra = [] if header is None else [(names.ROLLOUT_HEADER, header)]
        response = await target.full(
            conversation(1), target=f"/{target.token}{vector['target']}", rollout=None, extra=extra
        )
        refused(response, vector["refused"]["status"], vector["refused"]["code"])
    await target.nothing_arrived()


@SERVER.case("10.2", "a path and a header that name different rollouts are refused", "S-2")
async def _different(target: Target) -> None:
    path = target.path(prefix=f"/ng-rollout/{target.rollout}")
    for other in (f"{target.rollout}x", target.rollout.upper()):
        refused(await target.full(conversation(1), target=path, rollout=other), 400, names.ROLLOUT_CODE)
    status(await target.full(conversation(1), target=path), 200)
    await target.nothing_arrived(1)


@SERVER.case("10.3", "that is found out before anything else", "S-2")
async def _first(target: Target) -> None:
    broken = {"rollout": None, "extra": [(names.ROLLOUT_HEADER, "-")]}
    refused(await target.full(b"{}", delivery="no id", **broken), 400, names.ROLLOUT_CODE)
    refused(await target.frame(b"no frame", **broken), 400, names.ROLLOUT_CODE)
    refused(await target.frame(b"no frame", version=None, **broken), 400, names.ROLLOUT_CODE)
    await target.nothing_arrived()


@SERVER.case("10.4", "a model call of no rollout passes as through a plain proxy", "S-3")
async def _plain(target: Target) -> None:
    body = conversation(2)
    for options in ({}, {"version": None, "delivery": None}):
        response = await target.full(body, rollout=None, **options)
        await target.taken(body, response)
        none_of_ours("the response", response.headers)
        target.model.calls.clear()


@SERVER.case("10.5", "the id in the path and the id in the header name the same rollout", "S-2", "S-28")
async def _same(target: Target) -> None:
    first, second, third = conversation(2), conversation(3), conversation(4)
    await target.hold(first)
    for prefix, old, new in (
        (f"/ng-rollout/{target.rollout}", first, second),
        (f"/base/ng-rollout/{target.rollout}/training-token-capture", second, third),
    ):
        response = await target.frame(encoded(delta(old, new)), target=target.path(prefix=prefix), rollout=None)
        await target.taken(new, response)
        target.model.calls.clear()


@SERVER.case("10.6", "ids that differ in case, or go on, are others", "S-28", "S-16")
async def _distinct(target: Target) -> None:
    old, new = conversation(2), conversation(3)
    base = secrets.token_hex(8)
    await target.hold(old, rollout=f"{base}a")
    for other in (f"{base}A", f"{base}a.", f"{base}aa", base):
        resync(await target.frame(encoded(delta(old, new)), rollout=other), names.RESYNC_UNKNOWN_BASE)
    await target.nothing_arrived()


@SERVER.case("10.7", "history, head and tail of another rollout are unknown, also where its own are the same", "S-28")
async def _isolated(target: Target) -> None:
    mine = body_of([message("a")], model="mine")
    theirs = body_of([message("a")], model="theirs")
    other = f"r-{secrets.token_hex(8)}"
    await target.hold(mine)
    await target.hold(theirs, rollout=other)
    made = delta(mine, theirs)._replace(head="held")
    resync(await target.frame(encoded(made)), names.RESYNC_UNKNOWN_HEAD)
    await target.taken(theirs, await target.frame(encoded(delta(theirs, theirs)), rollout=other))
    target.model.calls.clear()
    await target.nothing_arrived()


@SERVER.case("10.8", "a delivery id is one of its rollout: in another it is another delivery", "S-28", "S-21")
async def _deliveries_apart(target: Target) -> None:
    delivery = new_id()
    for rollout in (target.rollout, f"r-{secrets.token_hex(8)}"):
        response = await target.full(conversation(2, rollout), rollout=rollout, delivery=delivery)
        status(response, 200)
    equal("the calls at the model", len(target.model.calls), 2)
