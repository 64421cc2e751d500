# SPDX-License-Identifier: Apache-2.0
"""What every Python that ``run --in-process`` starts runs first: without httpx, the program is as it was."""

import json
import subprocess
from pathlib import Path

import pytest
from history_delta_shim import injection
from support.in_process_runs import SEEN, off_and_on
from support.interpreters import interpreters, supported
from support.needs import needs


class TestAProgramThatDoesNot:
    @pytest.mark.parametrize("version", sorted(interpreters()))
    def test_runs_as_ever_on_any_python(self, run_in_process, version):
        program = SEEN + "del os.environ['PYTHONPATH']\njson.dump(seen(), sys.stdout)"
        off, on = off_and_on(run_in_process, program, python=interpreters()[version], PYTHONPATH="/nowhere")
        told = [json.loads(text) for text in (off, on)]
        assert told[1][0].pop("HISTORY_DELTA_IN_PROCESS") is not None
        assert told[1] == told[0]

    @pytest.mark.parametrize("version", sorted(supported()))
    @pytest.mark.parametrize("content", ["import sys; sys.theirs = 1", "raise ValueError('theirs')"])
    def test_has_its_own_sitecustomize_run(self, run_in_process, version, content, tmp_path):
        (tmp_path / "theirs").mkdir()
        (tmp_path / "theirs" / "sitecustomize.py").write_text(content)
        program = "import sys; print(getattr(sys, 'theirs', 0), 'sitecustomize' in sys.modules)"
        off, on = (
            run_in_process(program, python=supported()[version], enabled=enabled, PYTHONPATH=str(tmp_path / "theirs"))
            for enabled in ("0", "1")
        )
        assert (on.stdout, on.stderr) == (off.stdout, off.stderr)
        assert on.stdout == ("1 True\n" if "theirs = 1" in content else "0 False\n")

    def test_is_not_held_up(self, run_in_process):
        """Nothing is imported that Python has not loaded at that point."""
        off, on = (
            run_in_process("import sys; print(*sys.modules)", enabled=enabled).stdout.split() for enabled in "01"
        )
        assert set(on) - set(off) <= {"zipimport", "zlib", "time", "importlib.readers"}

    def test_need_not_be_python(self, run_in_process):
        done = run_in_process("", command=["sh", "-c", "echo ran; exit 3"])
        assert (done.returncode, done.stdout, done.stderr) == (3, "ran\n", "")

    def test_that_is_not_there_is_said_to_be_so(self, run_in_process):
        done = run_in_process("", command=["/nowhere/agent"])
        assert (done.returncode, done.stderr) == (
            127,
            "history-delta: /nowhere/agent cannot be run: No such file or directory\n",
        )

    @pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
    def test_in_a_python_that_is_isolated_is_not_reached(self, run_in_process, flag):
        program = "import sys; print([m for m in sys.meta_path if 'Watch' in repr(m)])"
        assert run_in_process(program, flags=[flag]).stdout == "[]\n"


def test_the_hook_parses_on_python_2():
    hook = Path(injection.FOLDER) / "sitecustomize.py"
    python = interpreters().get("2.7")
    needs(python, "Python 2.7")
    subprocess.run([python, "-m", "py_compile", str(hook)], check=True)
    hook.with_suffix(".pyc").unlink()
