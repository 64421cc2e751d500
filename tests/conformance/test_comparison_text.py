# SPDX-License-Identifier: Apache-2.0
"""Diffs as a person reads them: short lines, nothing left out unsaid, and every difference in sight."""

import json
import re

from history_delta_conformance.comparison.text import diff, lines, preview
from hypothesis import given
from hypothesis import strategies as st


def test_json_is_broken_at_its_members_and_at_the_lines_of_its_strings():
    text = '{"a":1,"b":[{"c":"one\\ntwo"}],"d":{}}'
    assert [line.strip() for line in lines(text)] == [
        "{",
        '"a":1,',
        '"b":[',
        "{",
        '"c":"one\\n',
        'two"',
        "}",
        "],",
        '"d":{',
        "}",
        "}",
    ]


def test_a_head_stays_as_it_is():
    assert lines("POST /v1/messages\nAccept: a, b\n\nplain, text") == [
        "POST /v1/messages",
        "Accept: a, b",
        "",
        "plain, text",
    ]


def test_a_difference_in_layout_alone_shows():
    shown = diff('{"a":1}', '{"a": 1}')
    assert '-"a":1' in shown.replace(" ", "", 1).replace("- ", "-")
    assert '"a": 1' in shown


def test_a_small_difference_in_a_long_string_is_a_small_diff():
    one = json.dumps({"content": "x" * 30_000})
    other = one[:20_000] + "y" + one[20_001:]
    assert max(map(len, diff(one, other).splitlines())) <= 170
    assert len(diff(one, other).splitlines()) < 12


def test_a_preview_is_one_short_line():
    assert preview("a\n  b") == "a b"
    assert len(preview("word " * 100)) == 70


json_values = st.recursive(
    st.none() | st.integers() | st.text(max_size=10), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(json_values.map(json.dumps) | st.text(max_size=100))
def test_nothing_is_left_out_and_nothing_made_up_but_white_space(text):
    def without_space(text):
        return re.sub(r"\s", "", text)

    assert without_space("".join(lines(text))) == without_space(text)


@given(st.text(max_size=50), st.text(max_size=50))
def test_other_texts_have_a_diff_unless_they_differ_in_blank_lines(one, other):
    assert diff(one, one) == ""
    if lines(one) != lines(other):
        assert diff(one, other)
