# SPDX-License-Identifier: Apache-2.0
"""The settings of ``serve``: flags, and the HISTORY_DELTA_* variables that stand in for three of them.

Every value is checked here; what is wrong is told in one line that says which setting it was and what was expected.
"""

import argparse
import os
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from history_delta_protocol.dialect import ROLLOUT_ID

from .origin import Origin, is_loopback, parse_host_port, parse_origin
from .proxy_env import Proxy, proxy_for

ENABLED_VARIABLE = "HISTORY_DELTA_ENABLED"
UPSTREAM_VARIABLE = "HISTORY_DELTA_UPSTREAM"
ROLLOUT_VARIABLE = "HISTORY_DELTA_ROLLOUT"
STDERR = "-"

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("", "0", "false", "no", "off")


class Settings(NamedTuple):
    """A whole, checked configuration."""

    enabled: bool
    upstream: Origin
    proxy: Optional[Proxy]
    rollout: Optional[str]
    listen: Tuple[str, int]
    listen_fd: Optional[int]
    watch_fd: Optional[int]
    ready_file: Optional[str]
    detach: bool
    log_file: Optional[str]
    log_body_hash: bool


class Invalid(Exception):
    """A setting is wrong, or cannot be followed here; the text is one line for the user."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--upstream", metavar="ORIGIN", help="the server to send to [%s]" % UPSTREAM_VARIABLE)
    add("--listen", metavar="HOST:PORT", default="127.0.0.1:0", help="where agents connect; port 0: any free one")
    add("--allow-remote", action="store_true", help="let --listen name an address that other machines can reach")
    add("--listen-fd", metavar="N", type=int, help="a listening socket that was inherited, in place of --listen")
    add("--watch-fd", metavar="N", type=int, help="stop at the end of input of this inherited pipe")
    add("--rollout", metavar="ID", help="the rollout, where a path names none [%s]" % ROLLOUT_VARIABLE)
    add("--ready-file", metavar="FILE", help="written as JSON {url, pid, version} once agents can connect")
    add("--detach", action="store_true", help="go on in the background, and return once agents can connect")
    add("--log-file", metavar="FILE", help="JSON lines, appended; - is standard error, the default but with --detach")
    add("--log-body-hash", action="store_true", help="log the SHA-256 of every body of an agent's model call")


def from_arguments(args: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Raises Invalid."""
    upstream = _checked(parse_origin, *_given(args.upstream, "--upstream", environ, UPSTREAM_VARIABLE))
    if upstream is None:
        raise Invalid("--upstream or %s: expected an origin such as http://host:8000" % UPSTREAM_VARIABLE)
    listen = _checked(parse_host_port, args.listen, "--listen")
    if not is_loopback(listen[0]) and not args.allow_remote:
        raise Invalid("--listen: expected a loopback address such as 127.0.0.1:0, or --allow-remote beside it")
    _check_certificates(upstream, environ)
    _check_open(args.watch_fd, "--watch-fd")
    return Settings(
        enabled(environ),
        upstream,
        _proxy(upstream, environ),
        _checked(rollout_id, *_given(args.rollout, "--rollout", environ, ROLLOUT_VARIABLE)),
        listen,
        args.listen_fd,
        args.watch_fd,
        args.ready_file,
        args.detach,
        args.log_file or (None if args.detach else STDERR),
        args.log_body_hash,
    )


def enabled(environ: Mapping[str, str]) -> bool:
    """Whether to speak the protocol at all. Raises Invalid."""
    value = environ.get(ENABLED_VARIABLE, "").strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise Invalid("%s: expected 1 or 0" % ENABLED_VARIABLE)


def _proxy(upstream: Origin, environ: Mapping[str, str]) -> Optional[Proxy]:
    try:
        return proxy_for(upstream, environ)
    except ValueError as error:
        raise Invalid(str(error))


def _check_certificates(upstream: Origin, environ: Mapping[str, str]) -> None:
    """OpenSSL takes a file that is not there for one that trusts nobody."""
    path = environ.get("SSL_CERT_FILE")
    if upstream.scheme == "https" and path and not os.path.isfile(path):
        raise Invalid("SSL_CERT_FILE: expected a file of certificates, found none at %s" % path)


def _check_open(fd: Optional[int], name: str) -> None:
    if fd is None:
        return
    try:
        os.fstat(fd)
    except (OSError, OverflowError):
        raise Invalid("%s: expected the number of an inherited descriptor, got %d" % (name, fd))


def _given(flag: Optional[str], flag_name: str, environ: Mapping[str, str], variable: str) -> Tuple[Optional[str], str]:
    """(value, where it came from): a flag goes before a variable, and an empty variable is none."""
    return (flag, flag_name) if flag is not None else (environ.get(variable) or None, variable)


def _checked(parse: Any, value: Optional[str], name: str) -> Any:
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise Invalid("%s: %s" % (name, error))


def rollout_id(text: str) -> str:
    """Raises ValueError for what is none."""
    if not ROLLOUT_ID.match(text):
        raise ValueError("expected letters, digits, '.', '_' or '-', at most 200, the first a letter or digit")
    return text


def open_log(path: Optional[str]) -> Optional[int]:
    """A file descriptor to append to. Raises Invalid."""
    if path is None or path == STDERR:
        return None if path is None else 2
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Invalid("--log-file: cannot open %s: %s" % (path, error.strerror))
