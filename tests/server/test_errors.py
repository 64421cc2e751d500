# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Callable

import pytest
from history_delta_protocol.dialect import CHAT, MESSAGES, RESPONSES, Dialect
from history_delta_server import errors
from history_delta_server.errors import Refused

# Each refusal that follows the call's dialect: how it is made, then its status, code, and a part of its message.
OF_A_CALL = [
    (lambda dialect: errors.malformed(dialect, "base", "expected x"), 400, "history_delta_malformed", "base: expected"),
    (lambda dialect: errors.invalid_rollout(dialect, "a b"), 400, "history_delta_rollout_invalid", "got 'a b'"),
    (lambda dialect: errors.too_large(dialect, "limit 5"), 413, "history_delta_too_large", "limit 5"),
    (lambda dialect: errors.busy(dialect, "later", 3), 429, "history_delta_busy", "later"),
    (lambda dialect: errors.paused(dialect, 60.0), 408, "request_timeout", "60 s (setting agent_pause_seconds)"),
    (lambda dialect: errors.reused(dialect, "0" * 32), 422, "history_delta_delivery_reused", "0" * 32),
    (lambda dialect: errors.unreachable(dialect, "none"), 502, "history_delta_upstream_unreachable", "none"),
    (lambda dialect: errors.failed(dialect, "broke"), 502, "history_delta_upstream_failed", "broke"),
    (lambda dialect: errors.resync(dialect, "unknown-base"), 409, "gym_history_resync", "(unknown-base)"),
]
# And each that comes before there is one.
OF_NO_CALL = [
    (lambda: errors.not_http_1(505, "http_version_not_supported", "no"), 505, "http_version_not_supported", True),
    (lambda: errors.head_too_large(4096), 431, "head_too_large", True),
    (errors.not_found, 404, "not_found", False),
    (errors.upgrade_required, 426, "upgrade_not_supported", False),
]


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES, None], ids=["chat", "responses", "messages", "none"])
@pytest.mark.parametrize(("make", "status", "code", "part"), OF_A_CALL, ids=[row[2] for row in OF_A_CALL])
def test_a_refusal_is_json_as_clients_of_the_dialect_read_it(
    make: Callable[[Dialect | None], Refused], status: int, code: str, part: str, dialect: Dialect | None
) -> None:
    answer = make(dialect).answer
    document = json.loads(answer.body)
    assert (answer.status, document["error"]["code"]) == (status, code)
    assert part in document["error"]["message"]
    assert document.get("type") == ("error" if dialect is MESSAGES else None)
    assert ("param" in document["error"]) == (dialect is not MESSAGES)
    assert answer.body.isascii()
    assert not answer.closes


@pytest.mark.parametrize(("make", "status", "code", "closes"), OF_NO_CALL, ids=[row[2] for row in OF_NO_CALL])
def test_one_without_a_call_closes_where_the_next_request_may_be_part_of_this_one(
    make: Callable[[], Refused], status: int, code: str, closes: bool
) -> None:
    refused = make()
    assert (refused.answer.status, refused.answer.closes, refused.reason) == (status, closes, code)
    assert json.loads(refused.answer.body)["error"]["code"] == code


def test_headers_that_a_status_asks_for() -> None:
    assert errors.busy(CHAT, "later", 3).answer.headers == [(b"Retry-After", b"3")]
    assert errors.resync(CHAT, "mismatch").answer.headers == [(b"History-Delta-Resync", b"mismatch")]
    assert errors.upgrade_required().answer.headers == [(b"Upgrade", b"HTTP/1.1")]
    assert errors.too_large(CHAT, "x").answer.headers == []


def test_logs_call_a_refusal_by_its_code_and_a_resync_by_its_reason() -> None:
    assert errors.reused(CHAT, "d").reason == str(errors.reused(CHAT, "d")) == "history_delta_delivery_reused"
    assert errors.resync(CHAT, "unknown-head").reason == "unknown-head"


def test_answers_of_one_kind_share_no_headers() -> None:
    errors.not_found().answer.headers.append((b"X", b"1"))
    assert errors.not_found().answer.headers == []


def test_a_rollout_id_is_quoted_in_part_and_escaped() -> None:
    message = json.loads(errors.invalid_rollout(None, "\n" + "x" * 1000).answer.body)["error"]["message"]
    assert "\\n" in message
    assert "x" * 249 in message
    assert "x" * 250 not in message
