# SPDX-License-Identifier: Apache-2.0
"""The protocol on every Python of this machine, without site packages: the vectors, and that it imports nothing."""

import subprocess
from pathlib import Path

import pytest
from support.interpreters import supported
from support.needs import needs

HERE = Path(__file__).parent
PROTOCOL = HERE.parents[1] / "protocol"
VECTORS = PROTOCOL / "vectors"
each_interpreter = pytest.mark.parametrize("interpreter", supported().values(), ids=supported().keys())


def test_at_least_three_interpreters_are_here_and_the_oldest_is_3_6():
    needs(len(supported()) >= 3 and "3.6" in supported(), "three Pythons from 3.6 on, 3.6 among them")


@each_interpreter
def test_the_vectors_on(interpreter):
    command = [interpreter, "-I", "-S", HERE / "run_vectors.py", PROTOCOL, VECTORS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:]
    assert done.stdout.startswith("0 of ")


@each_interpreter
def test_importing_it_loads_the_standard_library_alone(interpreter):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from history_delta_protocol import chain, dialect, encoding, frame, pieces, scan, wire\n"
        "print([name for name in sys.modules if 'site-packages' in str(getattr(sys.modules[name], '__file__', ''))])"
    )
    command = [interpreter, "-I", "-S", "-W", "error", "-c", program, PROTOCOL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
