# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim import http1
from history_delta_shim.http1_errors import Incomplete, ProtocolError

SECRET = b"sk-5ecret"
HEAD = b"POST / HTTP/1.1\r\nHost: h\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def events(reader, raw):
    """Every event of a message, to its end."""
    reader.receive(raw)
    reader.receive(b"")
    while not reader.done:
        yield reader.next_event()


def test_it_tells_a_status_and_a_message():
    error = ProtocolError(431, "too long")
    assert (error.status, str(error)) == (431, "too long")


def test_what_makes_no_sense_and_what_has_no_end_are_told_apart():
    with pytest.raises(Incomplete) as error:
        list(events(http1.RequestReader(), HEAD + b"Content-Length: 3\r\n\r\nab"))
    assert not isinstance(error.value, ProtocolError)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /?key=%b\r\n\r\n", 400),
        (b"GET /?key=%b HTTP/3.0\r\nHost: h\r\n\r\n", 505),
        (b"GET /?key=%b" + b"x" * 70000, 414),
        (HEAD + b"X: %b\r\nY: " + b"y" * 70000, 431),
        (HEAD + b"X-Key: %b\x00\r\n\r\n", 400),
        (HEAD + b"X-Key %b\r\n\r\n", 400),
        (HEAD + b"X-Key: a\r\n %b\r\n\r\n", 400),
        (HEAD + b"X-Key: a\n%b\r\n\r\n", 400),
        (HEAD + b"Host: %b\r\n\r\n", 400),
        (HEAD + b"Content-Length: %b\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: %b\r\n\r\n", 400),
        (CHUNKED + b"%b\r\n", 400),
        (CHUNKED + b"1\r\n%b\r\n", 400),
        (CHUNKED + b"0\r\nX-Key: %b\x00\r\n\r\n", 400),
    ],
)
def test_no_value_of_a_request_is_quoted(raw, status):
    with pytest.raises(ProtocolError) as error:
        list(events(http1.RequestReader(), raw.replace(b"%b", SECRET)))
    assert error.value.status == status
    assert str(error.value)
    assert SECRET.decode() not in str(error.value)


@pytest.mark.parametrize("raw", [b"%b\r\n\r\n", b"HTTP/1.1 2xx %b\r\n\r\n"])
def test_no_value_of_a_response_is_quoted(raw):
    with pytest.raises(ProtocolError) as error:
        list(events(http1.ResponseReader("GET"), raw.replace(b"%b", SECRET)))
    assert error.value.status == 502
    assert SECRET.decode() not in str(error.value)
