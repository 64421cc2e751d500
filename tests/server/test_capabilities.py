# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
from history_delta_protocol import wire
from history_delta_server.capabilities import capabilities
from history_delta_server.settings import Settings


def document(**settings: Any) -> dict[str, Any]:
    answer = capabilities(Settings(**settings))
    assert (answer.status, answer.headers, answer.closes) == (200, [], False)
    parsed: dict[str, Any] = json.loads(answer.body)
    return parsed


def test_it_says_version_encodings_and_limits() -> None:
    assert document() == {
        "version": 1,
        "encodings": ["gzip"],
        "limits": {
            "frame_line_bytes": wire.MAX_FRAME_LINE_BYTES,
            "body_bytes": 64 * wire.MIB,
            "messages": wire.MAX_MESSAGES,
            "pieces": wire.MAX_PIECES,
        },
    }


@pytest.mark.parametrize(
    ("body", "in_flight", "said"),
    [(1000, 2000, 1000), (2000, 1000, 1000), (1000, 1000, 1000)],
)
def test_no_body_is_promised_that_would_be_refused_by_either_limit(body: int, in_flight: int, said: int) -> None:
    limits = document(max_body_bytes=body, max_rollout_bytes_in_flight=in_flight)["limits"]
    assert limits["body_bytes"] == said


def test_the_line_of_a_frame_may_be_as_long_as_the_setting_says() -> None:
    assert document(max_frame_line_bytes=4321)["limits"]["frame_line_bytes"] == 4321


async def test_a_server_that_is_off_has_none_and_asks_no_model_for_any(start_model, start_gateway) -> None:
    model = await start_model()
    path = "/ng-rollout/r1" + wire.CAPABILITIES_SUFFIX
    off = await (await start_gateway(model, enabled=False)).post(path, None, method="GET")
    assert (off.status, off.error["code"]) == (404, "not_found")
    on = await (await start_gateway(model)).post(path, None, method="GET")
    assert (on.status, json.loads(on.body)["version"]) == (200, 1)
    assert model.requests == []
