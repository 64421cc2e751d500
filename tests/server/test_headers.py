# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_server import headers


def test_hop_by_hop_headers_and_ours_stay_and_all_else_keeps_order_case_and_duplicates() -> None:
    received = [
        (b"X-a", b"1"),
        (b"Connection", b"keep-alive, X-Private"),
        (b"x-A", b"2"),
        (b"X-a", b"3"),
        (b"x-private", b"secret"),
        (b"HISTORY-DELTA-Held", b"1 x"),
        (b"History-Delta-Anything", b"x"),
        (b"Transfer-Encoding", b"chunked"),
        (b"TE", b"trailers"),
        (b"Expect", b"100-continue"),
        (b"Upgrade", b"h2c"),
        (b"Content-Length", b"3"),
        (b"X-Bytes", b"\xff\xe9"),
    ]
    assert headers.end_to_end(received) == [
        (b"X-a", b"1"),
        (b"x-A", b"2"),
        (b"X-a", b"3"),
        (b"Content-Length", b"3"),
        (b"X-Bytes", b"\xff\xe9"),
    ]


@pytest.mark.parametrize("name", [b"Authorization", b"Content-Length", b"host", b"Content-Type"])
def test_a_peer_cannot_have_what_matters_removed_by_naming_it_in_connection(name: bytes) -> None:
    received = [(b"Connection", name), (name, b"x")]
    assert headers.end_to_end(received) == [(name, b"x")]


def test_replaced_takes_the_place_of_the_first_and_drops_the_others() -> None:
    received = [(b"a", b"1"), (b"HOST", b"x"), (b"b", b"2"), (b"host", b"y")]
    assert headers.replaced(received, b"Host", b"z") == [(b"a", b"1"), (b"HOST", b"z"), (b"b", b"2")]
    assert headers.replaced(received, b"Host", None) == [(b"a", b"1"), (b"b", b"2")]
    assert headers.replaced(received, b"New", b"n") == [*received, (b"New", b"n")]


@pytest.mark.parametrize(
    ("value", "is_frame"),
    [
        (b"application/vnd.history-delta", True),
        (b"APPLICATION/Vnd.History-Delta", True),
        (b" application/vnd.history-delta ; charset=x", True),
        (b"application/json, application/vnd.history-delta", True),
        (b"application/json", False),
        (b"application/vnd.history-delta+json", False),
        (b"", False),
    ],
)
def test_names_frame(value: bytes, is_frame: bool) -> None:
    assert headers.names_frame([(b"content-TYPE", value)]) is is_frame


def test_the_operators_credential_replaces_the_sandboxes() -> None:
    sent = [(b"authorization", b"Bearer sandbox"), (b"X-Api-Key", b"sandbox"), (b"a", b"1")]
    assert headers.with_credentials(sent, "real", messages_dialect=False) == [
        (b"authorization", b"Bearer real"),
        (b"a", b"1"),
    ]
    assert headers.with_credentials(sent, "real", messages_dialect=True) == [
        (b"authorization", b"Bearer real"),
        (b"X-Api-Key", b"real"),
        (b"a", b"1"),
    ]
    assert headers.with_credentials([], "real", messages_dialect=True) == [
        (b"Authorization", b"Bearer real"),
        (b"x-api-key", b"real"),
    ]
    assert headers.with_credentials(sent, None, messages_dialect=True) == sent


def test_serialize_keeps_every_byte() -> None:
    assert headers.serialize(b"GET / HTTP/1.1", [(b"X", b"\xff\xe9"), (b"x", b"")]) == (
        b"GET / HTTP/1.1\r\nX: \xff\xe9\r\nx: \r\n\r\n"
    )


@pytest.mark.parametrize("value", [b"a\r\nX: y", b"a\rb", b"a\nb", b"a\0b"])
def test_serialize_refuses_what_would_forge_a_header(value: bytes) -> None:
    with pytest.raises(ValueError, match="line break"):
        headers.serialize(b"GET / HTTP/1.1", [(b"X", value)])
