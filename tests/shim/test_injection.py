# SPDX-License-Identifier: Apache-2.0
"""What ``run --in-process`` does to the programs that it starts and that use httpx, as they see it."""

import json
import os
import subprocess
import sys

import pytest
from history_delta_shim import injection
from support.in_process_runs import IN_A_CHILD, SEEN, UPSTREAM, off_and_on
from support.model_server import ModelServer
from support.running_agent import PATIENCE


class TestAProgramThatUsesHttpx:
    def test_has_its_transports_joined_up(self, run_in_process, tmp_path):
        done = run_in_process(
            "import httpx; print(httpx.HTTPTransport.handle_request.__code__.co_filename)", "--log-file", "log"
        )
        assert done.stdout.endswith("injection.py\n")
        assert json.loads((tmp_path / "log").read_text())["event"] == "joined"

    @pytest.mark.parametrize("library", ["httpx", "httpx2"])
    @pytest.mark.parametrize("pythonpath", [None, "", "/nowhere", "/nowhere:/else"])
    def test_and_its_tools_see_nothing_of_us(self, run_in_process, library, pythonpath):
        environ = {} if pythonpath is None else {"PYTHONPATH": pythonpath}
        off, on = off_and_on(run_in_process, f"import {library}\n" + SEEN + IN_A_CHILD, **environ)
        assert on == off

    def test_is_itself_the_process_that_was_started(self, run_in_process):
        program = "import httpx, os; os.kill(os.getpid(), 15)"
        assert run_in_process(program).returncode == -15
        assert run_in_process("import httpx, sys; sys.exit(7)").returncode == 7

    def test_runs_on_where_its_httpx_is_unlike_any(self, run_in_process, tmp_path):
        transports = tmp_path / "odd" / "httpx" / "_transports"
        transports.mkdir(parents=True)
        (transports.parent / "__init__.py").write_text("from ._transports import default\n")
        (transports / "__init__.py").touch()
        (transports / "default.py").write_text("class HTTPTransport:\n    handle_request = None\n")
        done = run_in_process(
            "import httpx; print(httpx.default.HTTPTransport.handle_request)", PYTHONPATH=str(tmp_path / "odd")
        )
        assert (done.stdout, done.stderr) == ("None\n", "")

    def test_is_told_of_a_log_that_cannot_be_written_and_runs_directly(self, run_in_process):
        done = run_in_process(SEEN + "json.dump(seen(), sys.stdout)", "--log-file", "/nowhere/log")
        assert done.stderr.count("\n") == 1
        assert "cannot open /nowhere/log" in done.stderr
        assert "PYTHONPATH" not in json.loads(done.stdout)[0]


@pytest.mark.parametrize("options", [["--agent", "hermes"], ["--agent", "auto"], ["--rewrite", "file"]])
def test_nothing_is_pointed_at_anything(run_in_process, options):
    done = run_in_process("print(1)", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "history-delta: --in-process: expected neither --agent nor --rewrite, for no configuration is changed\n"
    )


def test_a_rollout_is_minted_for_all_programs_of_a_run(run_in_process):
    program = "import json, os; print(json.loads(os.environ['HISTORY_DELTA_IN_PROCESS'])['rollout'])"
    first, second = (run_in_process(program).stdout.strip() for _ in range(2))
    assert len(first) == len(second) == 32
    assert first != second
    assert run_in_process(program, "--rollout", "r1").stdout == "r1\n"
    assert run_in_process(program, HISTORY_DELTA_ROLLOUT="r2").stdout == "r2\n"


class TestEnvironment:
    def told(self, environ):
        return injection.environment(environ, UPSTREAM, "r", None, False)

    def test_a_run_within_a_run_takes_its_place(self):
        once = self.told({"PYTHONPATH": "/a"})
        assert self.told(once)["PYTHONPATH"] == once["PYTHONPATH"] == os.pathsep.join([injection.FOLDER, "/a"])

    def test_a_path_that_pythonpath_cannot_hold_is_refused(self, monkeypatch):
        monkeypatch.setattr(injection, "FOLDER", "/a:b/injected")
        with pytest.raises(ValueError, match="/a:b/injected cannot be put on PYTHONPATH"):
            self.told({})


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST"])
def test_the_first_call_loads_the_rest(archive, tmp_path, host):
    """Until then a program with httpx has no more of us than it needs to know which calls are ours."""
    program = (
        "import httpx, sys\n"
        "def loaded(): return sorted(n for n in sys.modules if n.startswith('history_delta'))\n"
        "print(loaded()); httpx.post(sys.argv[1], content=b'{}'); print(len(loaded()) > 10)\n"
        "print([path for path in sys.path if 'history_delta_shim.pyz' in path])"
    )
    with ModelServer(lambda call: call.respond(b"{}")) as model:
        origin = model.origin.replace("127.0.0.1", host)
        command = [sys.executable, str(archive), "run", "--in-process", "--upstream", origin, "--"]
        command += [sys.executable, "-c", program, origin + "/v1/chat/completions"]
        environ = {"HISTORY_DELTA_ENABLED": "1", "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr == ""
    first, second, paths = done.stdout.splitlines()
    assert first == "['history_delta_protocol', 'history_delta_shim', 'history_delta_shim.injection']"
    assert (second, paths) == ("True", "[]")
    assert model.calls[0].request.value("History-Delta-Delivery")
