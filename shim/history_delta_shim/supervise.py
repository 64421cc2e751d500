# SPDX-License-Identifier: Apache-2.0
"""Runs the agent in the foreground, as if it had been started directly, and keeps the shim alive beside it.

One thread, one loop over signals taken synchronously: children that changed state, signals to pass on, and the time at
which a dead shim is due. Agent and parent share a process group, so that the terminal's job control and a signal to
the group reach the agent without us; only what was sent to the parent alone is passed on.
"""

import os
import signal
import subprocess
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .shim_process import ShimProcess

_PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
_HANDLED = frozenset(_PASSED_ON + (signal.SIGCHLD,))
# The terminal sends these to the whole foreground group; the kernel as sender is how we know.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
_PR_SET_PDEATHSIG = 1

AVAILABLE = hasattr(signal, "sigtimedwait")


class Supervisor(object):
    def __init__(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._set_death_signal = _death_signal_setter()

    def hold_signals(self) -> None:
        """From here on a signal waits until the agent runs, and after it until this process has put all in order."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as it may come to us, there is nothing to wait for
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)

    def restore_signals(self) -> None:
        """For a child, before it executes its program."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def start(self, command: List[str], environ: Dict[str, str]) -> None:
        """Start the agent. Raises OSError where it cannot be."""
        self._agent = subprocess.Popen(command, env=environ, close_fds=False, preexec_fn=self._before_agent)

    def wait(self, shim: ShimProcess) -> int:
        """Stay with the agent to its end and return its exit code as a shell gives it."""
        self._reap(shim)  # what ended before its signal was held
        while self._agent.returncode is None:
            self._handle(_next_signal(shim.due), shim)
        return self._agent.returncode if self._agent.returncode >= 0 else 128 - self._agent.returncode

    def _before_agent(self) -> None:
        self.restore_signals()
        self._set_death_signal()

    def _handle(self, info: Optional[Any], shim: ShimProcess) -> None:
        if info is None:
            shim.start_again()
        elif info.si_signo == signal.SIGCHLD:
            self._reap(shim)
        elif not (info.si_code > 0 and info.si_signo in _FROM_TERMINAL):
            os.kill(self._agent.pid, info.si_signo)

    def _reap(self, shim: ShimProcess) -> None:
        """Every child: the agent, the shim, and orphans that come to us where we are the container's first process."""
        for pid, status in _changed_children():
            if os.WIFSTOPPED(status):
                if pid == self._agent.pid and _in_foreground():
                    os.kill(os.getpid(), signal.SIGSTOP)  # the shell sees the job stop, and continues both of us
                continue
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if pid == self._agent.pid:
                self._agent.returncode = code
            elif pid == shim.pid:
                shim.died(code)


def _next_signal(due: Optional[float]) -> Optional[Any]:
    """None where ``due``, on the monotonic clock, comes first."""
    if due is None:
        return signal.sigwaitinfo(_HANDLED)
    return signal.sigtimedwait(_HANDLED, max(0.0, due - time.monotonic()))


def _changed_children() -> Iterator[Tuple[int, int]]:
    """(pid, wait status) of each child that has ended or stopped since it was last asked for."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _in_foreground() -> bool:
    """Whether a job-controlling shell put us in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _death_signal_setter() -> Callable[[], Any]:
    """What makes the agent die with us, as it would if a harness killed it directly; a no-op where there is no such."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError, TypeError):
        return lambda: None
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
