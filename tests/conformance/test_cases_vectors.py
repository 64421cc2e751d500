# SPDX-License-Identifier: Apache-2.0
"""The vectors as cases read them: all of them, with the octets that they describe."""

import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from history_delta_conformance.cases import vectors
from history_delta_conformance.cases.base import NotRun
from history_delta_conformance.cases.server.vectors import FAMILIES, vectors_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", FAMILIES)
def test_every_vector_is_in_one_family_and_no_family_is_empty(file: str) -> None:
    families = [[vector["id"] for vector in vectors_of(file, family)] for family in FAMILIES[file]]
    assert all(families)
    seen = Counter(name for family in families for name in family)
    assert seen == Counter(vector["id"] for vector in vectors.read(file)["cases"])
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("file", FAMILIES)
def test_octets_are_those_that_are_described(file: str) -> None:
    document = vectors.read(file)
    steps = [step for vector in document["cases"] for step in vector.get("steps", [vector])]
    described = [step[name] for step in steps for name in ("body", "frame") if name in step]
    assert len(described) >= len(document["cases"])
    for each in described:
        octets = vectors.octets(each)
        assert (len(octets), hashlib.sha256(octets).hexdigest()) == (each["length"], each["sha256"])


def test_where_there_are_none_the_case_is_not_run(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv(vectors.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(NotRun, match=f"no vectors in {tmp_path}: {vectors.FOLDER_VARIABLE} names their folder"):
        vectors.folder()


def test_another_folder_may_be_named(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text("{}")
    monkeypatch.setenv(vectors.FOLDER_VARIABLE, str(tmp_path))
    assert vectors.folder() == tmp_path


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    """The package as an installer lays it out: data files beside lib/, told of by the record."""
    folder = tmp_path / "lib" / "python" / "site-packages"
    for package in ("protocol/history_delta_protocol", "conformance/history_delta_conformance"):
        shutil.copytree(ROOT / package, folder / Path(package).name)
    record = folder / "history_delta-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    (record.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: history-delta\nVersion: 0.1.0\n")
    for place, patterns in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "data-files"
    ].items():
        (tmp_path / place).mkdir(parents=True)
        for file in (file for pattern in patterns for file in ROOT.glob(pattern)):
            shutil.copy(file, tmp_path / place)
            with record.open("a") as lines:
                lines.write(f"../../../{place}/{file.name},,\n")
    return folder


def test_an_installed_package_has_all_of_them(site_packages: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(site_packages)!r}); from history_delta_conformance.cases import vectors"
    )
    command = [sys.executable, "-I", "-S", "-c", f"{script}; print(vectors.folder())"]
    found = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    assert found.is_relative_to(site_packages.parents[2] / "share")
    assert {file.name for file in found.iterdir()} == {f"{name}.json" for name in (*FAMILIES, "names")}
    for file in found.iterdir():
        assert file.read_bytes() == (ROOT / "protocol" / "vectors" / file.name).read_bytes()
