# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim import http1_body
from history_delta_shim.http1_errors import ProtocolError


def take_all(framing, raw, step):
    """(body, rest), fed ``step`` bytes at a time, and asked once more at the end."""
    body, rest = b"", b""
    for at in range(0, len(raw) + step, step):
        data, rest = framing.take(rest + raw[at : at + step])
        body += data
    return body, rest


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_chunks_are_joined_and_what_follows_is_left(step):
    framing = http1_body.Chunked()
    raw = b'3\r\nabc\r\nA;a;b="c d"\r\n0123456789\r\n0\r\nA: 1\r\nB: 2\r\n\r\n'
    assert take_all(framing, raw, step) == (b"abc0123456789", b"")
    assert framing.complete
    assert framing.trailers == [("A", "1"), ("B", "2")]
    assert framing.take(b"next") == (b"", b"next")


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize(
    "raw",
    [
        b"3\nabc\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\rx",
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"+1\r\na\r\n",
        b"0x1\r\na\r\n",
        b"1 \r\na\r\n",
        b" 1\r\na\r\n",
        b"1_0\r\n",
        b"1;\x00\r\na\r\n",
        b"1;a\rb\r\na\r\n",
        b"f" * 16 + b"\r\n",
        b"0\r\nA : 1\r\n\r\n",
        b"0\r\n A: 1\r\n\r\n",
        b"0\r\nA: 1\n\r\n",
        b"0\r\nA\r\n\r\n",
    ],
)
def test_malformed_chunks_are_refused(raw, step):
    with pytest.raises(ProtocolError):
        take_all(http1_body.Chunked(), raw, step)


def test_data_before_a_malformed_chunk_is_given_out_first():
    framing = http1_body.Chunked()
    data, rest = framing.take(b"3\r\nabc\r\nnonsense\r\n")
    assert data == b"abc"
    with pytest.raises(ProtocolError):
        framing.take(rest)


def test_a_chunk_line_and_trailers_are_bounded():
    with pytest.raises(ProtocolError, match=str(http1_body.MAX_CHUNK_LINE_BYTES)):
        http1_body.Chunked().take(b"1;" + b"x" * 5000)
    with pytest.raises(ProtocolError):
        http1_body.Chunked().take(b"1;" + b"x" * 5000 + b"\r\n")
    with pytest.raises(ProtocolError, match="65536") as error:
        http1_body.Chunked().take(b"0\r\n" + b"A: 1\r\n" * 20000)
    assert error.value.status == 431
    with pytest.raises(ProtocolError, match="65536"):
        http1_body.Chunked().take(b"0\r\nA: " + b"x" * 70000)


def test_a_length_takes_that_much_without_copying_a_whole_piece():
    framing = http1_body.Length(5)
    piece = b"abc"
    data, _ = framing.take(piece)
    assert data is piece
    assert framing.take(b"defg") == (b"de", b"fg")
    assert framing.complete


def test_nothing_is_a_whole_body_of_length_zero():
    assert http1_body.Length(0).complete
    assert not http1_body.UntilClose().complete
