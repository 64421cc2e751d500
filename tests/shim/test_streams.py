# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest

CLOSED = "import os; [os.close(fd) for fd in {fds}]; "
PROGRAM = "os.execv({python!r}, [{python!r}, '-c', {then!r}])"
CHECK = (
    "import os, sys; from history_delta_shim.streams import ensure_standard_streams, tell; "
    "ensure_standard_streams(); print('out'); sys.stdout.flush(); tell('err'); "
    "reader, writer = os.pipe(); os._exit(0 if min(reader, writer) > 2 else 1)"
)


@pytest.mark.parametrize("closed", [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_what_is_closed_is_opened_on_nothing(closed):
    launch = CLOSED.format(fds=closed) + PROGRAM.format(python=sys.executable, then=CHECK)
    ran = subprocess.run([sys.executable, "-c", launch], capture_output=True, text=True)
    assert ran.returncode == 0
    assert ran.stdout == ("" if 1 in closed else "out\n")
    assert ran.stderr == ("" if 2 in closed else "err\n")


def test_a_line_that_nobody_takes_is_no_error():
    with open("/dev/full", "w") as full:
        program = "from history_delta_shim.streams import tell; tell('x'); tell('y')"
        assert subprocess.run([sys.executable, "-c", program], stderr=full).returncode == 0


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_an_agent_runs_also_where_we_cannot_say_anything(closed, tmp_path):
    """The upstream is named nowhere, which we would say."""
    command = f'"$PYTHON" -m history_delta_shim run --upstream http://127.0.0.1:9 -- sh -c "exit 7" {closed}'
    environ = {**os.environ, "PYTHON": sys.executable, "HISTORY_DELTA_ENABLED": "1", "XDG_CACHE_HOME": str(tmp_path)}
    assert subprocess.run(["sh", "-c", command], env=environ).returncode == 7
