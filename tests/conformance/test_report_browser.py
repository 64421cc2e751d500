# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real browser: what a person sees and does."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from history_delta_conformance.report.html import MARKS, to_html
from history_delta_conformance.report.results import Finding, Report
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from support.needs import needs
from support.sample_report import SCENARIOS, calls, cell, good_report, hostile_report, report, sample_report

DESKTOP, PHONE = (1280, 900), (400, 800)
FAILED = "cell-drop-during-codex-responses"
PASSED = "cell-tool-use-codex-responses"
# WCAG 2's contrast of an element's text with what is painted behind it.
CONTRAST = """
const rgb = colour => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const behind = element => {
  for (; element; element = element.parentElement) {
    const colour = rgb(getComputedStyle(element).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
};
const [a, b] = [light(rgb(getComputedStyle(arguments[0]).color)), light(behind(arguments[0]))];
return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
"""
IN_VIEW = """
const box = arguments[0].getBoundingClientRect();
return box.height > 0 && box.top >= 0 && box.top < innerHeight - 40 && arguments[0].checkVisibility();
"""


class Browser:
    """A chromium of its own, that knows nothing of the network."""

    def __init__(self, chromium: str, driver: str, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self._folder = folder

    def close(self) -> None:
        self.driver.quit()

    def show(self, made: Report, size: tuple[int, int] = DESKTOP, scheme: str = "light", at: str = "") -> None:
        path = self._folder / "report.html"
        path.write_text(to_html(made), encoding="utf-8")
        self.resize(size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)  # what was before
        self.driver.get(path.as_uri() + at)

    def resize(self, size: tuple[int, int]) -> None:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def comes_into_view(self, selector: str) -> bool:
        found = self.one(selector)
        return bool(WebDriverWait(self.driver, 10).until(lambda _: self.script(IN_VIEW, found)))

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        return [
            entry["message"] for entry in self.driver.get_log("performance") if "requestWillBeSent" in entry["message"]
        ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    needs(chromium and driver, "chromium and chromedriver")
    assert chromium is not None
    assert driver is not None
    browser = Browser(chromium, driver, tmp_path_factory.mktemp("page"))
    yield browser
    browser.close()


def matrix(browser: Browser) -> dict[str, list[str]]:
    """What stands in each row of the matrix, as it can be seen."""
    rows = browser.script(
        "return [...document.querySelectorAll('.matrix tbody tr')].map(row => [...row.cells].map("
        "field => field.checkVisibility() && field.getBoundingClientRect().height > 0 ? field.innerText : ''))"
    )
    return {row[0]: row[1:] for row in rows}


def test_title_and_verdict_meet_the_eye(browser: Browser) -> None:
    browser.show(sample_report())
    assert browser.driver.title == "Not proved · Conformance report · history-delta"
    assert browser.one("h1").text == "Conformance report"
    verdict = browser.one("p.verdict")
    assert verdict.text.startswith("✗\nNot proved: of 149 comparisons with 5 agents, 2 failed, 2 not run;")
    assert browser.script(IN_VIEW, verdict)
    browser.show(good_report())
    assert browser.driver.title.startswith("Proved")
    assert browser.one("p.verdict").text.startswith("✓\nProved: switching the transport on changed nothing")


def test_every_cell_of_the_matrix_is_seen_with_its_mark(browser: Browser) -> None:
    made = sample_report()
    browser.show(made)
    heads = [" ".join(head.text.split()) for head in browser.all(".matrix thead th")]
    assert heads[0] == "scenario"
    seen = matrix(browser)
    assert list(seen) == list(SCENARIOS)
    for expected in made.cells:
        shown = seen[expected.scenario][heads.index(expected.row) - 1]
        assert shown[0] == MARKS[expected.verdict], expected.name
    assert seen["tool-use"][6].startswith("✓~")
    right = browser.script(
        "return Math.max(...[...document.querySelectorAll('.matrix td')].map(e=>e.getBoundingClientRect().right))"
    )
    assert right <= DESKTOP[0]


def test_a_click_on_a_failed_cell_brings_its_diff_into_view(browser: Browser) -> None:
    browser.show(sample_report())
    assert not browser.script(IN_VIEW, browser.one(f"#{FAILED} .diff"))
    browser.one(f'.matrix a[href="#{FAILED}"]').click()
    assert browser.comes_into_view(f"#{FAILED} .diff")
    assert "total 12\\r" in browser.one(f"#{FAILED} del").text
    assert "drop-during" in browser.driver.current_url


def test_a_click_on_a_passed_cell_opens_it(browser: Browser) -> None:
    browser.show(sample_report())
    assert not browser.one(f"#{PASSED}").is_displayed()
    browser.one(f'.matrix a[href="#{PASSED}"]').click()
    assert browser.comes_into_view(f"#{PASSED}")


def test_the_keyboard_does_as_well(browser: Browser) -> None:
    browser.show(sample_report())
    link = browser.one(f'.matrix a[href="#{PASSED}"]')
    browser.script("arguments[0].focus()", link)
    assert browser.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    link.send_keys(Keys.ENTER)
    assert browser.comes_into_view(f"#{PASSED}")
    summary = browser.one(f"details:has(> #{PASSED}) > summary")
    summary.send_keys(Keys.ENTER)
    WebDriverWait(browser.driver, 10).until(lambda _: not browser.one(f"#{PASSED}").is_displayed())
    assert browser.script("return [...document.querySelectorAll('.scroll, pre')].every(e => e.tabIndex === 0)")


def test_only_what_wants_a_look_can_be_left(browser: Browser) -> None:
    browser.show(sample_report())
    browser.one("#only-wanting").click()
    left = [found for found in browser.all("details.cell") if found.is_displayed()]
    assert sorted(found.get_attribute("class") for found in left) == ["cell failed"] * 2 + ["cell not-run"] * 2
    assert [head.text for head in browser.all(".scenario h3") if head.text] == ["drop-during", "stall", "drip"]
    browser.one(f'.matrix a[href="#{PASSED}"]').click()
    assert browser.comes_into_view(f"#{PASSED}")


def test_bars_are_as_tall_as_their_figures(browser: Browser) -> None:
    off, on = calls(20, first=100_000, added=40_000)
    browser.show(report(cell(off_calls=off, calls=on)), at=f"#{PASSED}")
    for which, figures in (("off", [c.body_bytes for c in off]), ("on", [c.sent_bytes for c in on])):
        heights = browser.script(
            "return [...document.querySelectorAll('.chart .linear rect.' + arguments[0])].map(e => e.getBBox().height)",
            which,
        )
        assert len(heights) == 20
        for height, figure in zip(heights, figures, strict=True):
            assert height == pytest.approx(150 * figure / off[-1].body_bytes, abs=0.51)
    told = [title.get_attribute("textContent") for title in browser.all(".chart title")]
    assert told[0] == f"call 1, tool-use 1: off {off[0].body_bytes:,} B, on {on[0].sent_bytes:,} B (self-contained)"
    axes = [axis.text for axis in browser.all(".chart .axis")]
    assert axes == ["bytes of the request body", "model call"]
    assert any(tick.text.endswith("kB") for tick in browser.all(".chart .linear .tick"))


def test_the_charts_can_be_logarithmic(browser: Browser) -> None:
    browser.show(sample_report(), at=f"#{FAILED}")

    def seen(scale: str) -> bool:
        return browser.one(f"#{FAILED} .{scale} rect").is_displayed()

    assert (seen("linear"), seen("logarithmic")) == (True, False)
    browser.one("#log-scale").click()
    assert (seen("linear"), seen("logarithmic")) == (False, True)


def test_figures_of_each_call_can_be_read(browser: Browser) -> None:
    browser.show(report(cell()), at=f"#{PASSED}")
    browser.one(f"#{PASSED} .calls summary").click()
    lines = [row.text for row in browser.all(f"#{PASSED} .calls table")[0].find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert len(lines) == 12
    assert lines[0].startswith("1 tool-use 1 self-contained 20,000 6,966 2.9x")


@pytest.mark.parametrize("made", [sample_report(), hostile_report(), report()], ids=["sample", "hostile", "empty"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_never_scrolls_sideways(browser: Browser, made: Report, size: tuple[int, int]) -> None:
    browser.show(made, size)
    browser.script("for (const found of document.querySelectorAll('details')) found.open = true")
    assert browser.script("return document.documentElement.scrollWidth") == size[0]
    wide = browser.script(
        "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []


def test_a_phone_can_reach_the_last_column(browser: Browser) -> None:
    browser.show(sample_report(), PHONE)
    last = browser.one(".matrix tbody tr td:last-child a")
    browser.script("arguments[0].scrollIntoView({inline: 'nearest', block: 'center'})", last)
    box = browser.script("return arguments[0].getBoundingClientRect()", last)
    assert 0 < box["left"] < box["right"] <= PHONE[0]
    head = browser.script("return document.querySelector('.matrix tbody th').getBoundingClientRect()")
    assert head["left"] >= 0  # the scenario's name stays where it is


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(browser: Browser, scheme: str) -> None:
    browser.show(sample_report(), scheme=scheme, at=f"#{FAILED}")
    ground = browser.script("return getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(246, 247, 249)", "dark": "rgb(16, 20, 26)"}[scheme]
    for selector in (
        "h1", "p.verdict", ".tiles dt", ".tiles dd", "nav a", ".legend", ".matrix th", ".matrix td.passed .mark",
        ".matrix td.passed small", ".matrix td.failed .mark", ".matrix td.failed small", ".matrix td.not-run .mark",
        ".matrix td.not-applicable .mark", ".muted", f"#{FAILED} ins", f"#{FAILED} del", f"#{FAILED} .hunk",
        f"#{FAILED} .file", f"#{FAILED} .same", ".cell.failed .word", ".cell.passed .figure", ".calls summary",
        "footer p",
    ):  # fmt: skip
        assert browser.script(CONTRAST, browser.one(selector)) >= 4.5, selector


@pytest.mark.parametrize("made", [sample_report(), hostile_report(), report()], ids=["sample", "hostile", "empty"])
def test_the_page_asks_for_nothing_and_complains_of_nothing(browser: Browser, made: Report) -> None:
    browser.show(made)
    assert browser.complaints() == []
    assert [message for message in browser.requests() if "report.html" not in message and "data:," not in message] == []
    assert browser.script("return performance.getEntriesByType('resource').length") == 0


def test_hostile_text_is_inert_and_can_be_read(browser: Browser) -> None:
    browser.show(hostile_report())
    assert browser.script("return document.querySelectorAll('script, img, iframe, object').length") == 0
    assert browser.script("return document.title").startswith("Not proved")  # an alert that stood open would raise
    diff = browser.one("details.failed pre.diff")
    assert "</pre></td></table></script><script>alert(1)</script>" in diff.text
    assert r"\x1b[31m\x00\x08\r\u202egnirts\u2066 \udc80 \ufffe" in diff.text
    assert "{{ 7*7 }} {% x %} &amp;" in diff.text


def test_a_direction_ends_with_its_line(browser: Browser) -> None:
    diff = "-עברית abc\n+עברית abd\n plain\n"
    browser.show(report(cell(verdict="failed", findings=(Finding("requests", "text", "differs", diff),))))
    lefts = browser.script(
        "return [...document.querySelectorAll('.diff > *')].map(e => {const r = document.createRange();"
        "r.setStart(e.firstChild, 0); r.setEnd(e.firstChild, 1); return r.getBoundingClientRect().left})"
    )
    assert len(set(lefts)) == 1  # the mark of every line stands at its left


def test_print_shows_whole_diffs_and_no_controls(browser: Browser) -> None:
    browser.show(sample_report())
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not browser.one(".controls").is_displayed()
        assert not browser.one("nav").is_displayed()
        assert browser.one(f"#{FAILED} .diff").is_displayed()
        assert browser.script(f"return getComputedStyle(document.querySelector('#{FAILED} .diff')).maxHeight") == "none"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
