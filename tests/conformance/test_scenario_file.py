# SPDX-License-Identifier: Apache-2.0
"""Scenario files: one may build on another, and a faulty one is refused by file, line, field, expected and found."""

import re

import pytest
from history_delta_conformance.scripted_model.scenario import Fault, Shell
from history_delta_conformance.scripted_model.scenario_file import ScenarioError, load_scenario

OWN = """\
name = "own"
prompt = "p"
[[turns]]
text = "one"
calls = [{ tool = "shell", command = "ls" }]
[[turns]]
text = "two"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="own"):
        file = tmp_path / f"{name}.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


def test_a_file_of_ones_own(write):
    scenario = load_scenario(write(OWN))
    assert scenario.name == scenario.marker == "own"
    assert scenario.turns[0].calls == (Shell("ls"),)


def test_what_builds_on_another_has_all_of_it_but_its_name_and_what_it_sets_itself(write):
    write(OWN + '[[files]]\npath = "a"\ncontent = "b"\n')
    file = write('extends = "own"\nprompt = "q"\nfaults = [{ step = 2, kind = "cut" }]\n', "other")
    own, other = load_scenario(file.with_name("own.toml")), load_scenario(file)
    assert (other.name, other.marker, other.prompt) == ("other", "other", "q")
    assert (other.turns, other.files) == (own.turns, own.files)
    assert other.faults == (Fault(2, "cut"),)


def test_a_name_that_is_set_is_kept_in_what_builds_on_what_builds_on_another(write):
    write(OWN)
    write('extends = "own"\ntitle = "T"\n', "second")
    third = load_scenario(write('extends = "second"\nname = "third-by-name"\n', "third"))
    assert (third.name, third.title, third.prompt) == ("third-by-name", "T", "p")


def test_it_may_build_on_one_of_the_package(write):
    assert load_scenario(write('extends = "tool-use"\n')).turns == load_scenario("tool-use").turns


def test_the_same_with_the_transport_off_is_called_the_same(write):
    write(OWN)
    file = write('extends = "own"\nsame_off_as = "own"\ndisturbances = [{ step = 2, kind = "repeat" }]\n', "other")
    assert (load_scenario(file).name, load_scenario(file).marker) == ("other", "own")


FAULT = OWN + "[[faults]]\n"
MISTAKES = [
    ("name = maybe\n", 1, "expected TOML, found at column 8: Invalid value"),
    (OWN + "[[turns]", 8, "expected TOML, found at"),
    ('name = "a"\nprompt = """\nno end', 3, "expected TOML, found at the end of the document"),
    (b'name = "own"\nprompt = "\xff"\n', 2, "expected UTF-8, found byte 0xff"),
    ('name = "own"\nprompt = "p"\n', 1, "turns: expected this field, found nothing"),
    ('prompt = "p"\nturns = []\n', 2, "turns: expected array of length >= 1, found []"),
    ('prompt = ""\n' + OWN.partition("\n")[2].partition("\n")[2], 1, "prompt: expected str of length >= 1, found ''"),
    (OWN + "reasoning = 3\n", 8, "turns[1].reasoning: expected str, found 3"),
    (OWN + "[[turns]]\ntxt = 't'\n", 9, "turns[2].txt: expected one of text, reasoning, calls, input_tokens, found"),
    (OWN + "[[turns]]\nreasoning = 't'\n", 8, "turns[2].text: expected this field, found nothing"),
    ("promt = 'p'\n" + OWN, 1, "promt: expected one of name, prompt, turns, follow_ups,"),
    (
        OWN + "[[turns.calls]]\ntool = 'dance'\n",
        9,
        "turns[1].calls[0].tool: expected one of shell, write, read, task",
    ),
    (OWN + "[[turns.calls]]\ntool = 'read'\n", 8, "turns[1].calls[0].path: expected this field, found nothing"),
    (
        OWN + "calls = [\n  { tool = 'read', path = 'a' },\n  { tool = 'write', path = 'a', text = '' },\n]\n",
        10,
        "turns[1].calls[1].text: expected one of tool, path, content, found this field",
    ),
    (OWN + "calls = [{ tool = 'read', path = ['a'] }]\n", 8, "turns[1].calls[0].path: expected str, found ['a']"),
    (OWN + "calls = [3]\n", 8, "turns[1].calls[0]: expected object, found 3"),
    (FAULT + "kind = 'cut'\nstep = 0\n", 10, "faults[0].step: expected int >= 1, found 0"),
    (FAULT + "kind = 'cut'\nstep = 3\n", 10, "faults[0].step: expected a step from 1 to 2, found 3"),
    (FAULT + "kind = 'cut'\nstep = 1\ntimes = 0\n", 11, "faults[0].times: expected int >= 1, found 0"),
    (FAULT + "step = 1\nkind = 'boom'\n", 10, "faults[0].kind: expected one of status, reset-before, cut, reset,"),
    (
        FAULT + "step = 1\nkind = 'cut'\nafter = 'end'\n",
        11,
        "faults[0].after: expected one of first-token, text, tool-call, found 'end'",
    ),
    (FAULT + "kind = 'cut'\nstep = 2\nafter = 'tool-call'\n", 11, "faults[0].after: expected a place that step 2 has"),
    (FAULT + "kind = 'status'\nstep = 1\nstatus = 200\n", 11, "faults[0].status: expected int >= 400, found 200"),
    (FAULT + "kind = 'stall'\nstep = 1\nseconds = -1.0\n", 11, "faults[0].seconds: expected float >= 0.0, found -1.0"),
    (
        FAULT + "kind = 'cut'\nstep = 1\nconversation = 'helper'\n",
        11,
        "faults[0].conversation: expected one of none at all",
    ),
    (OWN + "[[disturbances]]\nkind = 'repeat'\nstep = 9\n", 10, "disturbances[0].step: expected a step from 1 to 2"),
    ("needs = ['wings']\n" + OWN, 1, "needs[0]: expected one of sub-agents, compaction,"),
    ("extends = 'no-such'\n" + OWN, 1, "extends: expected the name of a scenario beside this one or in the package"),
    ("extends = 3\n" + OWN, 1, "extends: expected the name of a scenario beside this one or in the package, found 3"),
    ("extends = 'own'\n" + OWN, 1, "extends: expected a scenario that does not build on this one, found own → own"),
    ("\nsame_off_as = 'no-such'\n" + OWN, 2, "same_off_as: expected the name of a scenario"),
    ("same_off_as = 'tool-use'\n" + OWN, 1, "same_off_as: expected a scenario that is the same in prompt,"),
]
HELPER = "[[conversations]]\nname = 'helper'\nmatch = 'm'\n[[conversations.turns]]\ntext = 't'\n"
MISTAKES += [
    (OWN + HELPER + HELPER, 14, "conversations[1].name: expected a name that no other conversation has"),
    (OWN + HELPER.replace("helper", "own"), 9, "conversations[0].name: expected a name that no other"),
    (
        OWN + HELPER + "[[faults]]\nconversation = 'h'\nkind = 'cut'\nstep = 1\n",
        14,
        "faults[0].conversation: expected one of helper, found 'h'",
    ),
    (
        OWN + HELPER + "[[faults]]\nconversation = 'helper'\nkind = 'cut'\nstep = 2\n",
        16,
        "faults[0].step: expected a step from 1 to 1, found 2",
    ),
]


@pytest.mark.parametrize(("text", "line", "what"), MISTAKES, ids=lambda value: None if isinstance(value, int) else "")
def test_a_mistake_is_named_with_its_line(text, line, what, write):
    file = write(text)
    with pytest.raises(ScenarioError, match=re.escape(what)) as refused:
        load_scenario(file)
    assert str(refused.value).startswith(f"{file}:{line}: ")
    assert "\n" not in str(refused.value)


def test_a_mistake_in_what_is_built_on_is_named_where_it_stands(write):
    base = write(OWN.replace('"one"', "1"))
    with pytest.raises(ScenarioError, match=r"turns\[0\]\.text: expected str, found 1") as refused:
        load_scenario(write('extends = "own"\ntitle = "T"\n', "other"))
    assert str(refused.value).startswith(f"{base}:4: ")


def test_a_circle_of_several_is_named(write):
    write('extends = "b"\n', "a")
    file = write('extends = "a"\n', "b")
    with pytest.raises(ScenarioError, match="found a → b → a"):
        load_scenario(file.with_name("a.toml"))


def test_the_same_with_the_transport_off_must_be_run_so_itself(write):
    write(OWN)
    write('extends = "own"\nsame_off_as = "own"\n', "second")
    file = write('extends = "own"\nsame_off_as = "second"\n', "third")
    with pytest.raises(ScenarioError, match="'second', which differs in that"):
        load_scenario(file)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ScenarioError, match="tool-use"):
        load_scenario("no-such")
