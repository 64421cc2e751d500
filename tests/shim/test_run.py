# SPDX-License-Identifier: Apache-2.0
import os
import signal
from pathlib import Path

import pytest
from support.running_agent import AGENT, PATIENCE, is_alive, wait_until


@pytest.fixture
def upstream(recorded):
    return recorded


def one(items):
    assert len(items) == 1, items
    return items[0]


class TestAnAgentBehindTheShim:
    def test_its_call_goes_through_the_shim_to_the_upstream(self, bench, upstream):
        with bench.start() as agent:
            assert agent.ask("call")["status"] == 200
            assert agent.environment("OPENAI_BASE_URL").startswith(b"http://127.0.0.1:")
            assert upstream.origin.encode() not in agent.environment("OPENAI_BASE_URL")
            assert agent.exit() == 0
        request = one(upstream.posts())
        assert request.target == "/ng-rollout/r1/v1/chat/completions"
        assert "History-Delta-Delivery" in request.headers
        assert agent.errors() == ""

    def test_nothing_is_left_when_it_has_ended(self, bench):
        with bench.start() as agent:
            shim = one(agent.shims())
            agent.exit()
        assert not is_alive(shim)
        assert not bench.cache.exists()

    @pytest.mark.parametrize("locale", [{"LANG": "C.UTF-8"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {}])
    def test_what_it_is_given_differs_in_the_origin_alone(self, bench, upstream, locale):
        bench.environ.pop("LANG")
        bench.environ.update(locale)
        content = (
            r'{"prompt": "\u007benv:X} {file:missing.txt} \"q\" C:\\n \ud83d\ude00 '
            + '😀\t\x7f", "baseURL": "%s/v1", "escaped": "%s"}'
        ) % (upstream.origin, upstream.origin.replace("/", r"\/"))
        bench.environ["OPENCODE_CONFIG_CONTENT"] = content.encode()
        with bench.start() as agent:
            shim = agent.environment("OPENAI_BASE_URL").partition(b"/ng-rollout")[0]
            expected = content.encode().replace(upstream.origin.encode(), shim)
            expected = expected.replace(upstream.origin.replace("/", r"\/").encode(), shim.replace(b"/", rb"\/"))
            assert agent.environment("OPENCODE_CONFIG_CONTENT") == expected

    @pytest.mark.parametrize("enabled", ["0", "1"])
    @pytest.mark.parametrize("locale", [{"LANG": "C.UTF-8"}, {"LC_CTYPE": "C"}, {}])
    def test_its_environment_holds_nothing_more(self, bench, upstream, enabled, locale):
        bench.environ.pop("LANG")
        bench.environ.update(locale, HISTORY_DELTA_ENABLED=enabled)
        done = bench.run("--upstream", upstream.origin, "--", "env")
        given = dict(line.split("=", 1) for line in done.stdout.splitlines())
        assert (given.pop("OPENAI_BASE_URL") == bench.environ.pop("OPENAI_BASE_URL")) is (enabled == "0")
        assert given == bench.environ

    def test_its_arguments_are_passed_on_with_their_dashes(self, bench, upstream):
        words = ["--", "--agent", "x", "--", "", "a b", "*", "😀"]
        with bench.start(agent=(*AGENT, upstream.origin + "/v1", *words)) as agent:
            url, *rest = agent.started["arguments"]
            assert url == agent.environment("OPENAI_BASE_URL").decode().replace("/ng-rollout/r1", "")
            assert rest == words
            agent.exit()

    def test_it_inherits_what_the_run_inherited(self, bench):
        reader, writer = os.pipe()
        with bench.start(pass_fds=(writer,)) as agent:
            os.close(writer)
            assert agent.ask(f"write /proc/self/fd/{writer} inherited")["written"]
            assert os.read(reader, 100) == b"inherited"
            agent.exit()
        assert os.read(reader, 100) == b""  # and nobody else kept it
        os.close(reader)

    def test_a_module_in_its_folder_is_not_taken_for_ours(self, bench):
        for name in ("json.py", "socket.py", "history_delta_shim.py", "argparse.py"):
            (bench.folder / name).write_text("raise SystemExit('shadowed')")
        with bench.start() as agent:
            assert agent.ask("call")["status"] == 200

    def test_it_reaches_the_shim_past_a_proxy(self, bench):
        bench.environ["HTTP_PROXY"] = "http://127.0.0.1:9"
        with bench.start() as agent:
            assert agent.environment("NO_PROXY") == b"127.0.0.1"


class TestADeadShim:
    def test_it_is_replaced_without_a_change_for_the_agent(self, bench, upstream):
        with bench.start() as agent:
            origin = agent.environment("OPENAI_BASE_URL")
            first = one(agent.shims())
            os.kill(first, signal.SIGKILL)
            assert agent.ask("call")["status"] == 200  # waits in the backlog where it comes too early
            second = one(agent.shims())
            os.kill(second, signal.SIGKILL)
            assert agent.ask("call")["status"] == 200
            assert len({first, second, one(agent.shims())}) == 3
            assert agent.environment("OPENAI_BASE_URL") == origin
            assert agent.exit(5) == 5
        assert len(upstream.posts()) == 2
        assert agent.errors() == ""

    def test_the_one_in_its_place_goes_on_with_the_rollout_that_nobody_has_named(self, bench, upstream):
        bench.environ["OPENAI_BASE_URL"] = upstream.origin + "/v1"
        with bench.start() as agent:
            assert agent.ask("call")["status"] == 200
            os.kill(one(agent.shims()), signal.SIGKILL)
            assert agent.ask("call")["status"] == 200
            agent.exit()
        first, second = (request.headers["History-Delta-Rollout"] for request in upstream.posts())
        assert first == second

    def test_it_goes_when_the_run_is_killed_and_so_does_the_agent(self, bench):
        with bench.start() as agent:
            shim = one(agent.shims())
            agent.process.kill()
            assert agent.process.stdout.read() == b""  # ends once nobody holds the agent's output
            wait_until(lambda: not is_alive(shim), "the shim has ended")
            assert not is_alive(agent.agent_pid)

    def test_it_goes_when_the_run_is_killed_while_stopped(self, bench):
        with bench.start() as agent:
            shim = one(agent.shims())
            os.kill(agent.process.pid, signal.SIGSTOP)
            agent.process.kill()
            wait_until(lambda: not is_alive(shim), "the shim has ended")


class TestRunningDirectly:
    """The agent takes the place of the run: same process, nothing of ours beside it."""

    def check(self, agent, upstream):
        assert agent.agent_pid == agent.process.pid
        assert agent.shims() == []
        assert agent.environment("OPENAI_BASE_URL").startswith(upstream.origin.encode())
        assert agent.ask("call")["status"] == 200
        assert "History-Delta-Delivery" not in one(upstream.posts()).headers

    @pytest.mark.parametrize("value", [None, "", "0", "false"])
    def test_where_the_protocol_is_off(self, bench, upstream, value):
        bench.environ.pop("HISTORY_DELTA_ENABLED")
        if value is not None:
            bench.environ["HISTORY_DELTA_ENABLED"] = value
        with bench.start() as agent:
            self.check(agent, upstream)
            assert agent.exit(7) == 7
        assert agent.errors() == ""
        assert not bench.cache.exists()

    def test_where_nothing_names_the_upstream(self, bench, upstream):
        with bench.start("--upstream", "http://127.0.0.1:9") as agent:
            self.check(agent, upstream)
            agent.exit()
        assert "does not name the upstream http://127.0.0.1:9; running it directly" in one(agent.errors().splitlines())
        assert not bench.cache.exists()

    def test_where_the_shim_cannot_start(self, bench, upstream):
        with bench.start("--log-file", "/absent/folder/log") as agent:
            self.check(agent, upstream)
            agent.exit()
        line = one(agent.errors().splitlines())
        assert line.startswith("history-delta: the shim cannot start: ")
        assert "/absent/folder/log" in line
        assert line.endswith("; running it directly")

    def test_signals_are_as_they_would_be(self, bench):
        bench.environ["HISTORY_DELTA_ENABLED"] = "0"
        direct = bench.run("--upstream", bench.upstream.origin, "--", "sh", "-c", "grep SigIgn /proc/self/status")
        assert int(direct.stdout.split()[1], 16) & (1 << 12 | 1 << 24) == 0  # SIGPIPE, SIGXFSZ


class TestWhatCannotBeRun:
    def test_a_command_that_is_not_there(self, bench):
        done = bench.run("--upstream", bench.upstream.origin, "--", "no-such-agent", bench.upstream.origin)
        assert done.returncode == 127
        assert "no-such-agent cannot be run" in one(done.stderr.splitlines())
        assert not bench.cache.exists()

    def test_a_command_that_is_no_program(self, bench):
        done = bench.run("--upstream", bench.upstream.origin, "--", str(bench.folder), bench.upstream.origin)
        assert done.returncode == 126

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--upstream", "http://gw:8000"], "expected a command"),
            (["--upstream", "http://gw:8000", "--"], "expected a command"),
            (["--", "agent"], "--upstream or HISTORY_DELTA_UPSTREAM"),
            (["--upstream", "gw:8000", "--", "agent"], "--upstream: expected an origin"),
            (["--upstream", "http://gw:8000", "--rollout", "a b", "--", "agent"], "--rollout: expected"),
            (["--upstream", "http://gw:8000", "--agent", "other", "--", "agent"], "--agent"),
            (["--upstream", "http://gw:8000", "--rewrite", "absent.json", "--", "agent"], "--rewrite: absent.json"),
        ],
    )
    def test_wrong_options(self, bench, words, expected):
        done = bench.run(*words)
        assert done.returncode == 2
        assert expected in one(done.stderr.splitlines())

    def test_a_wrong_environment(self, bench):
        bench.environ["HISTORY_DELTA_ENABLED"] = "perhaps"
        done = bench.run("--upstream", "http://gw:8000", "--", "agent")
        assert done.returncode == 2
        assert "HISTORY_DELTA_ENABLED: expected 1 or 0" in one(done.stderr.splitlines())


class TestCopiedConfiguration:
    @pytest.fixture
    def codex(self, bench, upstream):
        home = Path(bench.environ["HOME"], ".codex")
        home.mkdir()
        (home / "config.toml").write_text(f'base_url = "{upstream.origin}/v1"\n')
        (home / "auth.json").write_text("{}")
        bench.environ["OPENAI_BASE_URL"] = "unset"
        return home

    def test_the_agent_reads_the_copy_and_writes_to_the_original(self, bench, upstream, codex):
        with bench.start("--agent", "codex") as agent:
            config = agent.read("$CODEX_HOME/config.toml")
            assert config.startswith(b'base_url = "http://127.0.0.1:')
            assert upstream.origin.encode() not in config
            agent.ask("write $CODEX_HOME/sessions/one text")
            agent.ask("write $CODEX_HOME/auth.json refreshed")
            agent.ask("write $CODEX_HOME/new.sqlite text")
            agent.exit()
        assert sorted(os.listdir(codex)) == ["auth.json", "config.toml", "new.sqlite", "sessions"]
        assert (codex / "config.toml").read_text() == f'base_url = "{upstream.origin}/v1"\n'
        assert (codex / "auth.json").read_text() == "refreshed"
        assert agent.errors() == ""

    def test_a_killed_run_leaves_the_user_s_files_and_its_records_and_the_next_one_clears_up(self, bench, codex):
        before = (codex / "config.toml").read_bytes()
        with bench.start("--agent", "codex") as agent:
            path = agent.environment("CODEX_HOME")
            agent.ask("write $CODEX_HOME/sessions/one text")
            agent.process.kill()
            agent.process.wait()
        assert (codex / "config.toml").read_bytes() == before
        assert (codex / "sessions" / "one").read_text() == "text"
        with bench.start("--agent", "codex") as agent:
            assert agent.environment("CODEX_HOME") == path
            agent.exit()
        assert not bench.cache.exists()

    def test_runs_beside_each_other_have_copies_of_their_own(self, bench, codex):
        with bench.start("--agent", "codex") as first, bench.start("--agent", "codex") as second:
            assert first.environment("CODEX_HOME") != second.environment("CODEX_HOME")
            assert first.read("$CODEX_HOME/config.toml") != second.read("$CODEX_HOME/config.toml")
            assert (first.exit(), second.exit()) == (0, 0)
        assert not bench.cache.exists()


class TestRewriting:
    @pytest.fixture
    def config(self, bench, upstream):
        path = bench.folder / "agent.conf"
        path.write_text(f"url = {upstream.origin}/v1\n")
        bench.environ["OPENAI_BASE_URL"] = "unset"
        return path

    def test_the_file_is_pointed_for_the_run_alone(self, bench, config):
        before = config.read_bytes()
        with bench.start("--rewrite", "agent.conf") as agent:
            assert config.read_bytes() == agent.read(config) != before
            agent.exit()
        assert config.read_bytes() == before
        assert agent.errors() == ""

    def test_a_signal_that_ends_the_agent_restores_it(self, bench, config):
        before = config.read_bytes()
        sleeping = ("sh", "-c", "echo '{\"started\": 1}'; exec sleep 60")
        with bench.start("--rewrite", "agent.conf", agent=sleeping) as agent:
            assert config.read_bytes() != before
            agent.process.terminate()
            assert agent.process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert config.read_bytes() == before

    def test_after_a_killed_run_the_next_one_restores_it_also_with_the_protocol_off(self, bench, config):
        before = config.read_bytes()
        with bench.start("--rewrite", "agent.conf") as agent:
            agent.process.kill()
            agent.process.wait()
        assert config.read_bytes() != before
        bench.environ["HISTORY_DELTA_ENABLED"] = "0"
        with bench.start("--rewrite", "agent.conf") as agent:
            assert agent.read(config) == before
            agent.exit()
        assert "restored" in one(agent.errors().splitlines())
        assert not list(bench.folder.glob("agent.conf.*"))

    def test_a_second_run_on_the_file_is_refused(self, bench, config):
        with bench.start("--rewrite", "agent.conf") as agent:
            pointed = config.read_bytes()
            second = bench.run("--upstream", bench.upstream.origin, "--rewrite", "agent.conf", "--", *AGENT)
            assert second.returncode == 2
            assert "is rewritten by another run" in one(second.stderr.splitlines())
            assert config.read_bytes() == pointed
            agent.exit()

    @pytest.mark.parametrize(
        ("tidying", "told"),
        [
            ("rm -f agent.conf.history-delta-original", []),
            ("rm -f agent.conf*", []),
            ("rm -rf $HOME/.cache", []),
            ("F=agent.conf.history-delta-original; rm -f $F; mkdir $F", ["agent.conf could not be tidied up"]),
            ("rm agent.conf; mkdir agent.conf", ["agent.conf could not be tidied up"]),
            (
                "cd $HOME/.cache/history-delta; L=$(ls *.lock); rm $L; mkdir $L",
                ["the private files could not be tidied up"],
            ),
        ],
    )
    def test_an_agent_that_tidied_up_for_us_keeps_its_exit_code(self, bench, config, tidying, told):
        before = config.read_bytes()
        agent = ("sh", "-c", f"{tidying}; exit 7")
        ended = bench.run("--upstream", bench.upstream.origin, "--rewrite", "agent.conf", "--", *agent)
        lines = ended.stderr.splitlines()
        assert [line.partition(": ")[2].partition(":")[0] for line in lines] == told
        assert ended.returncode == 7
        assert config.is_dir() or not config.exists() or config.read_bytes() == before

    def test_a_file_that_names_another_upstream_is_told_and_left(self, bench, config):
        config.write_text("url = http://other\n")
        with bench.start("--rewrite", "agent.conf") as agent:
            assert agent.agent_pid == agent.process.pid
            agent.exit()
        assert agent.errors().count("does not name the upstream") == 2
