# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from history_delta_conformance.report import write
from history_delta_conformance.report.document import from_json, to_json
from history_delta_conformance.report.html import to_html
from history_delta_conformance.report.junit import to_junit
from history_delta_conformance.report.markdown import to_markdown
from history_delta_conformance.report.write import write_report
from support.sample_report import good_report, hostile_report, sample_report


def test_all_forms_are_written_into_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    written = write_report(sample_report(), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "report.html", "report.json", "report.md"]
    assert sorted(written) == sorted(folder.iterdir())
    made = from_json((folder / "report.json").read_bytes())
    assert made == sample_report()
    assert (folder / "report.md").read_text(encoding="utf-8") == to_markdown(made)
    assert (folder / "junit.xml").read_bytes() == to_junit(made)
    assert (folder / "report.html").read_text(encoding="utf-8") == to_html(made)


def test_an_older_report_is_replaced(tmp_path: Path) -> None:
    write_report(hostile_report(), tmp_path)
    write_report(good_report(), tmp_path)
    assert (tmp_path / "report.json").read_bytes() == to_json(good_report())
    assert len(list(tmp_path.iterdir())) == 4


def test_a_form_that_cannot_be_made_leaves_the_older_report_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(good_report(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def no_page(report: object) -> str:
        raise RuntimeError("no page")

    monkeypatch.setattr(write, "to_html", no_page)
    with pytest.raises(RuntimeError, match="no page"):
        write_report(sample_report(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_cannot_be_replaced_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "junit.xml" / "in-the-way").mkdir(parents=True)
    with pytest.raises(OSError, match=r"junit\.xml"):
        write_report(good_report(), tmp_path)
    assert not [path.name for path in tmp_path.iterdir() if "partial" in path.name]
