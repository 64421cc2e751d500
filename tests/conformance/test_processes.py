# SPDX-License-Identifier: Apache-2.0
"""Processes under test: ready when they say so, stopped when left, and why they did not start."""

import sys

import pytest
from history_delta_conformance.processes import ReadyProcess, StartError

SERVE = (
    "import json, os, sys, time\n"
    "file = sys.argv[sys.argv.index('--ready-file') + 1]\n"
    "print(sorted(name for name in os.environ if name.startswith('HISTORY_DELTA_')), file=sys.stderr, flush=True)\n"
    "open(file + '.new', 'w').write(json.dumps({'url': 'http://127.0.0.1:9'}))\n"
    "os.rename(file + '.new', file)\n"
    "time.sleep(600)"
)


async def test_ready_with_its_url_and_only_our_own_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("HISTORY_DELTA_UPSTREAM", "http://somewhere.invalid")
    command = [sys.executable, "-c", SERVE]
    async with ReadyProcess("it", command, tmp_path, {"HISTORY_DELTA_ENABLED": "1"}) as process:
        assert process.url == "http://127.0.0.1:9"
        assert process.stderr.read_text() == "['HISTORY_DELTA_ENABLED']\n"
        assert process.is_running
    assert not process.is_running


async def test_a_process_that_ends_at_once_is_an_error_with_what_it_said(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('--listen: taken')"]
    with pytest.raises(StartError, match="it did not start: --listen: taken"):
        async with ReadyProcess("it", command, tmp_path, {}):
            pass
