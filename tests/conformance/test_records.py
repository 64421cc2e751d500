# SPDX-License-Identifier: Apache-2.0
"""Reading agents' records: databases without writing to them, lines as lines, order without chance."""

import sqlite3
from contextlib import closing

import pytest
from history_delta_conformance.agents.records import entries_of, json_lines_text, json_objects, rows, steadied, text_of


def test_rows_are_read_while_another_still_writes_and_the_folder_stays_as_it_is(tmp_path):
    database = tmp_path / "odd #1?.db"
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE message (id TEXT, data TEXT, note TEXT)")
        writer.execute("""INSERT INTO message VALUES ('m', '{"a": [1, "é"]}', '{no json')""")
        writer.commit()
        before = {path.name for path in tmp_path.iterdir()}
        assert rows(database, "SELECT * FROM message WHERE id = ?", "m") == [
            {"id": "m", "data": {"a": [1, "é"]}, "note": "{no json"}
        ]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            rows(database, "DELETE FROM message")
        assert {path.name for path in tmp_path.iterdir()} == before


def test_no_database_no_rows_and_none_is_made(tmp_path):
    assert rows(tmp_path / "missing.db", "SELECT 1") == []
    assert list(tmp_path.iterdir()) == []


def test_only_a_line_feed_ends_a_line(tmp_path):
    file = tmp_path / "lines"
    file.write_bytes('{"a": "x\u2028y\\r"}\nnoise\r\n{broken\n[1]\n'.encode())
    assert entries_of(file) == [{"a": "x\u2028y\r"}, "noise\r", "{broken", "[1]"]
    assert json_objects(file) == [{"a": "x\u2028y\r"}]
    assert text_of(tmp_path / "missing") == ""


def test_lines_keep_their_keys_in_order():
    assert json_lines_text([{"b": 1, "a": "é"}, "text"]) == '{"b": 1, "a": "é"}\n"text"\n'


def test_what_has_a_place_is_sorted_among_its_neighbours_alone():
    def entry(name, place=None):
        return {"name": name, "place": place}

    mixed = [entry("x"), entry("c", 3), entry("a", 1), "noise", entry("b", 2), entry("y"), entry("d", 0), entry("e", 0)]
    ordered = steadied(mixed, lambda found: found["place"])
    assert [found if isinstance(found, str) else found["name"] for found in ordered] == [*"xac", "noise", *"byde"]
