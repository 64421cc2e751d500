# SPDX-License-Identifier: Apache-2.0
"""Request targets, ids and hashes: SPEC.md sections 2 and 3.2."""

from collections.abc import Iterator

import slow_reference
from describe import Description

PREFIX = "/ng-rollout/r1"


def target(
    path: str,
    dialect: str | None,
    rollout: str | None = None,
    asked: str | None = None,
    *,
    prefix: str = "",
    header: str | None = None,
) -> Description:
    """``asked``: where capabilities are asked for, before a model call; ``prefix``: what names the rollout."""
    given = {"target": path, "rollout_header": header}
    return {**given, "dialect": dialect, "rollout": rollout, "prefix": prefix, "capabilities": asked}


def targets() -> Iterator[Description]:
    known = "/.well-known/history-delta"
    capture = PREFIX + "/training-token-capture"
    yield target("/v1/chat/completions", "chat", asked="/v1" + known)
    yield target("/chat/completions", "chat", asked=known)
    yield target("/v1/responses", "responses", asked="/v1" + known)
    yield target("/v1/messages", "messages", asked="/v1" + known)
    yield target("/v1/messages?beta=true", "messages", asked="/v1" + known)
    yield target("/a/b/c/chat/completions?x=/responses", "chat", asked="/a/b/c" + known)
    yield target(PREFIX + "/v1/responses", "responses", "r1", "/v1" + known, prefix=PREFIX)
    yield target(PREFIX + "/responses", "responses", "r1", known, prefix=PREFIX)
    yield target("/base" + PREFIX + "/v1/messages?a", "messages", "r1", "/base/v1" + known, prefix=PREFIX)
    yield target(capture + "/v1/chat/completions", "chat", "r1", "/v1" + known, prefix=capture)
    other = PREFIX + "/training-token-captures/responses"
    yield target(other, "responses", "r1", "/training-token-captures" + known, prefix=PREFIX)
    twice = PREFIX + "/ng-rollout/r2/responses"
    yield target(twice, "responses", "r1", "/ng-rollout/r2" + known, prefix=PREFIX)
    yield target(PREFIX + "/v1/models", None, "r1", prefix=PREFIX)
    yield target(PREFIX, None, "r1", prefix=PREFIX)
    yield target(PREFIX + "?x=y", None, "r1", prefix=PREFIX)
    yield target(capture, None, "r1", prefix=capture)
    for path in ["/v1/models", "/v1/messages/count_tokens", "/v1/messages/", "/v1/chatcompletions", "/v1/xresponses"]:
        yield target(path, None)
    for path in ["/v1/Responses", "/v1/models?x=/v1/responses", "/v1/responses%2F", "/v1/chat%2Fcompletions", "/"]:
        yield target(path, None)
    yield target("/v1/models?x=/ng-rollout/r1/", None)
    yield target("/v1/responses", "responses", "r2", "/v1" + known, header="r2")
    yield target(PREFIX + "/v1/responses", "responses", "r1", "/v1" + known, prefix=PREFIX, header="r1")
    for rollout in ["a", "0", "A.b_c-9", "9" * 200, "a.." * 60]:
        prefix = "/ng-rollout/" + rollout
        yield target(prefix + "/v1/responses", "responses", rollout, "/v1" + known, prefix=prefix)


def refused_targets() -> Iterator[Description]:
    code = {"status": 400, "code": "history_delta_rollout_invalid"}
    for rollout in ["", ".a", "-a", "_a", "a b", "a%20b", "a%2Fb", "..", "a:b", "9" * 201, "\u00e9", "a\n"]:
        path = "/ng-rollout/" + rollout + "/v1/responses"
        yield {"target": path, "rollout_header": None, "refused": code}
        yield {"target": "/v1/responses", "rollout_header": rollout, "refused": code}
    yield {"target": "/ng-rollout/", "rollout_header": None, "refused": code}
    yield {"target": PREFIX + "/v1/responses", "rollout_header": "r2", "refused": code}
    yield {"target": PREFIX + "/v1/responses", "rollout_header": "R1", "refused": code}


def delivery_ids() -> Iterator[Description]:
    good = "0123456789abcdef" * 2
    for text in [good, "0" * 32, "f" * 32]:
        yield {"text": text, "valid": True}
    for text in ["", good[1:], good + "0", good.upper(), good[1:] + "g", good[1:] + " ", good + "\n", "-" + good[1:]]:
        yield {"text": text, "valid": False}


def hashes() -> Iterator[Description]:
    for octets in [
        bytes(32),
        b"\xff" * 32,
        bytes(range(32)),
        *(slow_reference.chain_values(d, [])[0] for d in ("chat", "responses", "messages")),
    ]:
        yield {"text": slow_reference.text(octets), "hex": octets.hex()}
    good = "A" * 43
    wrong = ["", good[1:], good + "A", good + "=", good[1:] + "B", good[1:] + "=", "+" + good[1:], "/" + good[1:]]
    for text in [*wrong, good[1:] + " ", good + "\n", good[:20] + "\n" + good[:23], "\u00e9" * 43, "A" * 44]:
        yield {"text": text, "hex": None}


def cases() -> Description:
    return {
        "targets": list(targets()),
        "refused_targets": list(refused_targets()),
        "delivery_ids": list(delivery_ids()),
        "hashes": list(hashes()),
    }
