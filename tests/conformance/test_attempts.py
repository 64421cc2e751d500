# SPDX-License-Identifier: Apache-2.0
"""The built-in agent's second and third attempts: which failures they follow, after which wait."""

import http.client

import pytest
from history_delta_conformance.builtin_agent.attempts import attempts
from history_delta_conformance.builtin_agent.endpoint import ModelError
from history_delta_conformance.builtin_agent.history import Answer, BrokenStream

ANSWER = Answer("done")


def outcome(*results):
    """What comes of a call with these results: the answer or the error, what was noted, and the waits."""
    remaining, noted, waits = list(results), [], []

    def call():
        result = remaining.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    try:
        return attempts(call, noted.append, waits.append), noted, waits
    except Exception as error:
        return error, noted, waits


@pytest.mark.parametrize(
    "error", [BrokenStream("x"), ConnectionResetError(), http.client.IncompleteRead(b""), ModelError(502, None, "")]
)
def test_what_may_pass_is_tried_again(error):
    answer, noted, waits = outcome(error, ANSWER)
    assert answer is ANSWER
    assert (len(noted), waits) == (1, [0.1])


@pytest.mark.parametrize("error", [ModelError(400, "1", ""), ModelError(404, None, ""), ValueError("not JSON")])
def test_what_will_not_pass_is_not(error):
    raised, _, waits = outcome(error, ANSWER)
    assert raised is error
    assert waits == []


def test_the_third_failure_is_the_last():
    errors = [ModelError(500, None, ""), BrokenStream("x"), ModelError(503, None, "")]
    raised, noted, waits = outcome(*errors, ANSWER)
    assert raised is errors[2]
    assert noted == ["status 500", "the connection or the stream broke"]
    assert waits == [0.1, 0.3]


@pytest.mark.parametrize(
    ("asked", "wait"), [("1.5", 1.5), ("9999", 30), ("0", 0.1), ("-1", 0.1), ("nan", 0.1), ("soon", 0.1), (None, 0.1)]
)
def test_it_waits_as_asked_within_reason(asked, wait):
    assert outcome(ModelError(429, asked, ""), ANSWER)[2] == [wait]
