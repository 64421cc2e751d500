# SPDX-License-Identifier: Apache-2.0
"""An agent that calls its model with an httpx client of its own, a new one each time, as Hermes does."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import httpx2
from history_delta_shim.httpx_transport import AsyncTransport, Transport

LIBRARIES = {"httpx": httpx, "httpx2": httpx2}
_TRUST = ssl.create_default_context()  # loading it takes longer than a call


class Caller:
    """``options`` are those of the transport; without any, the client has none but its own."""

    def __init__(self, library: Any, asynchronous: bool, **options: Any) -> None:
        self.library, self.asynchronous, self.options = library, asynchronous, options
        self.verify: Any = _TRUST

    def post(self, url: str, body: Any, headers: Any = (), **more: Any) -> Any:
        """The response, which has been read; raises what the client raises."""
        lines = [("Content-Type", "application/json"), *headers]
        return self._with_client(lambda client: client.post(url, content=body, headers=lines, **more))

    def get(self, url: str, headers: Any = ()) -> Any:
        return self._with_client(lambda client: client.get(url, headers=headers))

    def stream(self, url: str, body: bytes, headers: Any = ()) -> "tuple[list[bytes], Exception | None]":
        """The pieces of the response as they came, and the error with which it broke off."""
        lines = [("Content-Type", "application/json"), *headers]
        return (
            asyncio.run(self._stream_async(url, body, lines)) if self.asynchronous else self._stream(url, body, lines)
        )

    def _transport(self) -> Any:
        plain = self.library.AsyncHTTPTransport if self.asynchronous else self.library.HTTPTransport
        inner = plain(verify=self.verify)
        if not self.options:
            return inner
        return (AsyncTransport if self.asynchronous else Transport)(inner, **self.options)

    def _with_client(self, call: Callable[[Any], Any]) -> Any:
        if not self.asynchronous:
            with self.library.Client(transport=self._transport()) as client:
                return call(client)

        async def called() -> Any:
            async with self.library.AsyncClient(transport=self._transport()) as client:
                return await call(client)

        return asyncio.run(called())

    def _stream(self, url: str, body: bytes, headers: Iterable[Any]) -> "tuple[list[bytes], Exception | None]":
        pieces: list[bytes] = []
        with self.library.Client(transport=self._transport()) as client:
            try:
                with client.stream("POST", url, content=body, headers=headers) as response:
                    pieces.extend(response.iter_raw())
            except self.library.TransportError as error:
                return pieces, error
        return pieces, None

    async def _stream_async(
        self, url: str, body: bytes, headers: Iterable[Any]
    ) -> "tuple[list[bytes], Exception | None]":
        pieces: list[bytes] = []
        async with self.library.AsyncClient(transport=self._transport()) as client:
            try:
                async with client.stream("POST", url, content=body, headers=headers) as response:
                    async for piece in response.aiter_raw():
                        pieces.append(piece)
            except self.library.TransportError as error:
                return pieces, error
        return pieces, None
