# SPDX-License-Identifier: Apache-2.0
"""The log's line about a call in the agent's process: the same as that of ``serve``, once, however the call ends."""

import asyncio
import json

import httpx
import pytest
from history_delta_shim.call_record import CallRecord, watch
from history_delta_shim.log import Log

# Those that serve logs for the same call.
BEGINNING = ["ts", "event", "delivery", "kind", "reason", "method", "path", "body_bytes", "prepare_ms", "status"]
FIELDS = [*BEGINNING, "resynced", "outcome", "sent_bytes", "response_bytes", "total_ms"]


@pytest.fixture
def lines(tmp_path):
    return lambda: [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


@pytest.fixture
def record(tmp_path):
    with (tmp_path / "log").open("ab") as file:
        yield CallRecord(Log(file.fileno()), "POST", "/v1/chat/completions?key=secret")


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, error=None):
        self.error, self.closed = error, 0

    def __iter__(self):
        yield b"one"
        yield b"two"
        if self.error:
            raise self.error

    async def __aiter__(self):
        for piece in self:
            yield piece

    def close(self):
        self.closed += 1

    async def aclose(self):
        self.closed += 1


@pytest.fixture(params=["sync", "async"])
def watched(request, record):
    """Gives (read, close) of a watched response over that stream."""

    def make(stream):
        if request.param == "sync":
            response = httpx.Response(200, stream=stream)
            watch(httpx, response, record)
            return lambda: list(response.stream), response.stream.close
        only_async = type("OnlyAsync", (httpx.AsyncByteStream,), {"__aiter__": lambda self: stream.__aiter__()})()
        only_async.aclose = stream.aclose
        response = httpx.Response(200, stream=only_async)
        watch(httpx, response, record)

        async def read():
            return [piece async for piece in response.stream]

        return lambda: asyncio.run(read()), lambda: asyncio.run(response.stream.aclose())

    return make


def test_it_has_the_fields_of_serve_and_no_query(record, lines):
    record.over("complete")
    [line] = lines()
    assert sorted(line) == sorted(FIELDS)
    assert (line["path"], line["method"], line["kind"]) == ("/v1/chat/completions", "POST", "pass-through")


def test_a_response_that_ends(watched, lines):
    stream = Pieces()
    read, close = watched(stream)
    assert read() == [b"one", b"two"]
    close()
    assert stream.closed == 1
    [line] = lines()
    assert (line["outcome"], line["response_bytes"]) == ("complete", 6)


def test_a_response_that_is_closed_before(watched, lines):
    stream = Pieces()
    _, close = watched(stream)
    close()
    assert stream.closed == 1
    assert [line["outcome"] for line in lines()] == ["closed"]


def test_a_response_that_breaks(watched, lines):
    read, close = watched(Pieces(httpx.ReadError("a secret")))
    with pytest.raises(httpx.ReadError):
        read()
    close()
    [line] = lines()
    assert (line["outcome"], line["error"]) == ("broken", "ReadError")
    assert "secret" not in json.dumps(line)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (httpx.ConnectError("no"), "unreachable"),
        (httpx.ReadTimeout("late"), "broken"),
        (KeyboardInterrupt(), "agent-left"),
        (asyncio.CancelledError(), "agent-left"),
    ],
)
def test_a_call_without_a_response(record, lines, error, outcome):
    record.failed(error)
    record.over("complete")
    assert [line["outcome"] for line in lines()] == [outcome]
