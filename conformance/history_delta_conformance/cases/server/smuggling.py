# SPDX-License-Identifier: Apache-2.0
"""Cases: requests whose end two readers might see in different places. SPEC.md section 11.

Each hides a second request behind the first. Refusing is an answer of 4xx or 5xx, or the end of the connection; in
neither case may anything reach the model. The body that an agent sent can reach the model octet for octet (F-1) only
where there is no doubt about which octets these are.
"""

from collections.abc import Sequence

from ..check import expect, told
from ..registry import SERVER
from ..wire import Header, request_head
from .target import JSON, Target

_HIDDEN = "X-Hidden"


def _request(target: Target, lines: Sequence[bytes], body: bytes, version: bytes = b"1.1", first: bytes = b"") -> bytes:
    """A model call with these lines in its head, and another one hidden behind its body."""
    start = first or b"POST %b HTTP/%b" % (target.path().encode(), version)
    headers = [b"Host: x", b"Content-Type: application/json", b"History-Delta-Version: 1"]
    head = b"\r\n".join([start, *headers, *lines, b"", b""])
    hidden = request_head("POST", target.path(), [("Host", "x"), ("Content-Length", "2"), (_HIDDEN, "1")]) + b"{}"
    return head + body + hidden


async def _is_refused(target: Target, sent: bytes) -> None:
    connection = await target.connect()
    strange = len(target.endpoint.not_http)
    await connection.send(sent)
    response = await connection.response_or_none()
    expect(
        response is None or 400 <= response.status < 600,
        "a refusal, or the end of the connection",
        told(response) if response else "",
    )
    if response is not None:
        expect(
            await connection.receive_in_time("the end of the connection") == b"", "the end of the connection", "more"
        )
    await target.nothing_arrived()
    expect(len(target.endpoint.not_http) == strange, "nothing at the model", "; ".join(target.endpoint.not_http))


_CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"


@SERVER.case("14.1", "Content-Length with Transfer-Encoding", "F-1")
async def _both(target: Target) -> None:
    for lines in (
        [b"Content-Length: 12", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Content-Length: 2"],
        [b"content-length: 0", b"TRANSFER-ENCODING: Chunked"],
    ):
        await _is_refused(target, _request(target, lines, _CHUNKS))


@SERVER.case("14.2", "Content-Length twice, equal or not", "F-1")
async def _lengths(target: Target) -> None:
    for first, second in ((b"2", b"2"), (b"2", b"3"), (b"0", b"2")):
        lines = [b"Content-Length: " + first, b"content-length: " + second]
        await _is_refused(target, _request(target, lines, b"{}"))


@SERVER.case("14.3", "Content-Length that is no plain number", "F-1")
async def _no_length(target: Target) -> None:
    for value in (b"+2", b"-2", b"0x2", b"2, 2", b"2 2", b"2;", b"", b"two", b"2_0", b"\xb2", b"2\x0b"):
        await _is_refused(target, _request(target, [b"Content-Length: " + value], b"{}"))


@SERVER.case("14.4", "Transfer-Encoding twice, or of another coding than chunked", "F-1")
async def _codings(target: Target) -> None:
    await _is_refused(target, _request(target, [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], _CHUNKS))
    await _is_refused(
        target, _request(target, [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"], _CHUNKS)
    )
    for value in (
        b"chunked, chunked",
        b"gzip, chunked",
        b"chunked, gzip",
        b"identity",
        b"xchunked",
        b"chunked\x0b",
        b"",
    ):
        await _is_refused(target, _request(target, [b"Transfer-Encoding: " + value], _CHUNKS))


@SERVER.case("14.5", "Transfer-Encoding in HTTP/1.0", "F-1")
async def _old(target: Target) -> None:
    lines = [b"Transfer-Encoding: chunked", b"Connection: keep-alive"]
    await _is_refused(target, _request(target, lines, _CHUNKS, version=b"1.0"))


@SERVER.case("14.6", "a line that ends in a bare LF, or holds a bare CR", "F-1")
async def _bare(target: Target) -> None:
    good = _request(target, [b"Content-Length: 2"], b"{}")
    await _is_refused(target, good.replace(b"Host: x\r\n", b"Host: x\n", 1))
    await _is_refused(target, good.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n", 1))
    await _is_refused(target, good.replace(b"\r\n\r\n{}", b"\r\n\n{}", 1))
    await _is_refused(target, good.replace(b"\r\n\r\n{}", b"\n\n{}", 1))
    await _is_refused(target, good.replace(b"Host: x\r\n", b"Host: x\rX-Y: 1\r\n", 1))


@SERVER.case("14.7", "folded lines", "F-1")
async def _folded(target: Target) -> None:
    for lines in (
        [b"X-A: 1", b" 2", b"Content-Length: 2"],
        [b"X-A: 1", b"\tContent-Length: 0", b"Content-Length: 2"],
        [b"Transfer-Encoding:", b" chunked"],
    ):
        await _is_refused(target, _request(target, lines, _CHUNKS if b" chunked" in lines else b"{}"))
    first = b"POST %b HTTP/1.1\r\n Content-Length: 0" % target.path().encode()
    await _is_refused(target, _request(target, [b"Content-Length: 2"], b"{}", first=first))


@SERVER.case("14.8", "names with a blank before the colon, or that are no token", "F-1")
async def _names(target: Target) -> None:
    for line in (
        b"Content-Length : 2",
        b"Content-Length\t: 2",
        b"Transfer-Encoding : chunked",
        b": 1",
        b"no colon",
        b"X\x00: 1",
        b"X(y): 1",
        b"X\xe9: 1",
    ):
        await _is_refused(target, _request(target, [b"Content-Length: 2", line], b"{}"))
    await _is_refused(target, _request(target, [b"Content-Length : 2"], b"{}"))


@SERVER.case("14.9", "values with NUL", "F-1")
async def _values(target: Target) -> None:
    for value in (b"a\x00b", b"\x00", b"a\x00"):
        await _is_refused(target, _request(target, [b"Content-Length: 2", b"X-A: " + value], b"{}"))


@SERVER.case("14.10", "chunks that break the grammar", "F-1")
async def _chunks(target: Target) -> None:
    for chunks in (
        b"-2\r\n{}\r\n0\r\n\r\n",
        b"+2\r\n{}\r\n0\r\n\r\n",
        b"0x2\r\n{}\r\n0\r\n\r\n",
        b"\r\n{}\r\n0\r\n\r\n",
        b"2 \x0b\r\n{}\r\n0\r\n\r\n",
        b"2\n{}\r\n0\r\n\r\n",
        b"2\r\n{}0\r\n\r\n",
        b"2\r\n{}\n0\r\n\r\n",
        b"1\r\n{}\r\n0\r\n\r\n",
        b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    ):
        await _is_refused(target, _request(target, [b"Transfer-Encoding: chunked"], chunks))


@SERVER.case("14.11", "first lines that are none of HTTP/1.1", "F-1")
async def _first_lines(target: Target) -> None:
    path = target.path().encode()
    for first in (
        b"POST %b" % path,
        b"POST %b x HTTP/1.1" % path,
        b"POST %b HTTP/1.1x" % path,
        b"PO\x00ST %b HTTP/1.1" % path,
        b"POST %b\x00 HTTP/1.1" % path,
    ):
        await _is_refused(target, _request(target, [b"Content-Length: 2"], b"{}", first=first))


@SERVER.case("14.12", "a request that ends before its body does is not sent on as a whole one", "F-1", "F-21")
async def _short(target: Target) -> None:
    headers: list[Header] = [("Content-Length", "1000")]
    for extra, body in ((headers, b'{"messages":[]}'), ([("Transfer-Encoding", "chunked")], b"5\r\n{}")):
        for rollout in (target.rollout, None):
            sent = target.headers(None, content_type=JSON, rollout=rollout, extra=extra)
            connection = await target.connect()
            await connection.send(request_head("POST", target.path(), sent) + body)
            connection.end()
            await connection.response_or_none()
    await target.nothing_arrived()


@SERVER.case("14.13", "requests that follow each other without a doubt are two", "F-1")
async def _two(target: Target) -> None:
    connection = await target.connect()
    await connection.send(target.full_request(b"{}") + target.full_request(b"[]"))
    for _ in range(2):
        expect((await connection.read_response()).status == 200, "two responses with 200", "another")
    expect(target.model.bodies == [b"{}", b"[]"], "both bodies at the model", repr(target.model.bodies))
