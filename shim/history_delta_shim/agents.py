# SPDX-License-Identifier: Apache-2.0
"""What the shim knows of each agent: how its command looks and where it reads its endpoint from.

A table, not behaviour: ``pointing`` acts on it. Established by running each agent (see the versions in the tests);
an agent that is not in the table is pointed by its environment and arguments alone.
"""

import os.path
import re
from typing import List, NamedTuple, Optional, Tuple

# A directory that holds the agent's configuration beside its records. ``files`` are the patterns of the names that
# may name an endpoint; ``directories`` and ``records`` are what the agent writes from its first start on, so that they
# must lie in the user's directory even if the agent is killed.
Home = NamedTuple(
    "Home",
    [
        ("variable", str),
        ("default", str),
        ("files", Tuple[str, ...]),
        ("directories", Tuple[str, ...]),
        ("records", Tuple[str, ...]),
    ],
)

# Configuration in files that are merged, the later ones over the earlier: the global ones, that of ``file_variable``,
# those of the project, the text in ``text_variable``. A file merged again over itself changes nothing.
Layers = NamedTuple(
    "Layers",
    [
        ("file_variable", str),
        ("text_variable", str),
        ("global_files", Tuple[str, ...]),  # below the XDG configuration directory
        ("project_files", Tuple[str, ...]),  # in the working directory and above, up to the worktree's root
        ("project_off", str),  # the variable that makes the agent ignore project files
        ("directory_option", str),  # of the command: its working directory
        # What a project file must not hold to be moved into the text variable: it means something else there.
        ("project_references", Tuple[bytes, ...]),
    ],
)

Agent = NamedTuple(
    "Agent",
    [("name", str), ("commands", Tuple[str, ...]), ("homes", Tuple[Home, ...]), ("layers", Optional[Layers])],
)

OPENCODE = Agent(
    "opencode",
    ("opencode", "opencode-ai"),
    (Home("OPENCODE_CONFIG_DIR", "", ("opencode.json", "opencode.jsonc"), (), ()),),
    Layers(
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_CONTENT",
        ("opencode/config.json", "opencode/opencode.json", "opencode/opencode.jsonc"),
        ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        "OPENCODE_DISABLE_PROJECT_CONFIG",
        "--dir",
        (b"{file:",),
    ),
)

_KILO_NAMES = ("config.json", "kilo.json", "kilo.jsonc", "opencode.json", "opencode.jsonc")

KILO = Agent(
    "kilo",
    ("kilo", "kilocode", "@kilocode/cli"),
    (Home("KILO_CONFIG_DIR", "", _KILO_NAMES, (), ()),),
    Layers(
        "KILO_CONFIG",
        "KILO_CONFIG_CONTENT",
        tuple("kilo/" + name for name in _KILO_NAMES),
        _KILO_NAMES[1:] + tuple(folder + name for folder in (".kilo/", ".kilocode/") for name in _KILO_NAMES),
        "KILO_DISABLE_PROJECT_CONFIG",
        "--dir",
        # Kilo trusts its variable more than a project: references that it refuses in a project would work there.
        (b"{file:", b"{env:"),
    ),
)

CODEX = Agent(
    "codex",
    ("codex", "@openai/codex"),
    (Home("CODEX_HOME", "~/.codex", ("*.toml", ".env"), ("sessions", "skills"), ("history.jsonl",)),),
    None,
)

PI = Agent(
    "pi",
    ("pi", "pi-coding-agent"),
    (Home("PI_CODING_AGENT_DIR", "~/.pi/agent", ("models.json", "settings.json"), ("sessions",), ()),),
    None,
)

HERMES = Agent(
    "hermes",
    ("hermes", "hermes-agent", "hermes_cli", "run_agent"),
    (
        Home(
            "HERMES_HOME",
            "~/.hermes",
            ("config.yaml", ".env"),
            ("sessions", "logs", "skills", "memories"),
            ("state.db",),
        ),
    ),
    None,
)

AGENTS = (OPENCODE, CODEX, PI, HERMES, KILO)
NAMES = tuple(agent.name for agent in AGENTS)

# Commands whose first plain argument is the program that matters.
_LAUNCHERS = re.compile(r"(env|npx|bunx|node|nodejs|bun|uvx|uv|pnpm|yarn|npm|deno|python[0-9.]*|x|dlx|exec|run|tool)\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SUFFIX = re.compile(r"(?<=.)(@[^/]*|\.(exe|js|mjs|cjs|ts|py|cmd|main|__main__))\Z")


def by_name(name: str) -> Optional[Agent]:
    for agent in AGENTS:
        if agent.name == name:
            return agent
    return None


def detect(command: List[str]) -> Optional[Agent]:
    """Which agent a command starts, also through npx, node, env, python -m and the like; None: not one that we know."""
    for position, word in enumerate(command):
        if position and (word.startswith("-") or _ASSIGNMENT.match(word)):
            continue
        agent = _named(word)
        if agent is not None:
            return agent
        if not _LAUNCHERS.match(os.path.basename(word)):
            return None
    return None


def _named(word: str) -> Optional[Agent]:
    """The agent whose command or package ``word`` is, or in whose package the file ``word`` lies."""
    names = {_plain(os.path.basename(word))}
    _, in_modules, inside = word.rpartition("node_modules/")
    if in_modules or word.startswith("@"):
        parts = inside.split("/")
        names.update((_plain(parts[0]), _plain(parts[min(1, len(parts) - 1)]), _plain("/".join(parts[:2]))))
    for agent in AGENTS:
        if names.intersection(agent.commands):
            return agent
    return None


def _plain(name: str) -> str:
    return _SUFFIX.sub("", name)
