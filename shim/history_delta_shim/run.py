# SPDX-License-Identifier: Apache-2.0
"""``run -- COMMAND…``: an agent with the shim in front of its model, or, wherever that cannot be, the agent alone.

Losing the optimisation is always fine, losing the agent never: every failure of ours ends in running the command
directly, with one line on stderr. What the agent is given is in ``pointing``, how it is watched in ``supervise``.
"""

import argparse
import contextlib
import os
import signal
from typing import Callable, Dict, List, Optional

from . import agents, injection, settings
from .pointing import Pointing
from .private import PrivateDirectory
from .rewrite import Rewrite, RewriteError, recover
from .shim_process import ShimFailed, ShimProcess
from .streams import tell
from .substitute import Substitution
from .supervise import AVAILABLE, Supervisor

_CANNOT_RUN = 126
_NOT_FOUND = 127
_INTERRUPTED = 128 + signal.SIGINT
_SOME_SHIM = "http://127.0.0.1:1"


class RunDirectly(Exception):
    """The agent is to run without the shim; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.usage = "%(prog)s [options] -- COMMAND [ARGUMENT ...]"
    add("--upstream", metavar="ORIGIN", help="the server that the agent is to reach [%s]" % settings.UPSTREAM_VARIABLE)
    add("--in-process", action="store_true", help="within the agent, where that is a Python program that uses httpx")
    add("--agent", choices=agents.NAMES + ("auto",), help="whose configuration to copy (auto)")
    add("--rewrite", metavar="FILE", action="append", default=[], help="point FILE at the shim, in place, for the run")
    add("--rollout", metavar="ID", help="the rollout, where a path names none [%s]" % settings.ROLLOUT_VARIABLE)
    add("--log-file", metavar="FILE", help="where the shim logs to, as JSON lines")
    add("--log-body-hash", action="store_true", help="log the SHA-256 of every body of an agent's model call")
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    """The agent's exit code, 128 + n where signal n ended it; does not return where the agent runs directly.

    Raises settings.Invalid.
    """
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise settings.Invalid("expected a command: run [options] -- COMMAND")
    if args.in_process and (args.agent or args.rewrite):
        raise settings.Invalid("--in-process: expected neither --agent nor --rewrite, for no configuration is changed")
    enabled, environ = _check(args), inherited_environment()
    upstream = args.upstream or os.environ[settings.UPSTREAM_VARIABLE]
    try:
        for path in args.rewrite:
            _say(recover(path, Substitution(upstream, _SOME_SHIM)))
        if enabled and args.in_process:
            return _execute(command, _with_transport(args, upstream, environ))
        if enabled:
            return _run_with_shim(args, upstream, command, environ)
    except RunDirectly as reason:
        _say("%s; running it directly" % reason)
    except RewriteError as error:
        raise settings.Invalid("--rewrite: %s" % error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return _execute(command, environ)


def inherited_environment() -> Dict[str, str]:
    """The environment as it was given: in the C locale Python sets LC_CTYPE, which an agent would then inherit."""
    environ = dict(os.environ)
    try:
        with open("/proc/self/environ", "rb") as file:
            given = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    except OSError:
        return environ
    environ.pop("LC_CTYPE", None)
    if b"LC_CTYPE" in given:
        environ["LC_CTYPE"] = os.fsdecode(given[b"LC_CTYPE"])
    return environ


def _check(args: argparse.Namespace) -> bool:
    """Whether the protocol is to be spoken; raises Invalid for what ``serve`` would not take, proxies aside."""
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    ours = {name: value for name, value in os.environ.items() if name.startswith("HISTORY_DELTA_")}
    return settings.from_arguments(parser.parse_args(_serve_options(args)), ours).enabled


def _run_with_shim(args: argparse.Namespace, upstream: str, command: List[str], environ: Dict[str, str]) -> int:
    """Prepare, run, and undo in the reverse order. The user's files are touched only once all else is ready."""
    supervisor = Supervisor()
    with contextlib.ExitStack() as at_end:
        try:
            if not AVAILABLE:
                raise ShimFailed("this system cannot wait for signals as run must")
            private = PrivateDirectory(environ)
            at_end.callback(_undo, "the private files", private.close)
            shim = ShimProcess(private.path, _serve_options(args) + _own_rollout(args), supervisor.restore_signals)
            at_end.callback(_undo, "the shim", shim.stop)
            substitution = Substitution(upstream, shim.origin)
            rewritten = [path for path in args.rewrite if _names_upstream(path, substitution)]
            pointing = Pointing(command, environ, substitution, private, frozenset(rewritten))
            _point(pointing, args.agent)
            if not pointing.found and not rewritten:
                raise RunDirectly("the command's configuration does not name the upstream %s" % upstream)
            shim.start()
            shim.wait_until_ready()
        except (OSError, ShimFailed) as error:
            raise RunDirectly("the shim cannot start: %s" % error)
        supervisor.hold_signals()
        for path in rewritten:
            at_end.callback(_undo, path, Rewrite(path, substitution).restore)
        try:
            supervisor.start(pointing.command, pointing.environ)
        except OSError as error:
            return _cannot_run(command, error)
        return supervisor.wait(shim)


def _with_transport(args: argparse.Namespace, upstream: str, environ: Dict[str, str]) -> Dict[str, str]:
    """The environment in which Python programs have the transport within; nothing of ours runs beside the agent."""
    rollout = args.rollout or os.environ.get(settings.ROLLOUT_VARIABLE) or os.urandom(16).hex()
    log_file = args.log_file
    try:
        log_fd = settings.open_log(log_file)
        if log_fd not in (None, 2):
            os.close(log_fd)
            log_file = os.path.abspath(log_file)
        return injection.environment(environ, upstream, rollout, log_file, args.log_body_hash)
    except (settings.Invalid, ValueError) as error:
        raise RunDirectly("it cannot be run with the transport in process: %s" % error)


def _undo(what: str, action: Callable[[], Optional[List[str]]]) -> None:
    """Tidy up; where that fails, the agent may have done so itself, and its exit code matters more."""
    try:
        for line in action() or []:
            _say(line)
    except OSError as error:
        _say("%s could not be tidied up: %s" % (what, error))


def _point(pointing: Pointing, name: Optional[str]) -> None:
    agent = agents.by_name(name) if name not in (None, "auto") else agents.detect(pointing.command)
    if agent is not None:
        pointing.add_agent(agent)
    pointing.bypass_proxy()
    for path in pointing.missed:
        _say("%s names the upstream and cannot be copied; --rewrite %s would point it at the shim" % (path, path))


def _names_upstream(path: str, substitution: Substitution) -> bool:
    try:
        with open(path, "rb") as file:
            found = substitution.found_in(file.read())
    except OSError as error:
        raise RewriteError("%s: %s" % (path, error.strerror))
    if not found:
        _say("%s does not name the upstream" % path)
    return found


def _serve_options(args: argparse.Namespace) -> List[str]:
    given = (("--upstream", args.upstream), ("--rollout", args.rollout), ("--log-file", args.log_file or os.devnull))
    words = [word for option, value in given if value is not None for word in (option, value)]
    return words + (["--log-body-hash"] if args.log_body_hash else [])


def _own_rollout(args: argparse.Namespace) -> List[str]:
    """A shim that takes a dead one's place goes on with its rollout, also where nobody has named one."""
    named = args.rollout or os.environ.get(settings.ROLLOUT_VARIABLE)
    return [] if named else ["--rollout", os.urandom(16).hex()]


def _execute(command: List[str], environ: Dict[str, str]) -> int:
    """Become the command. Python ignores two signals, and what is ignored stays so over exec."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        return _cannot_run(command, error)


def _cannot_run(command: List[str], error: OSError) -> int:
    _say("%s cannot be run: %s" % (command[0], error.strerror or error))
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN


def _say(line: object) -> None:
    if line:
        tell("history-delta: %s" % line)
