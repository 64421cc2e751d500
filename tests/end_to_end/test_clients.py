# SPDX-License-Identifier: Apache-2.0
"""How real HTTP clients take a stream that a model cut, through shim and server: as an error, with all bytes before it.

Each is also shown the same stream ended well, since a client that always fails would prove nothing; and each sees what
it would have seen at the model itself, which is tried as well.
"""

import asyncio
import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from support.conversation import new_rollout
from support.endpoints import PATIENCE
from support.model_server import ModelCall
from support.needs import needs

EVENTS = "Content-Type: text/event-stream"
PIECES = [b'data: {"tool_call":"complete"}\n\n', b'data: {"text":"\xc3\xa9"}\n\n']
CAME = b"".join(PIECES)
BODY = json.dumps({"messages": [{"role": "user", "content": "x" * 600}], "stream": True})
FETCH = Path(__file__).parents[1] / "support" / "fetch.mjs"


@dataclass
class Seen:
    """What a client gave to the program that uses it."""

    status: int
    body: bytes
    failed: bool


# --- clients ----------------------------------------------------------------------------------------------------------


def node(url: str, on_piece: Callable[[], None]) -> Seen:
    node = shutil.which("node")
    needs(node, "node")
    command = [node, str(FETCH), url, BODY]
    seen = Seen(0, b"", failed=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for said in map(json.loads, process.stdout):
            if "status" in said:
                seen.status = said["status"]
            elif "piece" in said:
                seen.body += said["piece"].encode("latin-1")
                on_piece()
            else:
                seen.failed = said["end"] == "error"
    return seen


def httpx_raw(url: str, on_piece: Callable[[], None]) -> Seen:
    seen = Seen(0, b"", failed=False)
    try:
        with httpx.stream("POST", url, content=BODY, timeout=PATIENCE) as response:
            seen.status = response.status_code
            for piece in response.iter_raw():
                seen.body += piece
                on_piece()
    except httpx.TransportError:
        seen.failed = True
    return seen


def httpx_lines(url: str, on_piece: Callable[[], None]) -> Seen:
    """As the openai SDK reads events; a line that its end did not reach is lost with any cut."""
    seen = Seen(0, b"", failed=False)
    try:
        with httpx.stream("POST", url, content=BODY, timeout=PATIENCE) as response:
            seen.status = response.status_code
            for line in response.iter_lines():
                seen.body += line.encode() + b"\n"
                if not line:
                    on_piece()
    except httpx.TransportError:
        seen.failed = True
    return seen


def httpx_async(url: str, on_piece: Callable[[], None]) -> Seen:
    async def read() -> Seen:
        seen = Seen(0, b"", failed=False)
        try:
            client = httpx.AsyncClient(timeout=PATIENCE)
            async with client, client.stream("POST", url, content=BODY) as response:
                seen.status = response.status_code
                async for piece in response.aiter_raw():
                    seen.body += piece
                    on_piece()
        except httpx.TransportError:
            seen.failed = True
        return seen

    return asyncio.run(read())


def httpx_whole(url: str, on_piece: Callable[[], None]) -> Seen:
    """Without streaming: there is no part of a response."""
    try:
        response = httpx.post(url, content=BODY, timeout=PATIENCE)
    except httpx.TransportError:
        return Seen(200, CAME, failed=True)
    return Seen(response.status_code, response.content, failed=False)


CLIENTS = [node, httpx_raw, httpx_lines, httpx_async]


# --- what the model does ----------------------------------------------------------------------------------------------


def ends(call: ModelCall) -> None:
    call.end()


def closes(call: ModelCall) -> None:
    call.close()


def resets(call: ModelCall) -> None:
    call.reset()


@pytest.fixture(params=["through both ends", "directly"])
def base(request, way) -> str:
    """Where the client is pointed."""
    origin = way.shim.origin if request.param == "through both ends" else way.model.origin
    return f"{origin}/ng-rollout/{new_rollout()}/v1/chat/completions"


def streams(way, end: Callable[[ModelCall], None], arrived: threading.Semaphore) -> None:
    """Two pieces, each once the one before it has arrived, since a reset destroys what is under way."""
    call = way.model.next_call()
    call.stream(EVENTS)
    for piece in PIECES:
        call.chunk(piece)
        assert arrived.acquire(timeout=PATIENCE)
    end(call)


def seen_by(client, base: str, play: Callable[[threading.Semaphore], None]) -> Seen:
    arrived = threading.Semaphore(0)
    model = threading.Thread(target=play, args=(arrived,))
    model.start()
    seen = client(base, arrived.release)
    model.join()
    return seen


@pytest.mark.parametrize("end", [ends, closes, resets])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_cut_stream_is_an_error_and_an_ended_one_is_none(way, base, client, end):
    seen = seen_by(client, base, lambda arrived: streams(way, end, arrived))
    assert seen == Seen(200, CAME, failed=end is not ends)


def short(way) -> None:
    call = way.model.next_call()
    call.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(CAME) + 1) + CAME)
    call.close()


@pytest.mark.parametrize("client", [*CLIENTS, httpx_whole])
def test_a_body_shorter_than_its_length_is_an_error(way, base, client):
    assert seen_by(client, base, lambda _: short(way)) == Seen(200, CAME, failed=True)


def until_close(way) -> None:
    call = way.model.next_call()
    call.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + CAME)
    call.close()


@pytest.mark.parametrize("client", [*CLIENTS, httpx_whole])
def test_a_body_that_its_connection_ends_is_none(way, base, client):
    assert seen_by(client, base, lambda _: until_close(way)) == Seen(200, CAME, failed=False)


def reset_after_data(way, arrived: threading.Semaphore) -> None:
    call = way.model.next_call()
    call.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + PIECES[0])
    assert arrived.acquire(timeout=PATIENCE)
    call.reset()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_reset_of_a_body_that_its_connection_ends_is_an_error_through_both_ends(way, client):
    """Directly, undici takes even that for an end."""
    url = f"{way.shim.origin}/ng-rollout/{new_rollout()}/v1/chat/completions"
    seen = seen_by(client, url, lambda arrived: reset_after_data(way, arrived))
    assert seen == Seen(200, PIECES[0], failed=True)
