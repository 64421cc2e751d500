# SPDX-License-Identifier: Apache-2.0
"""Cases: requests whose end, or whose headers, two readers may see differently. SPEC.md sections 10.2 and 11."""

from ..base import CaseFailed, Check
from ..check import equal, expect, told
from ..registry import SHIM
from .bench import Target
from .bodies import CHAT

_SMUGGLED = b"POST /v1/smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


def _request(*lines: bytes, body: bytes = b"{}", first: bytes = b"") -> bytes:
    first = first or b"POST %s HTTP/1.1" % CHAT.encode()
    return b"\r\n".join([first, b"Host: a", *lines, b"", b""]) + body


_CHUNKED = b"Transfer-Encoding: chunked"
_AMBIGUOUS: list[tuple[str, bytes]] = [
    ("Content-Length and Transfer-Encoding", _request(b"Content-Length: 4", _CHUNKED, body=b"0\r\n\r\n" + _SMUGGLED)),
    ("Transfer-Encoding and Content-Length", _request(_CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n" + _SMUGGLED)),
    ("Content-Length twice, the same", _request(b"Content-Length: 2", b"Content-Length: 2")),
    ("Content-Length twice, another", _request(b"Content-Length: 2", b"content-length: 0", body=b"{}" + _SMUGGLED)),
    ("Content-Length in a list", _request(b"Content-Length: 2, 2")),
    ("Content-Length with a sign", _request(b"Content-Length: +2")),
    ("Content-Length below nothing", _request(b"Content-Length: -1")),
    ("Content-Length in hexadecimal", _request(b"Content-Length: 0x2")),
    ("Content-Length without a number", _request(b"Content-Length: ")),
    ("Transfer-Encoding twice", _request(_CHUNKED, _CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n")),
    ("chunked twice in one line", _request(_CHUNKED + b", chunked", body=b"2\r\n{}\r\n0\r\n\r\n")),
    ("a coding that nobody knows", _request(b"Transfer-Encoding: xchunked", body=b"2\r\n{}\r\n0\r\n\r\n")),
    ("chunked behind a vertical tab", _request(b"Transfer-Encoding: \x0bchunked", body=b"2\r\n{}\r\n0\r\n\r\n")),
    ("a coding that is not the last", _request(_CHUNKED + b", identity", body=b"2\r\n{}\r\n0\r\n\r\n")),
    ("a blank before the colon", _request(b"Content-Length : 2")),
    ("a folded line", _request(b"X-Folded: a\r\n b", b"Content-Length: 2")),
    ("a folded Transfer-Encoding", _request(b"Transfer-Encoding:\r\n chunked", body=b"2\r\n{}\r\n0\r\n\r\n")),
    ("a bare line feed in the head", _request(b"X-A: 1\nContent-Length: 2")),
    ("bare line feeds alone", _request(b"Content-Length: 2").replace(b"\r\n", b"\n")),
    ("a bare carriage return in a value", _request(b"X-A: 1\rX-B: 2", b"Content-Length: 2")),
    ("a NUL in a value", _request(b"X-A: 1\x002", b"Content-Length: 2")),
    ("a header without a colon", _request(b"X-A", b"Content-Length: 2")),
    ("a header without a name", _request(b": 1", b"Content-Length: 2")),
    ("a blank before the first header", _request(b"Content-Length: 2").replace(b"Host", b" Host", 1)),
    ("two Hosts", _request(b"Host: b", b"Content-Length: 2")),
    ("a chunk's size with a prefix", _request(_CHUNKED, body=b"0x2\r\n{}\r\n0\r\n\r\n")),
    ("a chunk's size with a sign", _request(_CHUNKED, body=b"+2\r\n{}\r\n0\r\n\r\n")),
    ("a chunk's size beyond 64 bits", _request(_CHUNKED, body=b"1" + b"0" * 16 + b"2\r\n{}\r\n0\r\n\r\n")),
    ("a chunk's size before a bare line feed", _request(_CHUNKED, body=b"2\n{}\r\n0\r\n\r\n")),
    ("a chunk longer than its size", _request(_CHUNKED, body=b"2\r\n{}}\r\n0\r\n\r\n")),
    ("a chunk without its line's end", _request(_CHUNKED, body=b"2\r\n{}0\r\n\r\n" + _SMUGGLED)),
    ("a version of HTTP that is none", _request(b"Content-Length: 2", first=b"POST /v1/responses HTTP/1.x")),
    ("a target with a blank", _request(b"Content-Length: 2", first=b"POST /v1/ responses HTTP/1.1")),
]


def _refused(request: bytes) -> Check:
    async def check(target: Target) -> None:
        async with target.bench() as bench:
            agent = await bench.agent()
            await agent.send(request)
            response = await agent.read_response()
            expect(400 <= response.status < 500, "a refusal with 4xx", told(response))
            if not await agent.is_ended():
                raise CaseFailed("the connection to be closed behind the refusal", "more on it")
            # Had any of it been passed on, it would stand before this one.
            await bench.talk(b"the call behind it")
            reached = [call.body for call in bench.upstream.calls]
            equal("calls that reached the server", reached, [b"the call behind it"])
            equal("other requests that reached it", [other.target for other in bench.upstream.others], [])

    return check


for _place, (_what, _octets) in enumerate(_AMBIGUOUS, start=1):
    SHIM.case(f"14.{_place}", f"{_what}: refused, and nothing reaches the server", "F-1", "C-7")(_refused(_octets))


@SHIM.case("14.40", "a target that names another host is not followed", "C-7", "C-8")
async def elsewhere(target: Target) -> None:
    async with target.bench() as bench, target.bench() as other:
        agent = await bench.agent()
        first = b"POST %s/v1/responses HTTP/1.1" % other.upstream.origin.encode()
        await agent.send(_request(b"Content-Length: 2", first=first))
        await agent.receive_all()
        reached = len(other.upstream.calls) + len(other.upstream.others) + len(other.upstream.questions)
        equal("requests that reached the other host", reached, 0)
