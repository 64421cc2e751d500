# SPDX-License-Identifier: Apache-2.0
"""Read by an independent Markdown parser, as GitHub would."""

import re

import pytest
from history_delta_conformance.report.markdown import code, escape, fenced, to_markdown
from history_delta_conformance.report.results import Report
from markdown_it import MarkdownIt
from msgspec.structs import replace
from support.sample_report import (
    DIFF,
    FAILED,
    HOSTILE,
    HOSTILE_DIFF,
    NOT_RUN,
    cell,
    good_report,
    hostile_report,
    report,
    sample_report,
)

PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def table(made: Report, first: str) -> list[list[str]]:
    """The rows of the table whose head starts with ``first``, as text."""
    for found in re.findall(r"<table>(.*?)</table>", PARSER.render(to_markdown(made)), re.DOTALL):
        lines = [
            re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr>(.*?)</tr>", found, re.DOTALL)
        ]
        if lines[0][0] == first:
            return lines
    raise AssertionError(f"no table {first}")


def test_the_verdict_comes_first() -> None:
    lines = to_markdown(good_report()).splitlines()
    assert lines[0] == "# Conformance report"
    assert lines[2].startswith("**Proved: switching the transport on changed nothing but the traffic in all 147")


def test_a_wide_matrix_has_scenarios_as_rows() -> None:
    head, *lines = table(sample_report(), "scenario")
    assert head == ["scenario", "opencode chat", "opencode messages", "codex responses", "pi chat", "hermes chat",
                    "hermes chat in-process", "kilo chat"]  # fmt: skip
    assert len(lines) == 25
    marks = {line[0]: line[1:] for line in lines}
    assert marks["tool-use"] == ["✅", "✅", "✅", "✅", "✅", "✅", "✅~"]
    assert marks["drop-during"] == ["✅", "–", "❌", "✅", "✅", "✅", "✅"]
    assert marks["stall"][3] == "⚠️"


def test_a_narrow_matrix_has_agents_as_rows() -> None:
    rendered = to_markdown(report(cell(), replace(FAILED, scenario="title")))
    assert "| agent | tool-use | title |\n| --- | :---: | :---: |\n| codex responses | ✅ | ❌ |\n" in rendered


def test_bytes_of_each_row_and_of_all() -> None:
    text = to_markdown(sample_report())
    assert "| codex responses | 25 | 383 | 382 | 30,162,609 | 872,972 | 34.6x | 4 min 41 s | 5 min 12 s |" in text
    assert "| **all** | 147 | 2,308 | 2,306 | 189,940,036 | 5,239,679 | 36.3x | 27 min 34 s | 30 min 38 s |" in text


def test_every_rule_is_told_with_its_reason_and_counts() -> None:
    assert ["<code>date</code>", "all", "system prompts hold today's date", "1,764", "1,764"] in table(
        sample_report(), "rule"
    )


def test_every_finding_is_told_in_full() -> None:
    text = to_markdown(report(FAILED))
    assert "### tool-use/codex responses" in text
    assert "**message-changed** in requests: request 7 (tool-use 7): message 14 differs" in text
    assert f"```diff\n{DIFF}```\n" in text


def test_what_was_not_run_says_why_and_so_does_what_does_not_apply() -> None:
    text = to_markdown(
        report(NOT_RUN, replace(NOT_RUN, scenario="title", verdict="not-applicable", reason="no titles"))
    )
    assert "- tool-use/codex responses: codex 0.98.0 could not be installed: no network" in text
    assert "- codex responses: no titles (title)" in text
    assert "Nothing was proved" in text


def test_off_against_off_is_told() -> None:
    text = to_markdown(sample_report())
    assert "7 cells were run twice with the transport off; in 1 of them the two runs differ" in text
    assert "### tool-use/kilo chat (off, off), passed, off against off differs" in text
    assert "## Off against off" not in to_markdown(report(cell()))


def test_the_order_of_the_cells_in_the_report_changes_nothing() -> None:
    made = sample_report()
    assert to_markdown(replace(made, cells=made.cells[::-1])) == to_markdown(made)


@pytest.mark.parametrize("made", [sample_report(), good_report(), hostile_report(), report(), report(FAILED)])
def test_it_is_one_document_that_ends_in_one_newline(made: Report) -> None:
    text = to_markdown(made)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text
    text.encode()


def test_hostile_text_marks_nothing_up() -> None:
    text = to_markdown(hostile_report())
    tokens = PARSER.parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    assert not {token.type for token in [*tokens, *inner]} & {
        "html_block",
        "html_inline",
        "image",
        "link_open",
        "em_open",
    }
    assert [token.content for token in tokens if token.type == "fence"] == [escape_free(HOSTILE_DIFF)] * 2
    assert [token.tag for token in tokens if token.type == "heading_open"].count("h1") == 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)


def test_hostile_text_opens_no_column() -> None:
    for found in re.findall(r"<table>.*?</table>", PARSER.render(to_markdown(hostile_report())), re.DOTALL):
        lines = re.findall(r"<tr>.*?</tr>", found, re.DOTALL)
        assert len({len(re.findall(r"<t[hd]", line)) for line in lines}) == 1


@pytest.mark.parametrize(
    "text", [HOSTILE, "# a", "- a", "1. a", "+", "a_b_c `d` **e** ~~f~~", "<b>", "[a](b)", "&lt;", "\\"]
)
def test_escaped_text_reads_as_it_is(text: str) -> None:
    opened, inline, closed = PARSER.parse(escape(text))
    assert (opened.type, closed.type) == ("paragraph_open", "paragraph_close")
    assert "".join(child.content for child in inline.children or ()).split() == escape_free(text).split()


@pytest.mark.parametrize("text", ["a", "`", "a``b", "``a`", "", " "])
def test_code_reads_as_it_is(text: str) -> None:
    (_, inline, _) = PARSER.parse(code(text))
    assert [(child.type, child.content.strip()) for child in inline.children or ()] == [("code_inline", text.strip())]


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    (token,) = PARSER.parse(fenced("a\n`````\nb", "diff"))
    assert (token.info, token.content) == ("diff", "a\n`````\nb\n")


@pytest.mark.parametrize("version", ["1.2.10", "0.98.0", "2026-03-01T09:30:00Z"])
def test_plain_figures_are_left_alone(version: str) -> None:
    assert escape(version) == version


def escape_free(text: str) -> str:
    return re.sub(r"[\x00\x08\x1b\r\u202e\u2066\udc80\ufffe\u200b]", lambda m: repr(m[0])[1:-1], text)
