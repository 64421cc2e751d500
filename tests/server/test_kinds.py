# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest
from history_delta_server import kinds
from history_delta_server.config import ConfigError, load
from history_delta_server.kinds import Address, Kind, UpstreamUrl
from history_delta_server.settings import SETTINGS

READ: list[tuple[Kind, str, Any]] = [
    *((kinds.BOOLEAN, text, True) for text in ("1", "true", "yes", "on", " ON ")),
    *((kinds.BOOLEAN, text, False) for text in ("0", "false", "no", "off", "Off")),
    (kinds.SIZE, "65536", 65536),
    (kinds.SIZE, "64KiB", 65536),
    (kinds.SIZE, " 2 mib ", 2 * 2**20),
    (kinds.SIZE, "1GIB", 2**30),
    (kinds.COUNT, " 7 ", 7),
    (kinds.ONE, " 1 ", 1),
    (kinds.SECONDS, "0.25", 0.25),
    (kinds.SECONDS, "1e3", 1000.0),
    (kinds.PATH, "/a b", "/a b"),
    (kinds.KEY, " sk-1 \n", "sk-1"),
    (kinds.LOG_FORMAT, "json", "json"),
    (kinds.LOG_FORMAT, "text", "text"),
    (kinds.TCP_ADDRESS, "host:0", Address("host", 0)),
    (kinds.TCP_ADDRESS, " [::1]:65535 ", Address("::1", 65535)),
    (kinds.ADDRESS, "unix:/run/a b.sock", Address(path="/run/a b.sock")),
    (kinds.ADDRESS, "host:1", Address("host", 1)),
    (kinds.UPSTREAMS, "http://a", (UpstreamUrl("http", "a", 80, ""),)),
    (kinds.UPSTREAMS, "https://[::1]/v1//", (UpstreamUrl("https", "::1", 443, "/v1"),)),
    (kinds.UPSTREAMS, "http://a,http://b:81\nhttp://a:80/", kinds.UPSTREAMS.read("http://a http://b:81")),
]
REFUSED: list[tuple[Kind, str]] = [
    *((kinds.BOOLEAN, text) for text in ("", "2", "y", "truee")),
    *((kinds.SIZE, text) for text in ("", "0", "0KiB", "-1", "1.5MiB", "1kB", "1 TiB", "9" * 19, "\u0661")),
    *((kinds.COUNT, text) for text in ("", "0", "-1", "1.0", "1_000", "\u00b2", "\u0661")),
    *((kinds.ONE, text) for text in ("", "0", "2", "01")),
    *((kinds.SECONDS, text) for text in ("", "0", "-1", "nan", "inf", "1e9", "1s")),
    *((kinds.PATH, text) for text in ("", " ", "a\0b")),
    *((kinds.KEY, text) for text in ("", " ", "two words", "line\nbreak", "caf\u00e9", "a\0b")),
    *((kinds.LOG_FORMAT, text) for text in ("", "JSON", "xml")),
    *((kinds.TCP_ADDRESS, text) for text in ("", "8700", ":8700", "h:", "h:65536", "h:-1", "::1:80", "h:\u0661")),
    *((kinds.TCP_ADDRESS, text) for text in ("[]:80", "unix:/x")),
    *((kinds.ADDRESS, text) for text in ("unix:", "unix: ", "unix:a\0b", "/x")),
    *((kinds.UPSTREAMS, text) for text in ("", " , ", "model:8000", "ftp://a", "http://", "http://:80")),
    *((kinds.UPSTREAMS, text) for text in ("http://a:0", "http://a:65536", "http://a:x", "http://[::1")),
    *((kinds.UPSTREAMS, text) for text in ("http://u@a", "http://u:p@a", "http://a?", "http://a#", "http://a/\u00e9")),
    *((kinds.UPSTREAMS, text) for text in ("http://a http://b?q", "http://a/\x7f")),
]


def refusal(read: Callable[[Any], object], value: object) -> str | None:
    """What a reader says against a value; None: it takes it."""
    try:
        read(value)
    except ValueError as error:
        return str(error)
    return None


def name(value: object) -> str | None:
    return value.metavar if isinstance(value, Kind) else None


@pytest.mark.parametrize(("kind", "text", "value"), READ, ids=name)
def test_accepted(kind: Kind, text: str, value: object) -> None:
    read = kind.read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(("kind", "text"), REFUSED, ids=name)
def test_refused(kind: Kind, text: str) -> None:
    assert refusal(kind.read, text) is not None


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_what_a_person_sees_is_made_of_what_was_expected(setting) -> None:
    """Of every setting, so of every kind; the value is shown where it is no secret."""
    bad = "not\u00a0one"
    if setting.kind is kinds.PATH:
        bad = "a\0b"
    with pytest.raises(ConfigError) as caught:
        load([], {"HISTORY_DELTA_UPSTREAM": "http://a", setting.variable: bad})
    assert setting.variable in str(caught.value)
    assert setting.kind.expected in str(caught.value)
    if setting.secret:
        assert "one" not in str(caught.value)


def test_of_all_kinds_the_credential_alone_is_secret() -> None:
    every = [value for value in vars(kinds).values() if isinstance(value, Kind)]
    assert [kind for kind in every if kind.secret] == [kinds.KEY]
    assert {setting.kind for setting in SETTINGS if setting.secret} == {kinds.KEY}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (kinds.BOOLEAN, True, True),
        (kinds.SIZE, 10, 10),
        (kinds.SIZE, "1KiB", 1024),
        (kinds.COUNT, 3, 3),
        (kinds.SECONDS, 2, 2.0),
        (kinds.SECONDS, 0.5, 0.5),
        (kinds.PATH, "x", "x"),
        (kinds.UPSTREAMS, ["http://a", "http://b"], kinds.UPSTREAMS.read("http://a http://b")),
        (kinds.UPSTREAMS, "http://a", kinds.UPSTREAMS.read("http://a")),
    ],
    ids=name,
)
def test_from_toml(kind: Kind, value: object, read: object) -> None:
    assert kind.from_toml(value) == read


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (kinds.BOOLEAN, 1),
        (kinds.BOOLEAN, "true"),
        (kinds.SIZE, True),
        (kinds.SIZE, 1.0),
        (kinds.COUNT, "3"),
        (kinds.COUNT, True),
        (kinds.SECONDS, "1"),
        (kinds.SECONDS, float("inf")),
        (kinds.PATH, ["x"]),
        (kinds.UPSTREAMS, []),
        (kinds.UPSTREAMS, ["http://a", 1]),
    ],
    ids=name,
)
def test_toml_has_types_of_its_own(kind: Kind, value: object) -> None:
    assert refusal(kind.from_toml, value) is not None


def test_a_credential_is_in_no_readers_error() -> None:
    assert refusal(kinds.KEY.read, "two words") == ""


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://a:80", "a"),
        ("http://a:443", "a:443"),
        ("https://a:443", "a"),
        ("https://[::1]:8443/base", "[::1]:8443"),
        ("http://[::1]", "[::1]"),
    ],
)
def test_the_authority_leaves_out_the_port_that_the_scheme_implies(url: str, authority: str) -> None:
    (read,) = kinds.UPSTREAMS.read(url)
    assert read.authority == authority
    assert kinds.UPSTREAMS.read(str(read)) == (read,)


@pytest.mark.parametrize("text", ["host:1", "[::1]:1", "unix:/x"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(kinds.ADDRESS.read(text)) == text
