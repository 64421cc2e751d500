# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_conformance.report.text import counted, duration, one_line, ratio, size, visible


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31m\x00\x7f\x9b", r"\x1b[31m\x00\x7f\x9b"),
        ("a\r\nb\tc", "a\\r\nb\tc"),
        ("\u202eevil\u2066\u200f", r"\u202eevil\u2066\u200f"),
        ("\udc80\ud800", r"\udc80\ud800"),
        ("\ufffe\uffff\ufeff\u200b\u2028", r"\ufffe\uffff\ufeff\u200b\u2028"),
        ("\U000e0041", r"\U000e0041"),
        ("naïve 数 👍🏽 עברית \U0010ffff", "naïve 数 👍🏽 עברית \U0010ffff"),
    ],
)
def test_what_hides_or_misleads_is_shown_as_an_escape(raw: str, shown: str) -> None:
    assert visible(raw) == shown


def test_what_is_visible_stays_so_when_shown_again() -> None:
    every = "".join(map(chr, range(0x11000)))
    assert visible(visible(every)) == visible(every)
    visible(every).encode()


def test_one_line() -> None:
    assert one_line("  a\n\n b\r\n") == r"a b\r"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345, "12.3 kB"), (99_960, "100 kB"), (999_499, "999 kB"),
     (999_500, "1.0 MB"), (2_500_000_000, "2.5 GB"), (10**16, "10000 TB")],
)  # fmt: skip
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_ratios() -> None:
    assert (ratio(1230, 100), ratio(1, 0), ratio(0, 5)) == ("12.3x", "-", "-")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.2 s"), (59.94, "59.9 s"), (61, "1 min 01 s"), (119.6, "2 min 00 s"), (3_725, "1 h 02 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts() -> None:
    assert (counted(1, "cell"), counted(1200, "cell"), counted(2, "reply", "replies")) == (
        "1 cell",
        "1,200 cells",
        "2 replies",
    )
