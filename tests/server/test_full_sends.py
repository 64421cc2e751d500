# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_protocol import wire
from history_delta_server.full_sends import stated_reason
from history_delta_server.request import Rules, classify

PATH = "/ng-rollout/r1/v1/chat/completions"


def reason_of(*stated: bytes, version: bytes = b"1") -> str:
    headers = [(b"History-Delta-Version", version), *((b"history-delta-full", reason) for reason in stated)]
    return stated_reason(classify("POST", PATH, headers, Rules(enabled=True)))


@pytest.mark.parametrize("reason", sorted(wire.FULL_REASONS))
def test_the_shim_says_why(reason) -> None:
    assert reason_of(reason.encode()) == reason


@pytest.mark.parametrize("stated", [(), (b"",), (b"made-up",), (b"not-json ",), (b"\xff",)])
def test_what_is_not_known_is_no_label(stated) -> None:
    assert reason_of(*stated) == "unstated"


def test_a_body_without_the_protocol_comes_from_no_shim() -> None:
    assert reason_of(b"not-json", version=b"9") == "no-shim"
