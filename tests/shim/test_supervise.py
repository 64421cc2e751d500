# SPDX-License-Identifier: Apache-2.0
import ctypes
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from support.running_agent import PATIENCE, wait_until

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
PR_SET_CHILD_SUBREAPER = 36


# An agent with a signal on its way to its parent before it is there, and no shim.
EARLY_SIGNAL = """
import os, signal, sys
from history_delta_shim.shim_process import ShimProcess
from history_delta_shim.supervise import Supervisor
supervisor = Supervisor()
shim = ShimProcess(sys.argv[1], [], supervisor.restore_signals)
supervisor.hold_signals()
os.kill(os.getpid(), signal.SIGUSR1)
supervisor.start([sys.executable, "-c", "import signal; signal.pause()"], dict(os.environ))
print("started", flush=True)
sys.exit(supervisor.wait(shim))
"""


# An agent that leaves the child of a child that has ended, and ends when it is told to.
ORPHANING = """
import subprocess, sys
code = "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid)"
print('{"started": %d}' % int(subprocess.check_output([sys.executable, "-c", code])), flush=True)
sys.stdin.readline()
sys.exit(4)
"""


class TestTheExitCode:
    @pytest.mark.parametrize("code", [0, 3, 255])
    def test_is_the_agents(self, bench, code):
        with bench.start() as agent:
            assert agent.exit(code) == code

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
    def test_tells_the_agents_signal_as_a_shell_would(self, bench, number):
        with bench.start() as agent:
            os.kill(agent.agent_pid, number)
            assert agent.process.wait(PATIENCE) == 128 + number

    def test_is_seen_where_children_were_ignored(self, bench):
        with bench.start(preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) as agent:
            assert agent.exit(3) == 3


class TestSignals:
    @pytest.mark.parametrize("name", SIGNALS)
    def test_to_the_run_reach_the_agent_once(self, bench, name):
        with bench.start() as agent:
            agent.process.send_signal(getattr(signal, name))
            assert agent.reported() == {"signal": name}
            assert agent.ask("call")["status"] == 200  # no second report in between, and the shim is there

    def test_that_come_before_there_is_an_agent_wait_for_it(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", EARLY_SIGNAL, str(tmp_path)], capture_output=True, timeout=PATIENCE
        )
        assert (done.stdout, done.returncode) == (b"started\n", 128 + signal.SIGUSR1)

    def test_are_blocked_for_the_agent_as_they_were_for_the_run(self, bench):
        def block():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

        agent = ("grep", "SigBlk", "/proc/self/status")
        done = subprocess.run(bench.command(agent=agent), env=bench.environ, capture_output=True, preexec_fn=block)
        assert int(done.stdout.split()[-1], 16) == 1 << (signal.SIGUSR2 - 1)


def test_orphans_are_reaped_where_they_come_to_the_run(bench):
    adopt = ctypes.CDLL(None).prctl
    agent = (sys.executable, "-c", ORPHANING)
    with bench.start(agent=agent, preexec_fn=lambda: adopt(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) as running:
        orphan = running.started["started"]
        os.kill(orphan, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{orphan}").exists(), "nothing is left of the orphan")
        running.tell("")
        assert running.process.wait(PATIENCE) == 4


# A shell's part in job control: it starts a job in the foreground and says what becomes of it.
SHELL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: (os.setpgid(0, 0), os.tcsetpgrp(0, os.getpid())))
while True:
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print("ended", os.WEXITSTATUS(status), flush=True)
        break
    print("stopped", flush=True)
    os.tcsetpgrp(0, job.pid)
    os.killpg(job.pid, signal.SIGCONT)
"""


class TestInATerminal:
    @pytest.fixture
    def terminal(self, bench):
        ours, theirs = pty.openpty()
        settings = termios.tcgetattr(theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, *bench.command()],
            env=bench.environ,
            cwd=bench.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        with os.fdopen(ours, "r+b", buffering=0) as file:
            yield file
        shell.kill()
        shell.wait()

    def line(self, terminal):
        line = b""
        while not line.endswith(b"\n"):
            line += terminal.read(1)
        return line.decode().strip()

    def test_keys_reach_the_agent_once_and_jobs_can_be_stopped_and_continued(self, terminal):
        assert "started" in self.line(terminal)
        terminal.write(b"\x03")
        assert self.line(terminal) == '{"signal": "SIGINT"}'
        terminal.write(b"\x1c")
        assert self.line(terminal) == '{"signal": "SIGQUIT"}'
        terminal.write(b"\x1a")
        assert self.line(terminal) == "stopped"
        terminal.write(b"call\n")
        assert '"status": 200' in self.line(terminal)
        terminal.write(b"stop\n")  # as a program does that cleans up its screen before it stops itself
        assert self.line(terminal) == "stopped"
        assert self.line(terminal) == '{"continued": true}'
        terminal.write(b"exit 4\n")
        assert self.line(terminal) == "ended 4"
