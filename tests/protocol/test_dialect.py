# SPDX-License-Identifier: Apache-2.0
"""Paths, rollout ids and error shapes."""

import json
import string

import pytest
from history_delta_protocol import dialect
from hypothesis import given
from hypothesis import strategies as st

ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", fullmatch=True)
rests = st.sampled_from(
    ["", "/", "/v1/chat/completions", "/v1/models", "/training-token-capture", "/training-token-captures"]
)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/v1/chat/completions", "chat"),
        ("/chat/completions", "chat"),
        ("/ng-rollout/a/v1/responses", "responses"),
        ("/v1/messages?beta=true", "messages"),
        ("/v1/messages?x=/responses", "messages"),
        ("/openai/deployments/m/chat/completions?api-version=1", "chat"),
        ("/v1/messages/count_tokens", None),
        ("/v1/messages/", None),
        ("/v1/chatcompletions", None),
        ("/v1/xresponses", None),
        ("/v1/Responses", None),
        ("/v1/models?next=/v1/responses", None),
        ("/v1/responses%2f", None),
        ("*", None),
        ("", None),
    ],
)
def test_the_dialect_is_the_end_of_the_path(target, name):
    found = dialect.dialect_of(target)
    assert (found and found.name) == name


def test_history_keys():
    assert [(d.name, d.history_key) for d in dialect.DIALECTS] == [
        ("chat", "messages"),
        ("responses", "input"),
        ("messages", "messages"),
    ]


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("/v1/models", (None, "", "", "/v1/models")),
        ("/ng-rollout/r1/v1/responses?a=b", ("r1", "", "/ng-rollout/r1", "/v1/responses?a=b")),
        ("/base/ng-rollout/r1/v1", ("r1", "/base", "/ng-rollout/r1", "/v1")),
        ("/ng-rollout/r1", ("r1", "", "/ng-rollout/r1", "")),
        ("/ng-rollout/r1?x", ("r1", "", "/ng-rollout/r1", "?x")),
        (
            "/ng-rollout/r1/training-token-capture/v1/responses",
            ("r1", "", "/ng-rollout/r1/training-token-capture", "/v1/responses"),
        ),
        ("/ng-rollout/r1/training-token-capture", ("r1", "", "/ng-rollout/r1/training-token-capture", "")),
        ("/ng-rollout/r1/training-token-captured", ("r1", "", "/ng-rollout/r1", "/training-token-captured")),
        ("/v1/models?p=/ng-rollout/r1/", (None, "", "", "/v1/models?p=/ng-rollout/r1/")),
    ],
)
def test_the_rollout_prefix_is_taken_out(target, parts):
    assert dialect.split_rollout_path(target) == parts


@given(st.sampled_from(["", "/base", "/a/b"]), ids, rests, st.sampled_from(["", "?", "?a=/ng-rollout/b/"]))
def test_the_parts_put_together_are_the_target(base, rollout, rest, query):
    target = base + "/ng-rollout/" + rollout + rest + query
    found = dialect.split_rollout_path(target)
    assert found.rollout == rollout
    assert found.base + found.prefix + found.rest == target


bad_ids = ["", ".hidden", "-a", "_a", "a b", "a%2Fb", "..", "a\n", "é", "a" * 201, "a:b", "a\u0660"]


@pytest.mark.parametrize("rollout", bad_ids)
def test_a_rollout_id_outside_the_grammar_is_refused(rollout):
    with pytest.raises(dialect.InvalidRolloutId):
        dialect.split_rollout_path("/ng-rollout/" + rollout + "/v1/responses")
    with pytest.raises(dialect.InvalidRolloutId):
        dialect.rollout_of("/v1/responses", rollout)


def test_path_and_header_may_both_name_the_rollout_but_not_differ():
    assert dialect.rollout_of("/v1/responses", None)[0] is None
    assert dialect.rollout_of("/v1/responses", "r1")[0] == "r1"
    assert dialect.rollout_of("/ng-rollout/r1/v1/responses", None)[0] == "r1"
    assert dialect.rollout_of("/ng-rollout/r1/v1/responses", "r1")[0] == "r1"
    with pytest.raises(dialect.InvalidRolloutId, match="r1 in the path, r2 in the header"):
        dialect.rollout_of("/ng-rollout/r1/v1/responses", "r2")


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("/v1/chat/completions", "/v1/.well-known/history-delta"),
        ("/v1/messages?beta=true", "/v1/.well-known/history-delta"),
        ("/responses", "/.well-known/history-delta"),
        ("/ng-rollout/r1/v1/responses", "/v1/.well-known/history-delta"),
        ("/base/ng-rollout/r1/training-token-capture/v1/messages", "/base/v1/.well-known/history-delta"),
    ],
)
def test_capabilities_are_asked_beside_the_model_call_without_the_rollout(target, asked):
    assert dialect.capabilities_path(target) == asked


@given(st.text(string.printable + "\ud800é", max_size=40))
def test_delivery_ids_are_32_lower_case_hex_digits(text):
    good = len(text) == 32 and all(char in "0123456789abcdef" for char in text)
    assert bool(dialect.DELIVERY_ID.match(text)) is good
    assert dialect.DELIVERY_ID.match("0123456789abcdef" * 2)
    assert not dialect.DELIVERY_ID.match("0123456789abcdef" * 2 + "\n")
    assert not dialect.DELIVERY_ID.match("0123456789ABCDEF" * 2)


@pytest.mark.parametrize("status", [400, 409, 413, 422, 429, 502, 503])
@pytest.mark.parametrize("name", ["chat", "responses", "messages", None])
def test_errors_have_the_shape_of_the_dialect(name, status):
    found = next((d for d in dialect.DIALECTS if d.name == name), None)
    document = json.loads(dialect.error_body(found, status, "some_code", 'a "message" \u2028 é'))
    error = document.pop("error")
    assert document == ({"type": "error"} if name == "messages" else {})
    assert error["code"] == "some_code"
    assert error["message"] == 'a "message" \u2028 é'
    assert error["type"]
    assert ("param" in error) is (name != "messages")
