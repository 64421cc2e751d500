# SPDX-License-Identifier: Apache-2.0
"""A model's address: one call as one request, its answer as the events of a stream. Nothing is tried again here."""

import http.client
import json
import select
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from .history import Conversation, Json
from .tools import Tool

_MODEL_TIMEOUT = 120.0


class ModelError(Exception):
    """The model answered with an error. ``retry_after`` is what it said, if anything."""

    def __init__(self, status: int, retry_after: str | None, said: str) -> None:
        super().__init__(f"status {status}: {said}")
        self.status, self.retry_after = status, retry_after


class Endpoint:
    """A base URL, and one connection to it that is kept for the next call. One thread at a time."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(base_url)
        self._base_path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", "Authorization": "Bearer EMPTY", **headers}
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=_MODEL_TIMEOUT)

    def events(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[Json]:
        """Send the history and yield the JSON data of the stream's events as they come. Raises ModelError."""
        body = json.dumps(conversation.request(tools), ensure_ascii=False, separators=(",", ":"))
        data = body.encode(errors="surrogatepass")
        headers = self._headers | conversation.headers
        self._drop_if_closed()
        self._connection.request("POST", self._base_path + conversation.path, data, headers)
        response = self._connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            said = response.read().decode(errors="replace")[:1000]
            raise ModelError(response.status, response.getheader("Retry-After"), said)
        for line in response:
            if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                yield json.loads(line.removeprefix(b"data: "))

    def _drop_if_closed(self) -> None:
        """An idle connection that can be read from was closed by the other end, as HTTP clients of agents know."""
        sock = self._connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            self.close()

    def close(self) -> None:
        """Give the connection up; the next call makes a new one."""
        self._connection.close()
