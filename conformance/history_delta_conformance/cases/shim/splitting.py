# SPDX-License-Identifier: Apache-2.0
"""Cases: the published vectors as bodies of an agent. SPEC.md sections 4, 5 and 6.5.

A shim cannot be told what to send. But whatever it sends must stand for the vector's body, a frame's result must be
the vector's, and a body that the vectors do not split must come in full.
"""

from collections.abc import Callable

from history_delta_protocol import chain

from ..base import NotRun
from ..check import equal
from ..registry import SHIM
from ..vectors import Vector, octets, read
from .bench import Bench, Target, expect_full
from .bodies import TARGETS
from .upstream import speaking

# Behind the history anything may stand: with this much of it a frame is smaller than the body, once it is held.
_PADDING = b" " * 4096
_SENDS = 3


async def _put(bench: Bench, vector: Vector, number: int) -> bool:
    """The vector's body, and a longer one until it is held; whether a frame stood for it."""
    target = f"/ng-rollout/vector-{number}{TARGETS[vector['dialect']]}"
    body = octets(vector["body"])
    await bench.talk(body, target=target)
    for _ in range(_SENDS - 1):
        talk = await bench.talk(body + _PADDING, target=target)
        if vector["split"] is None:
            expect_full(talk, f"vector {vector['id']} is not understood")
        elif talk.call.frame is not None:
            result = talk.call.frame.result
            got = (f"{result.message_count} {chain.to_text(result.chain)}", chain.to_text(result.head))
            count, value = vector["split"]["held"]
            equal(f"vector {vector['id']}: history and head", got, (f"{count} {value}", vector["split"]["head_hash"]))
    return talk.call.is_frame


async def _put_all(target: Target, chosen: Callable[[Vector], bool], encodings: list[str]) -> int:
    """How many of the vectors a frame stood for in the end."""
    async with target.bench(speaking(encodings=encodings)) as bench:
        frames = 0
        for number, vector in enumerate(read("split")["cases"]):
            if chosen(vector):
                frames += await _put(bench, vector, number)
    return frames


def _understood(vector: Vector) -> bool:
    return vector["split"] is not None


@SHIM.case("9.1", "frames of bodies that are split name the vector's history and head", "F-6", "F-7", "F-8", "F-9")
async def understood(target: Target) -> None:
    if not await _put_all(target, _understood, []):
        raise NotRun("the shim sent no frame where it could have")


@SHIM.case("9.2", "the same with gzip", "F-7", "F-8", "F-9", "F-20")
async def understood_with_gzip(target: Target) -> None:
    if not await _put_all(target, _understood, ["gzip"]):
        raise NotRun("the shim sent no frame where it could have")


@SHIM.case("9.3", "bodies that are not split are sent in full, unchanged", "F-2", "F-6", "F-9", "F-10", "C-10")
async def not_understood(target: Target) -> None:
    await _put_all(target, lambda vector: not _understood(vector), ["gzip"])


async def _scenarios(target: Target, encodings: list[str]) -> None:
    async with target.bench(speaking(encodings=encodings)) as bench:
        for number, scenario in enumerate(read("scenarios")["cases"]):
            for step in scenario["steps"]:
                path = f"/ng-rollout/{step['rollout']}-{number}{TARGETS[step['dialect']]}"
                described = step.get("content_type", "application/json")
                content_type = ("Content-Type", described) if described is not None else None
                await bench.talk(octets(step["body"]), target=path, content_type=content_type)


@SHIM.case(
    "9.4",
    "the bodies of the scenarios, in order, before a strict decoder",
    "F-1",
    "F-12",
    "F-13",
    "F-18",
)
async def scenarios(target: Target) -> None:
    await _scenarios(target, [])


@SHIM.case("9.5", "the same with gzip", "F-1", "F-12", "F-13", "F-20")
async def scenarios_with_gzip(target: Target) -> None:
    await _scenarios(target, ["gzip"])
