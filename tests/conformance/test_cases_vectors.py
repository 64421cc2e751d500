# SPDX-License-Identifier: Apache-2.0
"""The vectors as cases read them: all of them, with the octets that they describe."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from history_delta_conformance.cases import vectors
from history_delta_conformance.cases.base import NotRun
from history_delta_conformance.cases.server.vectors import FAMILIES, vectors_of


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
