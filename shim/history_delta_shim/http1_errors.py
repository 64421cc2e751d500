# SPDX-License-Identifier: Apache-2.0
"""How reading an HTTP/1.1 message can fail."""


class ProtocolError(ValueError):
    """What came is not HTTP/1.1 as we accept it. ``status`` is what a client is told; no value of it is quoted."""

    def __init__(self, status: int, message: str) -> None:
        ValueError.__init__(self, message)
        self.status = status


class Incomplete(Exception):
    """The input ended inside a message: a short Content-Length, or chunks without the last one."""
