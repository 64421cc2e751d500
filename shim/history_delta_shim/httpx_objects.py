# SPDX-License-Identifier: Apache-2.0
"""What the in-process transport reads of httpx's requests and responses, and how it makes new ones.

httpx is not imported here: it is the agent's own, found by its requests, and may be httpx2, whose classes are the same.
"""

import sys
import time
from typing import Any, Dict, Optional

from .headers import Headers, values
from .origin import Origin

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MARK = "history_delta"  # an extension of requests that were made here; extensions do not go on the wire


def library_of(request: Any) -> Any:
    """The package that a request is of."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def origin_of(request: Any) -> Origin:
    url = request.url
    return Origin(url.scheme, url.raw_host.decode("ascii"), url.port or _DEFAULT_PORTS.get(url.scheme, 0))


def target_of(request: Any) -> str:
    return str(request.url.raw_path.decode("ascii"))


def is_ours(request: Any) -> bool:
    """Whether it was made here, so that a transport within a transport leaves it alone, or is for a target of its own
    that the URL does not say."""
    return _MARK in request.extensions or "target" in request.extensions


def headers_of(message: Any) -> Headers:
    """The header lines of a request or response as they are on the wire, framing included."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.headers.raw]


def plain_body(request: Any, headers: Headers) -> Optional[bytes]:
    """The body, where it is in memory and framed by its length, so that it can be sent as often as need be."""
    if type(request.stream) is not library_of(request).ByteStream:
        return None
    body = b"".join(request.stream)
    framed = values(headers, "content-length") == [str(len(body))] and not values(headers, "transfer-encoding")
    return body if framed else None


def request_like(request: Any, headers: Headers, body: Optional[bytes] = None) -> Any:
    """The same request with other headers, and with another body if one is given."""
    library = library_of(request)
    if body is not None:
        length = str(len(body))
        headers = [(name, length if name.lower() == "content-length" else value) for name, value in headers]
    return library.Request(
        request.method,
        request.url,
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        stream=request.stream if body is None else library.ByteStream(body),
        extensions=_marked(request.extensions),
    )


def question_like(request: Any, path: str, headers: Headers, deadline: float) -> Any:
    """A GET to where that request goes; it is given up at the deadline, on the monotonic clock."""
    library = library_of(request)
    return library.Request(
        "GET",
        request.url.copy_with(raw_path=path.encode("ascii")),
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        stream=library.ByteStream(b""),
        extensions=_marked({"timeout": _Until(deadline)}),
    )


def response_like(request: Any, status: int, headers: Headers, body: bytes) -> Any:
    """A response of ours to that request."""
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return library_of(request).Response(status, headers=lines, content=body)


def drop_headers(response: Any, prefix: str) -> None:
    """Take all headers of that (lower-case) prefix from a response."""
    for name in {key.lower() for key, _ in headers_of(response) if key.lower().startswith(prefix)}:
        del response.headers[name]


def _marked(extensions: Any) -> Dict[str, Any]:
    return dict(extensions, **{_MARK: True})


class _Until(Dict[str, float]):
    """httpx's timeouts, each of which is what is left until one deadline when the transport comes to ask for it."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        left = self._left()
        super().__init__(connect=left, read=left, write=left, pool=left)

    def get(self, key: str, default: Any = None) -> Any:
        return self._left()

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)
