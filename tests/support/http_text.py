# SPDX-License-Identifier: Apache-2.0
"""HTTP messages as bytes, for tests that say exactly what goes on the wire."""

CHAT = "/v1/chat/completions"


def post(body: bytes, *headers: str, target: str = CHAT) -> bytes:
    """A request with that body and its length."""
    return head(f"POST {target} HTTP/1.1", "Host: agent", *headers, f"Content-Length: {len(body)}") + body


def get(target: str, *headers: str) -> bytes:
    return head(f"GET {target} HTTP/1.1", "Host: agent", *headers)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A response with that body and its length."""
    return head(f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}") + body


def stream(*headers: str) -> bytes:
    """The head of a chunked response."""
    return head("HTTP/1.1 200 OK", "Content-Type: text/event-stream", *headers, "Transfer-Encoding: chunked")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


END = chunk(b"")


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")
