# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from history_delta_protocol.dialect import CHAT, MESSAGES, RESPONSES
from history_delta_shim import answers


@pytest.mark.parametrize("dialect", [None, CHAT, RESPONSES, MESSAGES])
def test_an_answer_has_the_shape_of_its_dialect(dialect):
    status, headers, body = answers.unreachable(dialect, "10.0.0.1:80: refused")
    document = json.loads(body)
    assert (status, ("Retry-After", "1") in headers) == (503, True)
    assert ("type" in document) is (dialect is MESSAGES)
    assert document["error"]["code"] == "history_delta_unavailable"
    assert "10.0.0.1:80: refused" in document["error"]["message"]


def test_an_answer_on_the_wire():
    raw = answers.to_bytes((426, [("Upgrade", "HTTP/1.1")], b"{}"), keep=True)
    assert raw == b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"


def test_an_answer_to_head_that_ends_the_connection():
    raw = answers.to_bytes(answers.invalid(CHAT, 400, "no"), keep=False, with_body=False)
    assert raw.endswith(b"\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: " in raw
