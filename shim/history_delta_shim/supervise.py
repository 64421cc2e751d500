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
from typing import Any, Callable, Dict, List, Optional

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
        self._agent = 0
        self._status: Optional[int] = None

    def hold_signals(self) -> None:
        """From here on a signal waits until the agent runs, and after it until this process has put all in order."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as it may come to us, there is nothing to wait for
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)

    def restore_signals(self) -> None:
        """For a child, before it executes its program."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def run(self, command: List[str], environ: Dict[str, str], shim: ShimProcess) -> int:
        """Run the agent to its end and return its exit code as a shell gives it. Raises OSError: it cannot start."""
        self._shim = shim
        agent = subprocess.Popen(command, env=environ, close_fds=False, preexec_fn=self._before_agent)
        self._agent = agent.pid
        while self._status is None:
            self._handle(self._next_signal())
        agent.returncode = self._status
        return self._status if self._status >= 0 else 128 - self._status

    def _before_agent(self) -> None:
        self.restore_signals()
        self._set_death_signal()

    def _next_signal(self) -> Optional[Any]:
        """None where it is time to start the shim again."""
        if self._shim.due is None:
            return signal.sigwaitinfo(_HANDLED)
        return signal.sigtimedwait(_HANDLED, max(0.0, self._shim.due - time.monotonic()))

    def _handle(self, info: Optional[Any]) -> None:
        if info is None:
            self._shim.start()
        elif info.si_signo == signal.SIGCHLD:
            self._reap()
        elif not (info.si_code > 0 and info.si_signo in _FROM_TERMINAL):
            os.kill(self._agent, info.si_signo)

    def _reap(self) -> None:
        """Every child: the agent, the shim, and orphans that come to us where we are the container's first process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                if pid == self._agent and _in_foreground():
                    os.kill(os.getpid(), signal.SIGSTOP)  # the shell sees the job stop, and continues both of us
                continue
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if pid == self._agent:
                self._status = code
            elif pid == self._shim.pid:
                self._shim.died(code)


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
