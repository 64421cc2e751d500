# SPDX-License-Identifier: Apache-2.0
"""What ``run --in-process`` does to the programs that it starts, seen from within them, and from without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from history_delta_shim import injection
from support.interpreters import interpreters, supported
from support.model_server import ModelServer
from support.running_agent import PATIENCE

UPSTREAM = "http://127.0.0.1:9"
# What a program sees of itself and of what it inherits.
SEEN = (
    "import json, os, sys\n"
    "def seen():\n"
    "    mine = {name: os.environ[name] for name in os.environ if not name.startswith('LC_')}\n"
    "    return [mine, sys.path, str(sys.modules.get('sitecustomize')), sys.flags.no_site]\n"
)
IN_A_CHILD = (
    "import subprocess\n"
    "json.dump([seen(), json.loads(subprocess.check_output([sys.executable, '-c', %r]))], sys.stdout)\n"
    % (SEEN + "json.dump(seen(), sys.stdout)")
)


@pytest.fixture(params=["one file", "package"])
def shim(request, archive):
    if request.param == "one file":
        return [sys.executable, "-I", "-S", str(archive)]
    return [sys.executable, "-m", "history_delta_shim"]


@pytest.fixture
def run(shim, tmp_path):
    """Runs a program in Python text by ``run --in-process``, off or on."""

    def run(program, *options, python=sys.executable, enabled="1", flags=(), command=None, **environ):
        words = [*shim, "run", "--in-process", "--upstream", UPSTREAM, *options, "--"]
        words += command or [python, *flags, "-c", program]
        environ = {"PATH": os.environ["PATH"], "HISTORY_DELTA_ENABLED": enabled, **environ}
        return subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)

    return run


def off_and_on(run, program, **more):
    off, on = (run(program, enabled=enabled, HISTORY_DELTA_X="", **more) for enabled in ("no", "yes"))
    assert (on.returncode, on.stderr) == (off.returncode, off.stderr) == (0, "")
    # The one variable that the two were given differently.
    return off.stdout, on.stdout.replace('"yes"', '"no"')


class TestAProgramThatUsesHttpx:
    def test_has_its_transports_joined_up(self, run, tmp_path):
        done = run("import httpx; print(httpx.HTTPTransport.handle_request.__code__.co_filename)", "--log-file", "log")
        assert done.stdout.endswith("injection.py\n")
        assert json.loads((tmp_path / "log").read_text())["event"] == "joined"

    @pytest.mark.parametrize("library", ["httpx", "httpx2"])
    @pytest.mark.parametrize("pythonpath", [None, "", "/nowhere", "/nowhere:/else"])
    def test_and_its_tools_see_nothing_of_us(self, run, library, pythonpath):
        environ = {} if pythonpath is None else {"PYTHONPATH": pythonpath}
        off, on = off_and_on(run, f"import {library}\n" + SEEN + IN_A_CHILD, **environ)
        assert on == off

    def test_is_itself_the_process_that_was_started(self, run):
        program = "import httpx, os; os.kill(os.getpid(), 15)"
        assert run(program).returncode == -15
        assert run("import httpx, sys; sys.exit(7)").returncode == 7

    def test_runs_on_where_its_httpx_is_unlike_any(self, run, tmp_path):
        transports = tmp_path / "odd" / "httpx" / "_transports"
        transports.mkdir(parents=True)
        (transports.parent / "__init__.py").write_text("from ._transports import default\n")
        (transports / "__init__.py").touch()
        (transports / "default.py").write_text("class HTTPTransport:\n    handle_request = None\n")
        done = run("import httpx; print(httpx.default.HTTPTransport.handle_request)", PYTHONPATH=str(tmp_path / "odd"))
        assert (done.stdout, done.stderr) == ("None\n", "")

    def test_is_told_of_a_log_that_cannot_be_written_and_runs_directly(self, run):
        done = run(SEEN + "json.dump(seen(), sys.stdout)", "--log-file", "/nowhere/log")
        assert done.stderr.count("\n") == 1
        assert "cannot open /nowhere/log" in done.stderr
        assert "PYTHONPATH" not in json.loads(done.stdout)[0]


class TestAProgramThatDoesNot:
    @pytest.mark.parametrize("version", sorted(interpreters()))
    def test_runs_as_ever_on_any_python(self, run, version):
        program = SEEN + "del os.environ['PYTHONPATH']\njson.dump(seen(), sys.stdout)"
        off, on = off_and_on(run, program, python=interpreters()[version], PYTHONPATH="/nowhere")
        told = [json.loads(text) for text in (off, on)]
        assert told[1][0].pop("HISTORY_DELTA_IN_PROCESS") is not None
        assert told[1] == told[0]

    @pytest.mark.parametrize("version", sorted(supported()))
    @pytest.mark.parametrize("content", ["import sys; sys.theirs = 1", "raise ValueError('theirs')"])
    def test_has_its_own_sitecustomize_run(self, run, version, content, tmp_path):
        (tmp_path / "theirs").mkdir()
        (tmp_path / "theirs" / "sitecustomize.py").write_text(content)
        program = "import sys; print(getattr(sys, 'theirs', 0), 'sitecustomize' in sys.modules)"
        off, on = (
            run(program, python=supported()[version], enabled=enabled, PYTHONPATH=str(tmp_path / "theirs"))
            for enabled in ("0", "1")
        )
        assert (on.stdout, on.stderr) == (off.stdout, off.stderr)
        assert on.stdout == ("1 True\n" if "theirs = 1" in content else "0 False\n")

    def test_is_not_held_up(self, run):
        """Nothing is imported that Python has not loaded at that point."""
        off, on = (run("import sys; print(*sys.modules)", enabled=enabled).stdout.split() for enabled in "01")
        assert set(on) - set(off) <= {"zipimport", "zlib", "time", "importlib.readers"}

    def test_need_not_be_python(self, run):
        done = run("", command=["sh", "-c", "echo ran; exit 3"])
        assert (done.returncode, done.stdout, done.stderr) == (3, "ran\n", "")

    def test_that_is_not_there_is_said_to_be_so(self, run):
        done = run("", command=["/nowhere/agent"])
        assert (done.returncode, done.stderr) == (
            127,
            "history-delta: /nowhere/agent cannot be run: No such file or directory\n",
        )

    @pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
    def test_in_a_python_that_is_isolated_is_not_reached(self, run, flag):
        program = "import sys; print([m for m in sys.meta_path if 'Watch' in repr(m)])"
        assert run(program, flags=[flag]).stdout == "[]\n"


@pytest.mark.parametrize("options", [["--agent", "hermes"], ["--agent", "auto"], ["--rewrite", "file"]])
def test_nothing_is_pointed_at_anything(run, options):
    done = run("print(1)", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "history-delta: --in-process: expected neither --agent nor --rewrite, for no configuration is changed\n"
    )


def test_a_rollout_is_minted_for_all_programs_of_a_run(run):
    program = "import json, os; print(json.loads(os.environ['HISTORY_DELTA_IN_PROCESS'])['rollout'])"
    first, second = (run(program).stdout.strip() for _ in range(2))
    assert len(first) == len(second) == 32
    assert first != second
    assert run(program, "--rollout", "r1").stdout == "r1\n"
    assert run(program, HISTORY_DELTA_ROLLOUT="r2").stdout == "r2\n"


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


def test_the_hook_parses_on_python_2():
    hook = Path(injection.FOLDER) / "sitecustomize.py"
    python = interpreters().get("2.7")
    if python is None:
        pytest.skip("without Python 2.7")
    subprocess.run([python, "-m", "py_compile", str(hook)], check=True)
    hook.with_suffix(".pyc").unlink()
