# SPDX-License-Identifier: Apache-2.0
import json
import os

import pytest
from history_delta_shim.log import Log, describe


def test_an_event_is_one_line_of_json(tmp_path):
    with (tmp_path / "log").open("w+b") as file:
        log = Log(file.fileno())
        log.event("call", path="/é\n", status=None)
        log.event("stopped")
        file.seek(0)
        first, second = map(json.loads, file.read().splitlines())
    assert (first["event"], first["path"], first["status"]) == ("call", "/é\n", None)
    assert second["event"] == "stopped"
    assert first["ts"] <= second["ts"]


def test_a_log_that_cannot_be_written_to_fails_nothing():
    reader, writer = os.pipe()
    os.close(reader)
    Log(writer).event("call")
    os.close(writer)
    Log(writer).event("call")
    Log(None).event("call")


def test_an_error_is_described_without_its_text():
    with pytest.raises(ValueError, match="secret") as error:
        int("secret")
    described = describe(error.value)
    assert described.startswith("ValueError at test_log.py:")
    assert "secret" not in described
