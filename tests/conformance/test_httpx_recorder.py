# SPDX-License-Identifier: Apache-2.0
"""What the recorder says of a program's requests, held against what reached a server that knows nothing of it."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from history_delta_conformance.httpx_recorder import FOLDER, VARIABLE, read_recorded
from history_delta_conformance.httpx_recorder.recorded import DamagedRecord
from support.model_server import ModelServer

CALLS = """
import asyncio, os, sys, {library} as library
url = sys.argv[1]
def sync():
    with library.Client() as client:
        client.post(url + "/whole", content=b"one", headers=[("X-a", "1"), ("x-A", "2")])
        with client.stream("POST", url + "/read?q=1", content=b"two") as response:
            response.read()
        with client.stream("POST", url + "/closed", content=b"three"):
            pass
        try:
            client.post(url + "/cut", content=b"four")
        except library.TransportError:
            pass
        client.post(url + "/generated", content=iter([b"five"]))
async def asynchronous():
    async with library.AsyncClient() as client:
        await client.post(url + "/whole", content=b"one", headers=[("X-a", "1"), ("x-A", "2")])
        async with client.stream("POST", url + "/read?q=1", content=b"two") as response:
            await response.aread()
        async with client.stream("POST", url + "/closed", content=b"three"):
            pass
        try:
            await client.post(url + "/cut", content=b"four")
        except library.TransportError:
            pass
        async def five():
            yield b"five"
        await client.post(url + "/generated", content=five())
asyncio.run(asynchronous()) if {asynchronous} else sync()
print(os.environ.get("PYTHONPATH"), os.environ.get("HISTORY_DELTA_RECORD_HTTPX"), "sitecustomize" in sys.modules)
print([path for path in sys.path if "recorder" in path])
"""


def answer(call):
    if call.request.target.endswith("/cut"):
        call.stream()
        call.chunk(b"some")
        call.close()
    else:
        call.respond(b"answer")


def recorded_run(program, tmp_path, *arguments, **environ):
    record = tmp_path / "httpx.jsonl"
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(FOLDER), VARIABLE: str(record)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=given | environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return record, done.stdout


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_it_says_what_was_sent_and_how_it_ended(library, asynchronous, tmp_path):
    with ModelServer(answer) as model:
        program = CALLS.format(library=library, asynchronous=asynchronous)
        record, said = recorded_run(program, tmp_path, model.origin)
    seen = read_recorded(record)
    assert [exchange.target for exchange in seen] == ["/whole", "/read?q=1", "/closed", "/cut", "/generated"]
    arrived = [call.request for call in model.calls]
    assert [exchange.headers for exchange in seen] == [request.headers for request in arrived]
    assert [exchange.body for exchange in seen[:4]] == [request.body for request in arrived[:4]]
    assert [exchange.complete for exchange in seen] == [True] * 4 + [False]
    assert [exchange.status for exchange in seen] == [200] * 5
    assert [exchange.response_complete for exchange in seen] == [True, True, True, False, True]
    assert [exchange.response_bytes for exchange in seen[:2]] == [6, 6]
    assert all(exchange.started <= exchange.answered for exchange in seen)
    # And what the program's own children inherit is what they would inherit without it.
    assert said == "None None False\n[]\n"


def test_a_program_keeps_its_own_pythonpath_and_sitecustomize(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.theirs = 1")
    program = "import sys, os, httpx; print(sys.theirs, os.environ['PYTHONPATH'])"
    _, said = recorded_run(program, tmp_path, PYTHONPATH=f"{FOLDER}:{tmp_path}")
    assert said == f"1 {tmp_path}\n"


def test_without_its_variable_it_does_nothing(tmp_path):
    record, said = recorded_run("import httpx; print(httpx.Client.send.__module__)", tmp_path, **{VARIABLE: ""})
    assert said == "httpx._client\n"
    assert read_recorded(record) == []


def test_a_file_that_cannot_be_written_fails_no_call(tmp_path):
    with ModelServer(answer) as model:
        program = "import sys, httpx; print(httpx.post(sys.argv[1], content=b'x').status_code)"
        _, said = recorded_run(program, tmp_path, model.origin, **{VARIABLE: "/dev/null/record"})
    assert said == "200\n"


def line(**fields):
    digest = hashlib.sha256(b"body").hexdigest()
    request = {"event": "request", "id": "1-1", "time": 1.0, "method": "POST", "url": "http://h/t", "target": "/t"}
    return json.dumps({**request, "headers": [["A", "b"]], "length": 4, "sha256": digest, **fields})


class TestReading:
    @pytest.fixture
    def record(self, tmp_path):
        bodies = tmp_path / "record.bodies"
        bodies.mkdir()
        (bodies / "1-1").write_bytes(b"body")
        return tmp_path / "record"

    def test_a_line_that_is_not_whole_is_left_for_later(self, record):
        record.write_text(line() + "\n" + line(id="1-2")[:-3])
        [exchange] = read_recorded(record)
        assert (exchange.body, exchange.complete, exchange.status) == (b"body", True, None)

    @pytest.mark.parametrize("fields", [{"sha256": "0"}, {"length": 5}])
    def test_a_body_that_is_another_is_told(self, record, fields):
        record.write_text(line(**fields) + "\n")
        with pytest.raises(DamagedRecord):
            read_recorded(record)
