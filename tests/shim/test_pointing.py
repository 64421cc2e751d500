# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from history_delta_shim import agents
from history_delta_shim.pointing import Pointing
from history_delta_shim.private import PrivateDirectory
from history_delta_shim.substitute import Substitution

UPSTREAM, SHIM = "http://gw:8000", "http://127.0.0.1:4141"

# What must reach the agent as it is: escapes that keep references literal, quotes, backslashes, emoji, odd spacing.
PROMPT = r'"prompt" :  "say \u007benv:X} {file:missing.txt} \"quoted\" C:\\new\\u \ud83d\ude00 😀\/"'
CONFIG = '{ %s, "baseURL": "%s/ng-rollout/r1/v1" }\n'


class World:
    """A user's home and workspace, and what pointing makes of a command there."""

    def __init__(self, root):
        self.home, self.workspace = root / "home", root / "workspace"
        self.home.mkdir()
        (self.workspace / ".git").mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "XDG_CACHE_HOME": str(root / "cache")}
        self.private = PrivateDirectory(self.environ)

    def write(self, path, text=None):
        path = self.home / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text is not None else CONFIG % (PROMPT, UPSTREAM))
        return path

    def point(self, command, rewritten=frozenset()):
        pointing = Pointing(command, self.environ, Substitution(UPSTREAM, SHIM), self.private, rewritten)
        pointing.add_agent(agents.detect(command))
        return pointing


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World(tmp_path)
    monkeypatch.setenv("HOME", str(world.home))
    monkeypatch.chdir(world.workspace)
    yield world
    world.private.close()


POINTED = CONFIG % (PROMPT, SHIM)


@pytest.mark.parametrize(
    ("variable", "command"),
    [("OPENCODE_CONFIG_CONTENT", "opencode"), ("KILO_CONFIG_CONTENT", "kilo"), ("OPENAI_BASE_URL", "pi")],
)
def test_a_variable_that_names_the_upstream_changes_in_its_origin_alone(world, variable, command):
    world.environ[variable] = CONFIG % (PROMPT, UPSTREAM)
    pointing = world.point([command])
    assert pointing.environ == dict(world.environ, **{variable: POINTED})
    assert pointing.found == [variable]


def test_arguments_that_name_the_upstream_are_pointed(world):
    pointing = world.point(["pi", "--base", UPSTREAM + "/v1", "hello"])
    assert pointing.command == ["pi", "--base", SHIM + "/v1", "hello"]
    assert pointing.found == ["the arguments"]


@pytest.mark.parametrize(
    ("command", "variable", "folder", "name"),
    [
        ("codex", "CODEX_HOME", ".codex", "config.toml"),
        ("codex", "CODEX_HOME", ".codex", "work.config.toml"),
        ("pi", "PI_CODING_AGENT_DIR", ".pi/agent", "models.json"),
        ("hermes", "HERMES_HOME", ".hermes", "config.yaml"),
        ("hermes", "HERMES_HOME", ".hermes", ".env"),
    ],
)
@pytest.mark.parametrize("by_variable", [False, True])
def test_an_agent_s_home_is_copied_where_a_file_in_it_names_the_upstream(
    world, command, variable, folder, name, by_variable
):
    folder = "elsewhere" if by_variable else folder
    if by_variable:
        world.environ[variable] = str(world.home / folder)
    config, other = world.write(f"{folder}/{name}"), world.write(f"{folder}/notes.txt")
    pointing = world.point([command])
    copy = Path(pointing.environ[variable])
    assert (copy / name).read_text() == POINTED
    assert (copy / "notes.txt").resolve() == other
    assert config.read_text() == CONFIG % (PROMPT, UPSTREAM)
    assert pointing.found == [str(config)]


def test_a_home_that_does_not_name_the_upstream_is_used_as_it_is(world):
    world.write(".codex/config.toml", "base_url = 'http://other:8000'")
    world.write(".codex/history.jsonl")
    pointing = world.point(["codex"])
    assert pointing.environ == world.environ
    assert pointing.found == pointing.missed == []


@pytest.mark.parametrize("agent", ["opencode", "kilo"])
class TestLayeredConfiguration:
    def variables(self, agent):
        return agent.upper() + "_CONFIG", agent.upper() + "_CONFIG_CONTENT"

    def test_the_file_variable_s_file_is_copied_among_its_neighbours(self, world, agent):
        file_variable, _ = self.variables(agent)
        config, prompt = world.write("conf/my.json"), world.write("conf/prompt.txt", "prompt")
        world.environ[file_variable] = str(config)
        pointing = world.point([agent])
        copy = Path(pointing.environ[file_variable])
        assert copy.read_text() == POINTED
        assert (copy.parent / "prompt.txt").resolve() == prompt
        assert pointing.found == [str(config)]

    def test_a_global_file_is_copied_behind_the_file_variable(self, world, agent):
        file_variable, _ = self.variables(agent)
        config = world.write(f".config/{agent}/opencode.jsonc")
        pointing = world.point([agent])
        assert Path(pointing.environ[file_variable]).read_text() == POINTED
        assert pointing.found == [str(config)]

    def test_a_global_file_is_missed_where_the_file_variable_is_taken(self, world, agent):
        file_variable, _ = self.variables(agent)
        world.environ[file_variable] = str(world.write("other.json", "{}"))
        config = world.write(f".config/{agent}/opencode.json")
        pointing = world.point([agent])
        assert pointing.environ == world.environ
        assert (pointing.found, pointing.missed) == ([], [str(config)])

    def test_a_file_with_references_above_its_folder_is_missed(self, world, agent):
        config = world.write(f".config/{agent}/opencode.json", CONFIG % ('"a": "{file:../p.txt}"', UPSTREAM))
        assert world.point([agent]).missed == [str(config)]

    def project_file(self, world, where, prompt='"a": "\\u007bfile:x}"'):
        return world.write(world.workspace / where, CONFIG % (prompt, UPSTREAM))

    @pytest.mark.parametrize("option", [[], ["--dir", "deep/er"], ["--dir=deep/er"]])
    def test_the_only_project_file_becomes_the_text_variable(self, world, agent, option):
        _, text_variable = self.variables(agent)
        config = self.project_file(world, "opencode.json")
        pointing = world.point([agent, "run", *option])
        assert pointing.environ[text_variable] == CONFIG % ('"a": "\\u007bfile:x}"', SHIM)
        assert pointing.found == [str(config)]

    def test_a_project_ends_at_its_worktree(self, world, agent):
        self.project_file(world, "../opencode.json")
        pointing = world.point([agent])
        assert pointing.found == pointing.missed == []

    def test_a_project_file_is_missed_where_the_text_variable_is_taken(self, world, agent):
        _, text_variable = self.variables(agent)
        world.environ[text_variable] = "{}"
        config = self.project_file(world, "opencode.json")
        assert world.point([agent]).missed == [str(config)]

    def test_a_project_file_is_missed_where_another_one_is_merged_with_it(self, world, agent):
        config = self.project_file(world, "opencode.json")
        world.write(world.workspace / "opencode.jsonc", "{}")
        assert world.point([agent]).missed == [str(config)]

    def test_a_project_file_with_references_is_missed(self, world, agent):
        config = self.project_file(world, "opencode.json", '"a": "{file:prompt.txt}"')
        assert world.point([agent]).missed == [str(config)]

    def test_a_project_file_too_large_for_a_variable_is_missed(self, world, agent):
        config = self.project_file(world, "opencode.json", '"a": "%s"' % ("x" * 110 * 1024))
        assert world.point([agent]).missed == [str(config)]

    def test_a_project_file_that_the_agent_is_told_to_ignore_is_ignored(self, world, agent):
        world.environ[agent.upper() + "_DISABLE_PROJECT_CONFIG"] = "1"
        self.project_file(world, "opencode.json")
        pointing = world.point([agent])
        assert pointing.found == pointing.missed == []

    def test_a_file_that_is_rewritten_in_place_is_not_copied(self, world, agent):
        config = self.project_file(world, "opencode.json")
        pointing = world.point([agent], frozenset([os.path.realpath(config)]))
        assert pointing.environ == world.environ
        assert pointing.found == pointing.missed == []


def test_kilo_s_project_file_gains_no_trust_by_being_moved(world):
    config = world.write(world.workspace / "kilo.json", CONFIG % ('"key": "{env:SECRET}"', UPSTREAM))
    pointing = world.point(["kilo"])
    assert pointing.environ == world.environ
    assert pointing.missed == [str(config)]


def test_kilo_s_own_names_and_folders_count(world):
    config = world.write(world.workspace / ".kilo" / "kilo.jsonc")
    # The prompt of CONFIG holds a {file:…} reference, which is what keeps it from being moved.
    assert world.point(["kilo"]).missed == [str(config)]


@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_shim_is_reached_without_the_agent_s_proxy(world, proxy):
    world.environ.update({proxy: "http://proxy:3128", "NO_PROXY": "internal"})
    pointing = world.point(["codex"])
    pointing.bypass_proxy()
    assert pointing.environ["NO_PROXY"] == "internal,127.0.0.1"
    assert pointing.environ["no_proxy"] == "127.0.0.1"


def test_without_a_proxy_no_variable_is_added(world):
    pointing = world.point(["codex"])
    pointing.bypass_proxy()
    assert pointing.environ == world.environ
