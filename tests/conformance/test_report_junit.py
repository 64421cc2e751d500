# SPDX-License-Identifier: Apache-2.0
import re
from xml.etree import ElementTree

import pytest
from history_delta_conformance.report.junit import to_junit
from history_delta_conformance.report.results import Report
from msgspec.structs import replace
from support.sample_report import FAILED, NOT_RUN, cell, good_report, hostile_report, report, sample_report

# What readers of JUnit XML take, in the order in which they take it: element -> (attributes it must have, children).
FORM = {
    "testsuites": ({"name", "time", "tests", "failures", "errors", "skipped"}, "(testsuite )*"),
    "testsuite": (
        {"name", "timestamp", "time", "tests", "failures", "errors", "skipped"},
        "properties (testcase )+",
    ),
    "properties": (set(), "(property )*"),
    "property": ({"name", "value"}, ""),
    "testcase": ({"name", "classname", "time"}, "(failure |error |skipped )?(system-out )?"),
    "failure": ({"message", "type"}, ""),
    "error": ({"message", "type"}, ""),
    "skipped": ({"message"}, ""),
    "system-out": (set(), ""),
}


def check(element: ElementTree.Element) -> None:
    attributes, children = FORM[element.tag]
    assert set(element.attrib) == attributes, element.tag
    assert re.fullmatch(children + " ?", "".join(f"{child.tag} " for child in element)), element.tag
    for name in {"tests", "failures", "errors", "skipped"} & set(element.attrib):
        assert element.attrib[name].isdigit()
    if "time" in attributes:
        assert float(element.attrib["time"]) >= 0
    for child in element:
        check(child)


@pytest.mark.parametrize("made", [sample_report(), good_report(), hostile_report(), report(), report(FAILED)])
def test_it_has_the_form_that_readers_take(made: Report) -> None:
    root = ElementTree.fromstring(to_junit(made))
    assert root.tag == "testsuites"
    check(root)


def test_counts_are_those_of_the_cases() -> None:
    made = sample_report()
    root = ElementTree.fromstring(to_junit(made))
    for element in (root, *root.iter("testsuite")):
        assert int(element.attrib["tests"]) == len(list(element.iter("testcase")))
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.attrib[count]) == len(list(element.iter(tag)))
    assert [root.attrib[name] for name in ("tests", "failures", "errors", "skipped")] == ["175", "2", "2", "26"]
    assert [suite.attrib["name"] for suite in root] == [
        "opencode chat", "opencode messages", "codex responses", "pi chat", "hermes chat", "hermes chat in-process",
        "kilo chat",
    ]  # fmt: skip


def case(*cells: object) -> ElementTree.Element:
    found = ElementTree.fromstring(to_junit(report(*cells))).find(".//testcase")  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_failure_tells_its_findings_with_their_diffs() -> None:
    failed = case(FAILED)
    assert failed.attrib == {"name": "tool-use", "classname": "conformance.codex responses", "time": "23.750"}
    failure = failed.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "message-changed", "type": "message-changed"}
    assert '\n-  {"role": "tool", "tool_call_id": "<id 7>", "content": "total 12\\r"},\n' in (failure.text or "")


def test_what_was_not_run_is_an_error_and_never_a_pass() -> None:
    error = case(NOT_RUN).find("error")
    assert error is not None
    assert error.attrib == {"message": "codex 0.98.0 could not be installed: no network", "type": "not-run"}


def test_what_does_not_apply_is_skipped() -> None:
    skipped = case(replace(NOT_RUN, verdict="not-applicable", reason="no titles")).find("skipped")
    assert skipped is not None
    assert skipped.attrib == {"message": "no titles"}


def test_a_pass_tells_its_figures() -> None:
    passed = case(cell())
    assert [child.tag for child in passed] == ["system-out"]
    assert passed[0].text == "13 of 13 requests byte-equal; body bytes off 623,551, on 30,168 (20.7x)"


def test_a_suite_tells_versions_and_command() -> None:
    root = ElementTree.fromstring(to_junit(report(cell())))
    properties = {element.attrib["name"]: element.attrib["value"] for element in root.iter("property")}
    assert properties["agent version"] == "0.98.0"
    assert properties["command"] == "history-delta conformance --agents all --jobs 2"
    assert root[0].attrib["timestamp"] == "2026-03-01T09:30:00"


def test_characters_that_no_xml_may_hold_are_escaped() -> None:
    text = to_junit(hostile_report()).decode()
    assert not re.search("[^\\t\\n\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]", text)
    failure = ElementTree.fromstring(text.encode()).find(".//failure")
    assert failure is not None
    assert r"</script><script>alert(1)" in (failure.text or "")
    assert r"\x1b[31m\x00\x08\r\u202egnirts\u2066 \udc80 \ufffe" in (failure.text or "")
