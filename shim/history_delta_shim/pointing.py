# SPDX-License-Identifier: Apache-2.0
"""Points an agent's command at the shim: its environment, its arguments, and private copies of its configuration.

Nothing of the user's is written. What names the upstream but cannot be redirected in this way is reported as missed,
so that the caller can say so (``--rewrite`` is the explicit way for such a file).
"""

import fnmatch
import os
from typing import Dict, FrozenSet, Iterable, List, Tuple

from .agents import Agent, Home, Layers
from .private import PrivateDirectory, names_in, read
from .substitute import Substitution, apply_to_environment, apply_to_text

_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_TRUE = ("1", "true")
_MAX_VARIABLE_BYTES = 100 * 1024  # Linux takes 128 KiB, with the name


class Pointing(object):
    """The command and environment to run instead, the places that named the upstream, and those that were missed."""

    def __init__(
        self,
        command: List[str],
        environ: Dict[str, str],
        substitution: Substitution,
        private: PrivateDirectory,
        rewritten: FrozenSet[str] = frozenset(),
    ) -> None:
        self.command = [apply_to_text(substitution, word) for word in command]
        self.environ = dict(environ)
        self.found: List[str] = []
        self.missed: List[str] = []
        self._substitution = substitution
        self._private = private
        self._rewritten = frozenset(map(os.path.realpath, rewritten))
        if self.command != command:
            self.found.append("the arguments")
        changed = apply_to_environment(substitution, environ)
        self.environ.update(changed)
        self.found.extend(sorted(changed))

    def add_agent(self, agent: Agent) -> None:
        for home in agent.homes:
            self._add_home(home)
        if agent.layers is not None:
            self._add_file_layer(agent.layers)
            if self.environ.get(agent.layers.project_off, "").lower() not in _TRUE:
                self._add_project_layer(agent.layers, agent.homes)

    def bypass_proxy(self) -> None:
        """The agent reaches the shim directly, also where it reaches everything else through a proxy."""
        if not any(self.environ.get(name) for name in _PROXIES):
            return
        for name in ("no_proxy", "NO_PROXY"):
            hosts = self.environ.get(name, "")
            self.environ[name] = hosts + ",127.0.0.1" if hosts else "127.0.0.1"

    def _add_home(self, home: Home) -> None:
        original = os.path.expanduser(self.environ.get(home.variable) or home.default)
        names = names_in(original) if original else []
        files = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in home.files)]
        matching = self._matching(os.path.join(original, name) for name in files)
        if matching:
            copies = {os.path.basename(path): content for path, content in matching}
            self.environ[home.variable] = self._private.home(original, home, copies)
            self.found.extend(path for path, _ in matching)

    def _add_file_layer(self, layers: Layers) -> None:
        """The file variable holds its own file, or else stands for the last of the global files."""
        own = self.environ.get(layers.file_variable)
        files = [os.path.join(_config_directory(self.environ), name) for name in layers.global_files]
        matching = self._matching(files + ([own] if own else []))
        for path, content in matching:
            if path == (own or matching[-1][0]) and b"{file:.." not in content:
                self.environ[layers.file_variable] = self._private.beside_links(path, content)
                self.found.append(path)
            else:
                self.missed.append(path)

    def _add_project_layer(self, layers: Layers, homes: Tuple[Home, ...]) -> None:
        """The text variable can stand for a project's file where there is just one, and nothing is merged after it."""
        files = [path for path in self._project_files(layers) if os.path.isfile(path)]
        variables = [layers.text_variable] + [home.variable for home in homes]
        free = len(files) == 1 and not any(self.environ.get(name) for name in variables)
        for path, content in self._matching(files):
            movable = len(content) < _MAX_VARIABLE_BYTES and not any(m in content for m in layers.project_references)
            if free and movable:
                self.environ[layers.text_variable] = os.fsdecode(content)
                self.found.append(path)
            else:
                self.missed.append(path)

    def _project_files(self, layers: Layers) -> List[str]:
        files: List[str] = []
        for directory in _up_to_worktree(_working_directory(self.command, layers.directory_option)):
            files.extend(os.path.join(directory, name) for name in layers.project_files)
        return files

    def _matching(self, paths: Iterable[str]) -> List[Tuple[str, bytes]]:
        """Those files that name the upstream, each with what it would hold if it were pointed at the shim."""
        matching = []
        for path in paths:
            content = None if os.path.realpath(path) in self._rewritten else read(path)
            if content is not None and self._substitution.found_in(content):
                matching.append((path, self._substitution.apply(content)))
        return matching


def _config_directory(environ: Dict[str, str]) -> str:
    return environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")


def _working_directory(command: List[str], option: str) -> str:
    for position, word in enumerate(command):
        if word == option and position + 1 < len(command):
            return os.path.abspath(command[position + 1])
        if word.startswith(option + "="):
            return os.path.abspath(word[len(option) + 1 :])
    return os.getcwd()


def _up_to_worktree(directory: str) -> List[str]:
    """The directory and those above it, up to the root of its git worktree or of the file system."""
    directories = [directory]
    while not os.path.lexists(os.path.join(directories[-1], ".git")):
        parent = os.path.dirname(directories[-1])
        if parent == directories[-1]:
            break
        directories.append(parent)
    return directories
