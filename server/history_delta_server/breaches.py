# SPDX-License-Identifier: Apache-2.0
"""What was wrong with the HTTP of a peer, in words of our own: the parser's quote header values and content."""

from aiohttp import http_exceptions as http

_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (http.TransferEncodingError, "a broken chunk"),
    (http.ContentLengthError, "less than its Content-Length"),
    (http.PayloadEncodingError, "a broken body"),
    (http.LineTooLong, "a line that is too long"),
    (http.InvalidHeader, "a malformed header field"),
    (http.BadStatusLine, "a malformed first line"),
    (http.HttpProcessingError, "a malformed head or chunk"),
)


class Breach(ValueError):
    """A breach that we found ourselves: its text may be shown."""


def said(error: BaseException | None) -> str:
    """Never the error's own text, unless it is the system's."""
    if isinstance(error, Breach):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return " ".join(error.strerror.split())[:200]
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    return "what cannot be read" if error is not None else "no more data"
