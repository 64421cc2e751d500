# SPDX-License-Identifier: Apache-2.0
"""The shim as a child process of ``run``: started on a socket that the parent holds, and started again when it dies.

The socket outlives the process, so an agent's configuration stays valid and its connections wait in the backlog. The
child ends when its end of a pipe reads end-of-file, which is when the parent has ended in whatever way.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Callable, List, Optional

_BACKLOG = 128
_READY_SECONDS = 10.0
_STOP_SECONDS = 2.0
_FIRST_DELAY = 0.05
_LAST_DELAY = 2.0
_STABLE_SECONDS = 10.0  # a process that lived this long starts the back-off anew


class ShimFailed(Exception):
    """The shim cannot be started; the message says why."""


class ShimProcess(object):
    def __init__(self, directory: str, options: List[str], before_exec: Callable[[], None]) -> None:
        """``directory`` is for files of its own; ``options`` go to ``serve``; ``before_exec`` runs in the child."""
        self.due: Optional[float] = None  # when to start it again, on the monotonic clock
        self._ready_file = os.path.join(directory, "ready.json")
        self._errors = os.path.join(directory, "shim.err")
        self._before_exec = before_exec
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._started = 0.0
        self._delay = _FIRST_DELAY
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(_BACKLOG)
        self._watched, self._held = os.pipe()
        self._command = serve_command() + ["--listen-fd", str(self._socket.fileno()), "--watch-fd", str(self._watched)]
        self._command += ["--ready-file", self._ready_file] + options

    @property
    def origin(self) -> str:
        return "http://127.0.0.1:%d" % self._socket.getsockname()[1]

    @property
    def pid(self) -> Optional[int]:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        self.due = None
        self._started = time.monotonic()
        with open(self._errors, "ab") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(self._socket.fileno(), self._watched),
                start_new_session=True,  # the terminal's signals are for the agent
                preexec_fn=self._before_exec,
            )

    def wait_until_ready(self) -> None:
        """Return once it accepts; raises ShimFailed where it ends or takes too long."""
        process = self._process
        assert process is not None
        while not os.path.exists(self._ready_file):
            if process.poll() is not None:
                raise ShimFailed(self._last_error() or "it ended with status %s" % process.returncode)
            if time.monotonic() - self._started > _READY_SECONDS:
                raise ShimFailed("it is not ready after %d s" % _READY_SECONDS)
            time.sleep(0.005)

    def died(self, returncode: int) -> None:
        """Its end was seen by whoever waits for children; sets ``due``."""
        assert self._process is not None
        self._process.returncode = returncode
        self._process = None
        self._back_off()

    def start_again(self) -> None:
        try:
            self.start()
        except OSError:  # no process to be had just now
            self._back_off()

    def _back_off(self) -> None:
        now = time.monotonic()
        if now - self._started > _STABLE_SECONDS:
            self._delay = _FIRST_DELAY
        self.due = now + self._delay
        self._delay = min(2 * self._delay, _LAST_DELAY)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(self._held)
        os.close(self._watched)
        self._socket.close()

    def _last_error(self) -> str:
        with open(self._errors, "rb") as file:
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].replace("history-delta: ", "", 1) if lines else ""


def serve_command() -> List[str]:
    """This program's ``serve``, from the same archive or package, on the same interpreter.

    Isolated and without site: neither the agent's PYTHONPATH nor a json.py in the workspace may stand in for the
    standard library.
    """
    if not sys.executable:
        raise ShimFailed("this Python does not know its own executable")
    interpreter = [sys.executable, "-I", "-S"]
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(here)
    if os.path.isfile(root):
        return interpreter + [root, "serve"]
    import history_delta_protocol

    roots = [root, os.path.dirname(os.path.dirname(os.path.abspath(history_delta_protocol.__file__)))]
    code = "import sys; sys.path[:0] = %r; from history_delta_shim.cli import main; sys.exit(main())" % roots
    return interpreter + ["-c", code, "serve"]
