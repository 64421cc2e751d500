# SPDX-License-Identifier: Apache-2.0
"""On which line each value of a TOML text begins, held against what the standard library's parser finds there."""

import tomllib

import pytest
from history_delta_conformance.scripted_model.scenario_file import SCENARIOS
from history_delta_conformance.scripted_model.toml_lines import line_of, lines_of

TEXT = '''\
# A comment with "quotes", [[brackets]] and = signs
name = "x" # another
long = """
[[not]] a = table
"quoted" \\""" still in it"""
literal = \'\'\'
# no comment \\\'\'\'
list = [
    { tool = "a", "b c" = [1, 2,
      3] }, # one
    { tool = "}" },
]
a.b = 1979-05-27 07:32:00
empty = [{}, []]

[table]
"key = " = 1

[[turns]]
text = "one"
[[turns.calls]]
tool = "shell"
[[turns.calls]]
tool = 'it'
[turns.more]
deep = true
[[ turns ]]
text = "two"
[[turns.calls]]
tool = "write"
'''


def places_in(value, place=()):
    yield place
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places_in(child, (*place, key))


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.toml")), ids=lambda file: file.stem)
def test_it_finds_every_place_of_the_packages_scenarios_and_no_other(file):
    text = file.read_bytes().decode()
    assert set(lines_of(text)) | {()} == set(places_in(tomllib.loads(text)))


def test_it_finds_every_place_and_no_other():
    assert set(lines_of(TEXT)) | {()} == set(places_in(tomllib.loads(TEXT)))
    crlf = TEXT.replace("\n", "\r\n")
    assert lines_of(crlf) == lines_of(TEXT)


@pytest.mark.parametrize(
    ("place", "line_begins"),
    [
        (("name",), "name"),
        (("long",), "long"),
        (("literal",), "literal"),
        (("list", 0), "    { tool"),
        (("list", 0, "b c", 2), "      3]"),
        (("list", 1, "tool"), '    { tool = "}"'),
        (("a", "b"), "a.b"),
        (("table", "key = "), '"key'),
        (("turns", 0, "calls", 1, "tool"), "tool = 'it'"),
        (("turns", 0, "more", "deep"), "deep"),
        (("turns", 1), "[[ turns"),
        (("turns", 1, "calls", 0, "tool"), 'tool = "write"'),
    ],
)
def test_lines(place, line_begins):
    assert TEXT.splitlines()[lines_of(TEXT)[place] - 1].startswith(line_begins)


def test_what_is_not_there_is_at_the_nearest_place_that_it_would_stand_in():
    lines = lines_of(TEXT)
    assert line_of(lines, ("turns", 1, "reasoning")) == lines["turns", 1]
    assert line_of(lines, ("nowhere",)) == 1
