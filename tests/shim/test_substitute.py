# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim.substitute import Substitution, apply_to_environment, apply_to_text, spellings

SHIM = "http://127.0.0.1:4141"
AT_8000 = Substitution("http://gw:8000", SHIM)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"http://gw:8000/v1", b"http://127.0.0.1:4141/v1"),
        (b'{"baseURL":"http://gw:8000"}', b'{"baseURL":"http://127.0.0.1:4141"}'),
        (rb'"http:\/\/gw:8000\/v1"', rb'"http:\/\/127.0.0.1:4141\/v1"'),
        (b"base_url: http://gw:8000/ng-rollout/a/v1\n", b"base_url: http://127.0.0.1:4141/ng-rollout/a/v1\n"),
        (b"http://gw:8000/a http://gw:8000/b", b"http://127.0.0.1:4141/a http://127.0.0.1:4141/b"),
        (b"http://gw:8000", b"http://127.0.0.1:4141"),
        (b"\xff\xfe http://gw:8000\x00\\u007benv:X}", b"\xff\xfe http://127.0.0.1:4141\x00\\u007benv:X}"),
    ],
)
def test_every_mention_of_the_origin_is_replaced_and_nothing_else(before, after):
    assert AT_8000.found_in(before)
    assert AT_8000.apply(before) == after
    assert AT_8000.undo(after) == before


@pytest.mark.parametrize(
    "other",
    [
        b"http://gw:80001/v1",
        b"http://gw:8000.example/v1",
        b"http://gw:8000-a/v1",
        b"http://gw:8000:1/v1",
        b"http://gw/v1",
        b"http://gw:800/v1",
        b"https://gw:8000/v1",
        b"http://localhost:8000",
        b"gw:8000",
        b"",
    ],
)
def test_another_origin_is_left_alone(other):
    assert not AT_8000.found_in(other)
    assert AT_8000.apply(other) == other


@pytest.mark.parametrize("upstream", ["https://gw", "https://gw/", "https://gw:443"])
@pytest.mark.parametrize("written", [b"https://gw/v1", b"https://gw:443/v1"])
def test_the_default_port_may_be_written_or_not(upstream, written):
    assert Substitution(upstream, SHIM).apply(written) == b"http://127.0.0.1:4141/v1"


def test_another_port_is_not_the_default_one():
    assert not Substitution("https://gw", SHIM).found_in(b"https://gw:8443/v1 http://gw/v1 https://gw:80/v1")


@pytest.mark.parametrize(
    "wrong", ["", "gw:8000", "ftp://gw", "http://", "http://gw:8000/v1", "http://u@gw", "http://gw:0"]
)
def test_what_is_no_origin_is_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Substitution(wrong, SHIM)


def test_spellings_begin_with_the_one_given():
    assert spellings("http://gw:80/")[0] == "http://gw:80"
    assert set(spellings("http://gw:80/")) == {"http://gw:80", "http://gw"}


def test_text_keeps_bytes_that_are_no_text():
    undecodable = b"\xff http://gw:8000/".decode("utf-8", "surrogateescape")
    assert apply_to_text(AT_8000, undecodable).encode("utf-8", "surrogateescape") == b"\xff http://127.0.0.1:4141/"


def test_environment_names_what_changes_and_leaves_our_own_settings():
    environ = {"OPENAI_BASE_URL": "http://gw:8000/v1", "PATH": "/bin", "HISTORY_DELTA_UPSTREAM": "http://gw:8000"}
    assert apply_to_environment(AT_8000, environ) == {"OPENAI_BASE_URL": "http://127.0.0.1:4141/v1"}


def test_a_file_pointed_at_another_run_s_shim_is_recognised():
    original = rb'{"a":"http://gw:8000/v1","b":"http:\/\/gw:8000"}'
    pointed = Substitution("http://gw:8000", "http://127.0.0.1:9").apply(original)
    assert AT_8000.matches_any_shim(original, pointed)
    assert not AT_8000.matches_any_shim(original, pointed + b"\n")
    assert not AT_8000.matches_any_shim(original, pointed.replace(b"v1", b"v2"))
