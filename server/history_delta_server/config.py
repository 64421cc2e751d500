# SPDX-License-Identifier: Apache-2.0
"""From flags, environment and file to Settings, in that order of precedence.

A value that is not understood is a ConfigError of one line that names the setting as its source spells it and says
what was expected. Nothing is started or listened on here.
"""

import argparse
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .kinds import Kind
from .settings import SETTINGS, Setting, Settings

CONFIG_VARIABLE = "HISTORY_DELTA_CONFIG"
_MAX_KEY_FILE_BYTES = 64 * 1024


class ConfigError(Exception):
    """One line for the person who started the server."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parser() -> argparse.ArgumentParser:
    """The command line of ``serve``; values are checked afterwards, in the same words as those of the other sources."""
    made = _Parser(
        prog="history-delta serve",
        description="Rebuilds what shims send and passes it to a model server, byte for byte.",
        epilog="Every setting can also stand in the environment (HISTORY_DELTA_…) or in the --config file.",
        allow_abbrev=False,
    )
    made.add_argument("--config", metavar="FILE", help="TOML file with settings")
    made.add_argument("--check", action="store_true", help="check the configuration and exit")
    for setting in SETTINGS:
        if not setting.secret:
            _add_flag(made, setting)
    return made


def _add_flag(made: argparse.ArgumentParser, setting: Setting) -> None:
    help_text = f"{setting.help} (default: {_shown(setting.default)})"
    if isinstance(setting.default, bool):
        made.add_argument(setting.flag, action=argparse.BooleanOptionalAction, default=None, help=help_text)
    elif setting.kind.many:
        made.add_argument(
            setting.flag, action="extend", nargs="+", default=None, metavar=setting.kind.metavar, help=help_text
        )
    else:
        made.add_argument(setting.flag, default=None, metavar=setting.kind.metavar, help=help_text)


def _shown(default: Any) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default)


def resolve(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings in force. Raises ConfigError."""
    file = arguments.config or environment.get(CONFIG_VARIABLE)
    values = _from_file(file) if file else {}
    values.update(_from_environment(environment))
    values.update(_from_flags(arguments))
    settings = Settings(**_with_key(values))
    _check(settings)
    return settings


def load(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[Settings, bool]:
    """Settings for a command line, and whether they are only to be checked. Raises ConfigError."""
    arguments = parser().parse_args(argv)
    return resolve(arguments, os.environ if environment is None else environment), arguments.check


def _from_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    values = {}
    for setting in SETTINGS:
        given = getattr(arguments, setting.name, None)
        if given is None:
            continue
        text = " ".join(given) if isinstance(given, list) else str(given)
        values[setting.name] = _read(setting.flag, setting.kind, text)
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for setting in SETTINGS:
        text = environment.get(setting.variable)
        # An empty variable counts as absent: many launchers cannot leave one out.
        if text:
            values[setting.name] = _read(setting.variable, setting.kind, text)
    return values


def _from_file(path: str) -> dict[str, Any]:
    by_key = {setting.key: setting for setting in SETTINGS}
    values = {}
    for key, value in _toml(path).items():
        setting = by_key.get(key)
        if setting is None:
            raise ConfigError(f"{path}: unknown setting {key!r}; expected one of {', '.join(sorted(by_key))}")
        try:
            values[setting.name] = setting.kind.from_toml(value)
        except ValueError as error:
            raise _expected(f"{path}: {key}", setting.kind, value) from error
    return values


def _toml(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}; expected a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: {path} is not TOML: {_one_line(error)}") from error


def _read(source: str, kind: Kind, text: str) -> Any:
    try:
        return kind.read(text)
    except ValueError as error:
        raise _expected(source, kind, text) from error


def _expected(source: str, kind: Kind, value: object) -> ConfigError:
    got = "something else" if kind.secret or "@" in str(value) else repr(_one_line(value))
    return ConfigError(f"{source}: expected {kind.expected}, got {got}")


def _one_line(value: object) -> str:
    return " ".join(str(value).split())[:200]


def _with_key(values: dict[str, Any]) -> dict[str, Any]:
    """The credential itself wins over a file that holds it."""
    path = values.get("upstream_api_key_file")
    if path is None or values.get("upstream_api_key") is not None:
        return values
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_KEY_FILE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"upstream_api_key_file: cannot read {path}: {_one_line(error)}") from error
    by_name = {setting.name: setting for setting in SETTINGS}
    return {**values, "upstream_api_key": _read("upstream_api_key_file", by_name["upstream_api_key"].kind, text)}


def _check(settings: Settings) -> None:
    """What no single setting can tell."""
    if not settings.upstream:
        raise ConfigError("--upstream: expected at least one http:// or https:// URL of a model server, got none")
    if settings.listen.port and settings.listen == settings.admin_listen:
        raise ConfigError(f"--admin-listen: expected an address other than --listen, got {settings.admin_listen}")
