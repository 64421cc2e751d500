# SPDX-License-Identifier: Apache-2.0
from history_delta_server.full_sends import FullSends
from history_delta_server.request import Incoming, classify

PATH = "/ng-rollout/r1/v1/chat/completions"


def incoming(delivery: str = "0" * 32, version: bytes = b"1") -> Incoming:
    headers = [(b"History-Delta-Version", version), (b"History-Delta-Delivery", delivery.encode())]
    return classify("POST", PATH, headers, enabled=True)


def test_reasons() -> None:
    sends = FullSends()
    assert sends.reason(incoming(version=b"9"), rollout_is_new=True) == "no-shim"
    assert sends.reason(incoming(), rollout_is_new=True) == "first-call"
    assert sends.reason(incoming(), rollout_is_new=False) == "shim-chose"


def test_the_delivery_that_was_refused_is_known_once() -> None:
    sends = FullSends()
    sends.resynced(incoming())
    assert sends.reason(incoming("1" * 32), rollout_is_new=False) == "shim-chose"
    assert sends.reason(incoming(), rollout_is_new=True) == "after-resync"
    assert sends.reason(incoming(), rollout_is_new=False) == "shim-chose"


def test_only_the_latest_are_remembered() -> None:
    sends = FullSends()
    for number in range(10_000):
        sends.resynced(incoming(f"{number:032x}"))
    assert len(sends._resynced) == 4096
    assert sends.reason(incoming(f"{9_999:032x}"), rollout_is_new=False) == "after-resync"
