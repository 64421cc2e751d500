# SPDX-License-Identifier: Apache-2.0
import argparse
import os

import pytest
from history_delta_shim import settings
from history_delta_shim.origin import Origin


def parse(*flags, **environ):
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    return settings.from_arguments(parser.parse_args(flags), environ)


def test_flags_go_before_variables():
    parsed = parse(
        "--upstream", "http://a", "--rollout", "r1", HISTORY_DELTA_UPSTREAM="http://b", HISTORY_DELTA_ROLLOUT="x"
    )
    assert (parsed.upstream, parsed.rollout) == (Origin("http", "a", 80), "r1")


def test_variables_stand_in_and_defaults_are_safe():
    parsed = parse(HISTORY_DELTA_UPSTREAM="http://b", HISTORY_DELTA_ROLLOUT="r2")
    assert (parsed.upstream, parsed.rollout) == (Origin("http", "b", 80), "r2")
    assert parsed.listen == ("127.0.0.1", 0)
    assert not parsed.enabled
    assert not parsed.log_body_hash
    assert parsed.log_file == settings.STDERR


def test_an_empty_variable_is_none():
    assert parse("--upstream", "http://a", HISTORY_DELTA_ROLLOUT="").rollout is None


def test_in_the_background_nothing_is_logged_but_to_a_file():
    assert parse("--upstream", "http://a", "--detach").log_file is None
    assert parse("--upstream", "http://a", "--detach", "--log-file", "f").log_file == "f"


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
def test_switched_on(value):
    assert parse("--upstream", "http://a", HISTORY_DELTA_ENABLED=value).enabled


@pytest.mark.parametrize("value", ["", "0", "False", "no", "off"])
def test_switched_off(value):
    assert not parse("--upstream", "http://a", HISTORY_DELTA_ENABLED=value).enabled


@pytest.mark.parametrize(
    ("flags", "environ", "named"),
    [
        ([], {}, "HISTORY_DELTA_UPSTREAM"),
        (["--upstream", "gw:80"], {}, "--upstream: expected an origin"),
        ([], {"HISTORY_DELTA_UPSTREAM": "http://gw/v1"}, "HISTORY_DELTA_UPSTREAM: expected an origin"),
        (["--upstream", "http://a", "--listen", "8000"], {}, "--listen: expected HOST:PORT"),
        (["--upstream", "http://a", "--listen", "0.0.0.0:0"], {}, "--allow-remote"),
        (["--upstream", "http://a", "--rollout", "a b"], {}, "--rollout: expected"),
        (["--upstream", "http://a"], {"HISTORY_DELTA_ROLLOUT": "-x"}, "HISTORY_DELTA_ROLLOUT: expected"),
        (["--upstream", "http://a"], {"HISTORY_DELTA_ENABLED": "maybe"}, "HISTORY_DELTA_ENABLED: expected 1 or 0"),
        (["--upstream", "http://a"], {"http_proxy": "socks5://x"}, "HTTP_PROXY: expected"),
        (["--upstream", "https://a"], {"SSL_CERT_FILE": "/nowhere.pem"}, "SSL_CERT_FILE: expected"),
        (["--upstream", "http://a", "--watch-fd", "999"], {}, "--watch-fd: expected"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_that_names_the_setting(flags, environ, named):
    with pytest.raises(settings.Invalid) as error:
        parse(*flags, **environ)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_another_address_needs_its_flag():
    assert parse("--upstream", "http://a", "--listen", "0.0.0.0:80", "--allow-remote").listen == ("0.0.0.0", 80)


def test_a_log_is_appended_to_and_private(tmp_path):
    path = tmp_path / "log"
    path.write_text("before\n")
    fd = settings.open_log(str(path))
    os.write(fd, b"after\n")
    os.close(fd)
    assert path.read_text() == "before\nafter\n"
    assert settings.open_log(None) is None
    with pytest.raises(settings.Invalid, match="--log-file"):
        settings.open_log(str(tmp_path / "none" / "log"))
