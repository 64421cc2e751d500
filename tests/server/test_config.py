# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from history_delta_server.config import ConfigError, load
from history_delta_server.kinds import Address, UpstreamUrl
from history_delta_server.settings import SETTINGS, Settings

URL = "http://model:8000"


def settings(*argv: str, **environment: str) -> Settings:
    return load(["--upstream", URL, *argv], environment)[0]


def error(*argv: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(argv, environment)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "history-delta.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_the_defaults_need_nothing_but_an_upstream_and_are_off() -> None:
    chosen = settings()
    assert chosen == Settings(upstream=(UpstreamUrl("http", "model", 8000, ""),))
    assert not chosen.enabled
    assert chosen.admin_listen.host == "127.0.0.1"


def test_flags_win_over_the_environment_and_that_over_the_file(file) -> None:
    path = file('listen = "file:1"\nmax_body_bytes = "1MiB"\nmax_deliveries = 7\n')
    chosen = settings(
        "--config", path, "--listen", "flag:3", HISTORY_DELTA_LISTEN="env:2", HISTORY_DELTA_MAX_BODY_BYTES="2MiB"
    )
    assert str(chosen.listen) == "flag:3"
    assert chosen.max_body_bytes == 2 * 2**20
    assert chosen.max_deliveries == 7


@pytest.mark.parametrize("text", ["1", "true", "YES", " on "])
def test_the_environment_switches_on(text: str) -> None:
    assert settings(HISTORY_DELTA_ENABLED=text).enabled


def test_the_file_switches_on_and_a_flag_off_again(file) -> None:
    path = file("history_delta_enabled = true\n")
    assert settings("--config", path).enabled
    assert not settings("--config", path, "--no-enabled").enabled
    assert not settings("--config", path, HISTORY_DELTA_ENABLED="0").enabled
    assert settings(HISTORY_DELTA_CONFIG=path).enabled


def test_several_upstreams_from_every_source(file) -> None:
    expected = ["http://a", "https://b:8443/base"]
    path = file('upstream = ["http://a/", "https://b:8443/base/"]\n')
    for argv, environment in (
        (["--upstream", *expected], {}),
        (["--upstream", expected[0], "--upstream", expected[1]], {}),
        ([], {"HISTORY_DELTA_UPSTREAM": "http://a, https://b:8443/base"}),
        (["--config", path], {}),
    ):
        assert [str(url) for url in load(argv, environment)[0].upstream] == expected


def test_addresses() -> None:
    chosen = settings("--listen", "[::1]:80", "--admin-listen", "unix:/run/x.sock")
    assert chosen.listen == Address("::1", 80)
    assert (str(chosen.listen), str(chosen.admin_listen)) == ("[::1]:80", "unix:/run/x.sock")


def test_the_credential_comes_from_the_environment_or_a_file_and_from_no_flag(tmp_path: Path, file) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("from-key-file\n")
    assert settings(HISTORY_DELTA_UPSTREAM_API_KEY="from-env").upstream_api_key == "from-env"
    assert settings("--upstream-api-key-file", str(key_file)).upstream_api_key == "from-key-file"
    assert settings("--config", file('upstream_api_key = "from-toml"')).upstream_api_key == "from-toml"
    both = settings("--upstream-api-key-file", str(key_file), HISTORY_DELTA_UPSTREAM_API_KEY="from-env")
    assert both.upstream_api_key == "from-env"
    assert "--upstream-api-key" in error("--upstream", URL, "--upstream-api-key", "x")


def test_check_is_told() -> None:
    assert load(["--upstream", URL, "--check"], {})[1]
    assert not load(["--upstream", URL], {})[1]


def test_an_empty_variable_counts_as_absent() -> None:
    assert settings(HISTORY_DELTA_LISTEN="").listen == Settings().listen


@pytest.mark.parametrize(
    ("argv", "environment", "named", "expected"),
    [
        ([], {}, "--upstream", "at least one"),
        (["--upstream", "ftp://x"], {}, "--upstream", "http://"),
        (["--upstream", "http://x?q"], {}, "--upstream", "without"),
        (["--upstream", "http://x:99999"], {}, "--upstream", "http://"),
        (["--upstream", "http://"], {}, "--upstream", "http://"),
        (["--listen", "8700"], {}, "--listen", "HOST:PORT"),
        (["--listen", "h:70000"], {}, "--listen", "HOST:PORT"),
        (["--listen", "::1:80"], {}, "--listen", "HOST:PORT"),
        (["--listen", "unix:/x"], {}, "--listen", "HOST:PORT"),
        (["--admin-listen", "unix:"], {}, "--admin-listen", "unix:/path"),
        (["--max-body-bytes", "0"], {}, "--max-body-bytes", "64KiB"),
        (["--max-body-bytes", "-1"], {}, "--max-body-bytes", "64KiB"),
        (["--max-body-bytes", "1.5MiB"], {}, "--max-body-bytes", "64KiB"),
        (["--max-deliveries", "many"], {}, "--max-deliveries", "integer over 0"),
        (["--upstream-connect-seconds", "nan"], {}, "--upstream-connect-seconds", "seconds over 0"),
        (["--log-format", "xml"], {}, "--log-format", "json or text"),
        (["--workers", "4"], {}, "--workers", "1"),
        (["--no-such-flag"], {}, "--no-such-flag", "unrecognized"),
        (["--listen"], {}, "--listen", "expected one argument"),
        (["--config", "/does/not/exist"], {}, "--config", "TOML file"),
        (["--upstream-api-key-file", "/does/not/exist"], {}, "upstream_api_key_file", "cannot read"),
        ([], {"HISTORY_DELTA_ENABLED": "maybe"}, "HISTORY_DELTA_ENABLED", "true or false"),
        ([], {"HISTORY_DELTA_MAX_CALLS_IN_FLIGHT": "x"}, "HISTORY_DELTA_MAX_CALLS_IN_FLIGHT", "integer over 0"),
        (["--listen", "h:1", "--admin-listen", "h:1"], {}, "--admin-listen", "other than --listen"),
    ],
)
def test_an_error_is_one_line_with_the_setting_and_what_was_expected(argv, environment, named, expected) -> None:
    base = (
        [] if any(part.strip("-") == "upstream" for part in argv) or not (argv or environment) else ["--upstream", URL]
    )
    text = error(*base, *argv, **environment)
    assert named in text
    assert expected in text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("history_delta_enabled = 1", "history_delta_enabled"),
        ("history_delta_enabled = 'maybe'", "history_delta_enabled"),
        ("max_deliveries = true", "max_deliveries"),
        ("max_deliveries = 1.5", "max_deliveries"),
        ("listen = 8700", "listen"),
        ("upstream = [1]", "upstream"),
        ("enabled = true", "unknown setting 'enabled'"),
        ("[server]\nx = 1", "unknown setting 'server'"),
        ("listen = ", "is not TOML"),
        ("listen = 'a:1'\nlisten = 'b:2'", "is not TOML"),
    ],
)
def test_errors_in_the_file_name_file_and_key(file, text: str, named: str) -> None:
    path = file(text)
    message = error("--upstream", URL, "--config", path)
    assert path in message
    assert named in message


@pytest.mark.parametrize("where", ["HISTORY_DELTA_UPSTREAM_API_KEY", "file", "url"])
def test_no_error_shows_a_secret(where: str, file) -> None:
    secret = "pass word"
    if where == "url":
        text = error("--upstream", "http://user:hunter2@host")
        assert "hunter2" not in text
    elif where == "file":
        assert "pass" not in error("--upstream", URL, "--config", file(f'upstream_api_key = "{secret}"'))
    else:
        assert "pass" not in error("--upstream", URL, **{where: secret})


def test_every_setting_is_described_and_reachable_from_every_source() -> None:
    from history_delta_server.config import parser

    text = parser().format_help()
    for setting in SETTINGS:
        assert setting.help
        assert setting.kind.expected
        if not setting.secret:
            assert setting.flag in text or setting.flag.replace("--", "--[no-]") in text
