# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim import headers


def test_names_are_found_in_any_case_and_all_of_them():
    pairs = [("X-A", "1"), ("x-a", "2"), ("X-AB", "3")]
    assert headers.values(pairs, "x-a") == ["1", "2"]
    assert headers.values(pairs, "x-c") == []


def test_the_first_one_is_found_whatever_the_case_of_either():
    assert headers.header_value([("X-A", "1"), ("x-a", "2")], "x-A") == "1"
    assert headers.header_value([("X-A", "1")], "X-B") is None


def test_tokens_of_several_lines_are_one_list():
    assert headers.tokens([("TE", "a, B ,,"), ("te", "c")], "te") == ["a", "b", "c"]


def test_hop_by_hop_headers_stay_on_their_hop():
    hop = ["Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "TE", "Transfer-Encoding", "Upgrade"]
    pairs = [("A", "1"), *((name, "x") for name in hop), ("a", "2"), ("Trailer", "T")]
    assert headers.end_to_end(pairs) == [("A", "1"), ("a", "2"), ("Trailer", "T")]


def test_what_connection_names_stays_too():
    pairs = [("Connection", "close, X-Private"), ("x-private", "1"), ("X-Public", "2"), ("Connection", "X-More")]
    assert headers.end_to_end([*pairs, ("X-More", "3")]) == [("X-Public", "2")]


def test_connection_cannot_take_away_what_frames_or_authorises_a_message():
    pairs = [("Connection", "Content-Length, Authorization"), ("Content-Length", "3"), ("Authorization", "k")]
    assert headers.end_to_end(pairs) == [("Content-Length", "3"), ("Authorization", "k")]


def test_headers_of_the_protocol_never_travel_on():
    assert headers.end_to_end([("History-Delta-Held", "1 x"), ("HISTORY-DELTA-FUTURE", "y"), ("History", "z")]) == [
        ("History", "z")
    ]


def test_more_can_be_left_out():
    assert headers.end_to_end([("Host", "h"), ("Trailer", "T"), ("A", "1")], without=headers.FRAMING) == [("A", "1")]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([("X", "1"), ("host", "a"), ("Y", "2")], [("X", "1"), ("host", "up:1"), ("Y", "2")]),
        ([("X", "1")], [("Host", "up:1"), ("X", "1")]),
        ([("Host", "a"), ("X", "1"), ("HOST", "b")], [("Host", "up:1"), ("X", "1")]),
    ],
)
def test_the_host_is_named_where_and_as_the_agent_names_it(given, sent):
    assert headers.addressed(given, "up:1") == sent
