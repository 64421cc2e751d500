# SPDX-License-Identifier: Apache-2.0
"""``run -- COMMAND…``: an agent with the shim in front of its model, or, wherever that cannot be, the agent alone.

Losing the optimisation is always fine, losing the agent never: every failure of ours ends in running the command
directly, with one line on stderr. What the agent is given is in ``pointing``, how it is watched in ``supervise``.
"""

import argparse
import os
import signal
import sys
from typing import Dict, List

from . import agents
from .pointing import Pointing
from .private import PrivateDirectory
from .rewrite import RewriteError, recover, rewrite_all
from .shim_process import ShimFailed, ShimProcess
from .substitute import Substitution
from .supervise import AVAILABLE, Supervisor

_USAGE_ERROR = 2
_CANNOT_RUN = 126
_NOT_FOUND = 127
_INTERRUPTED = 128 + signal.SIGINT
_SOME_SHIM = "http://127.0.0.1:1"
_TRUE = ("1", "true", "yes", "on")


class RunDirectly(Exception):
    """The agent is to run without the shim; the message says why."""


def add_arguments(parser):
    # type: (argparse.ArgumentParser) -> None
    parser.add_argument("--upstream", metavar="ORIGIN", help="the server that the agent is configured for")
    parser.add_argument("--agent", choices=agents.NAMES + ("auto",), default="auto", help="whose configuration to copy")
    parser.add_argument("--rewrite", metavar="FILE", action="append", default=[], help="also point FILE, in place")
    parser.add_argument("--rollout", metavar="ID", help="the rollout, where the agent's path names none")
    parser.add_argument("--log-file", metavar="FILE", help="where the shim logs to")
    parser.add_argument("command", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="the agent and its arguments")


def main(args):
    # type: (argparse.Namespace) -> int
    """The agent's exit code, 128 + n where signal n ended it; does not return where the agent runs directly."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    environ = dict(os.environ)
    upstream = args.upstream or environ.get("HISTORY_DELTA_UPSTREAM", "")
    if not command:
        return _usage_error("expected a command: run [options] -- COMMAND")
    if not upstream:
        return _usage_error("expected --upstream ORIGIN or HISTORY_DELTA_UPSTREAM, such as http://gateway:8000")
    try:
        substitution = Substitution(upstream, _SOME_SHIM)
        for path in args.rewrite:
            _say(recover(path, substitution))
    except (ValueError, RewriteError) as error:
        return _usage_error(str(error))
    if environ.get("HISTORY_DELTA_ENABLED", "").strip().lower() not in _TRUE:
        return _execute(command, environ)
    try:
        return _run_with_shim(args, upstream, command, environ)
    except RunDirectly as reason:
        _say("%s; running it directly" % reason)
        return _execute(command, environ)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run_with_shim(args, upstream, command, environ):
    # type: (argparse.Namespace, str, List[str], Dict[str, str]) -> int
    if not AVAILABLE:
        raise RunDirectly("this system cannot wait for signals as run must")
    try:
        private = PrivateDirectory(environ)
    except OSError as error:
        raise RunDirectly("no private directory can be made: %s" % error)
    try:
        return _run_in(private, args, upstream, command, environ)
    finally:
        for line in private.close():
            _say(line)


def _run_in(private, args, upstream, command, environ):
    # type: (PrivateDirectory, argparse.Namespace, str, List[str], Dict[str, str]) -> int
    supervisor = Supervisor()
    try:
        shim = ShimProcess(private.path, _serve_options(args, upstream), supervisor.restore_signals)
    except (OSError, ShimFailed) as error:
        raise RunDirectly("the shim cannot start: %s" % error)
    try:
        substitution = Substitution(upstream, shim.origin)
        rewritten = [path for path in args.rewrite if _names_upstream(path, substitution)]
        pointing = _point(args.agent, command, environ, substitution, private, rewritten)
        if not pointing.found and not rewritten:
            raise RunDirectly("the command's configuration does not name the upstream %s" % upstream)
        shim.start()
        shim.wait_until_ready()
        supervisor.hold_signals()
        return _run_agent(supervisor, shim, pointing, rewritten, substitution)
    except (OSError, ShimFailed) as error:
        raise RunDirectly("the shim cannot start: %s" % error)
    finally:
        shim.stop()


def _run_agent(supervisor, shim, pointing, rewritten, substitution):
    # type: (Supervisor, ShimProcess, Pointing, List[str], Substitution) -> int
    try:
        rewrites = rewrite_all(rewritten, substitution)
    except RewriteError as error:
        return _usage_error(str(error))
    try:
        return supervisor.run(pointing.command, pointing.environ, shim)
    except OSError as error:
        return _cannot_run(pointing.command, error)
    finally:
        for rewrite in rewrites:
            rewrite.restore()


def _point(name, command, environ, substitution, private, rewritten):
    # type: (str, List[str], Dict[str, str], Substitution, PrivateDirectory, List[str]) -> Pointing
    real_paths = frozenset(os.path.realpath(path) for path in rewritten)
    pointing = Pointing(command, environ, substitution, private, real_paths)
    agent = agents.detect(command) if name == "auto" else agents.by_name(name)
    if agent is not None:
        pointing.add_agent(agent)
    pointing.bypass_proxy()
    for path in pointing.missed:
        _say("%s names the upstream and cannot be copied; --rewrite %s would point it at the shim" % (path, path))
    return pointing


def _names_upstream(path, substitution):
    # type: (str, Substitution) -> bool
    with open(path, "rb") as file:
        found = substitution.found_in(file.read())
    if not found:
        _say("%s does not name the upstream" % path)
    return found


def _serve_options(args, upstream):
    # type: (argparse.Namespace, str) -> List[str]
    options = ["--upstream", upstream]
    if args.rollout:
        options += ["--rollout", args.rollout]
    if args.log_file:
        options += ["--log-file", args.log_file]
    return options


def _execute(command, environ):
    # type: (List[str], Dict[str, str]) -> int
    """Become the command. Python ignores two signals, and an ignored signal stays ignored over exec."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        return _cannot_run(command, error)


def _cannot_run(command, error):
    # type: (List[str], OSError) -> int
    _say("%s cannot be run: %s" % (command[0], error.strerror or error))
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN


def _usage_error(line):
    # type: (str) -> int
    _say(line)
    return _USAGE_ERROR


def _say(line):
    # type: (object) -> None
    if line:
        sys.stderr.write("history-delta: %s\n" % line)
        sys.stderr.flush()
