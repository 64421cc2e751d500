# SPDX-License-Identifier: Apache-2.0
"""The page's markup, without a browser; how it looks and behaves in one is in test_report_browser."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from history_delta_conformance.report.html import diff_lines, to_html
from history_delta_conformance.report.results import Report
from msgspec.structs import replace
from support.sample_report import FAILED, cell, good_report, hostile_report, report, sample_report

VOID = {"meta", "link", "input", "img", "br", "hr"}
REPORTS = [sample_report(), good_report(), hostile_report(), report(), report(FAILED)]


class Page(HTMLParser):
    """Elements with their attributes; it fails on one that is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(dict(attributes)) == len(attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def all(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


@pytest.mark.parametrize("made", REPORTS)
def test_elements_are_nested_as_they_should_be_and_links_lead_somewhere(made: Report) -> None:
    page = Page(to_html(made))
    ids = page.all("id")
    assert len(set(ids)) == len(ids)
    targets = page.all("href")
    assert {target for target in targets if target.startswith("#")} <= {f"#{name}" for name in ids}
    assert set(page.all("aria-labelledby")) <= set(ids)


@pytest.mark.parametrize("made", REPORTS)
def test_it_needs_nothing_else_and_runs_nothing(made: Report) -> None:
    text = to_html(made)
    page = Page(text)
    assert not {tag for tag, _ in page.elements} & {"script", "img", "iframe", "object", "embed", "base"}
    assert not [
        name for _, attributes in page.elements for name in attributes if name.startswith("on") or name == "src"
    ]
    assert {value for value in page.all("href") if not value.startswith("#")} == {"data:,"}
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_its_policy_allows_its_own_style_and_nothing_more() -> None:
    text = to_html(good_report())
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    policy = next(value for value in Page(text).all("content") if "default-src" in value)
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert "script" not in policy


def test_every_head_of_a_table_says_what_it_heads() -> None:
    for tag, attributes in Page(to_html(sample_report())).elements:
        if tag == "th":
            assert attributes.get("scope") in ("col", "row")


def test_no_character_hides_or_misleads() -> None:
    text = to_html(hostile_report())
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufffe\udc80]", text)
    assert r"\u202egnirts\u2066 \udc80 \ufffe" in text
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
    assert "{{ 7*7 }}" in text
    text.encode()


def test_cells_whose_names_look_alike_have_ids_of_their_own() -> None:
    page = Page(to_html(report(cell(scenario="a b"), cell(scenario="a/b"), cell(scenario="a-b"))))
    assert [name for name in page.all("id") if name.startswith("cell-")] == [
        "cell-a-b-codex-responses", "cell-a-b-codex-responses-2", "cell-a-b-codex-responses-3"
    ]  # fmt: skip


def test_the_order_of_the_cells_in_the_report_changes_nothing() -> None:
    made = sample_report()
    assert to_html(replace(made, cells=made.cells[::-1])) == to_html(made)


def test_lines_of_a_diff_by_their_kind() -> None:
    diff = "--- off\n+++ on\n@@ -1,2 +1,2 @@\n same\n--- gone\n+++ new\n\\ No newline\n"
    assert list(diff_lines(diff)) == [
        ("file", "--- off"), ("file", "+++ on"), ("hunk", "@@ -1,2 +1,2 @@"), ("same", " same"), ("del", "--- gone"),
        ("ins", "+++ new"), ("same", "\\ No newline"),
    ]  # fmt: skip


def test_a_diff_stands_there_line_by_line_as_it_is() -> None:
    text = to_html(report(FAILED))
    shown = re.search(r'<pre class="diff"[^>]*>(.*?)</pre>', text, re.DOTALL)
    assert shown is not None
    assert "<del>-  {&#34;role&#34;: &#34;tool&#34;" in shown[1]
    assert re.sub(r"<[^>]+>", "", shown[1]).count("\n") == FAILED.findings[0].diff.count("\n")
