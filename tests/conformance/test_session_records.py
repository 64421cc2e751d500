# SPDX-License-Identifier: Apache-2.0
"""What each driver reads of its agent's own record and token figures, and that chance has no part in it."""

import json
import sqlite3
from contextlib import closing

import pytest
from history_delta_conformance.agents import AGENTS, Task


@pytest.fixture
def task(tmp_path):
    task = Task("http://127.0.0.1:1", "chat", tmp_path / "workspace", "go", tmp_path / "run")
    task.home.mkdir(parents=True)
    task.stdout.touch()
    return task


@pytest.mark.parametrize("name", list(AGENTS))
def test_a_run_that_left_nothing(name, task):
    assert AGENTS[name].session_record(task)["stdout"] == ""
    assert not any(AGENTS[name].session_record(task).values())
    assert not any(AGENTS[name].usage(task).values())


OPENCODE_TABLES = {
    "session": ("id", "parent_id", "time_created"),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "session_id", "data"),
}


@pytest.mark.parametrize(("name", "file"), [("opencode", "xdg-data/opencode/opencode.db"), ("kilo", "kilo.db")])
def test_sessions_of_opencode_and_kilo_are_apart_and_their_parts_in_the_order_of_their_ids(name, file, task):
    tables = {
        "session": [("ses_z", None, 1), ("ses_a", "ses_z", 2)],
        "message": [("msg_2", "ses_z", '{"role": "assistant"}'), ("msg_1", "ses_z", "{}"), ("msg_3", "ses_a", "{}")],
        "part": [
            (f"prt_{number}", message, "s", "{}") for number, message in [(9, "msg_3"), (4, "msg_2"), (3, "msg_2")]
        ],
    }
    write_database(task.home / file, OPENCODE_TABLES, tables)
    record = AGENTS[name].session_record(task)
    first, second = lines(record["session-1"]), lines(record["session-2"])
    assert [next(iter(entry)) for entry in first] == ["session", "message", "message", "part", "part"]
    assert [next(iter(entry.values()))["id"] for entry in first] == ["ses_z", "msg_1", "msg_2", "prt_3", "prt_4"]
    assert first[2]["message"]["data"] == {"role": "assistant"}
    assert [next(iter(entry.values()))["id"] for entry in second] == ["ses_a", "msg_3", "prt_9"]


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_tools_that_ran_at_the_same_time_are_in_the_order_of_their_calls(name, task):
    printed = [{"type": "tool_use", "part": {"callID": call}} for call in ("call_2", "call_1")]
    tokens = [{"type": "step_finish", "part": {"tokens": {"input": number}}} for number in (7, 8)]
    print_lines(task, [*printed, *tokens])
    record = lines(AGENTS[name].session_record(task)["stdout"])
    assert [entry["part"].get("callID") for entry in record] == ["call_1", "call_2", None, None]
    assert AGENTS[name].usage(task) == {"steps": [{"input": 7}, {"input": 8}]}


def test_codex_numbers_and_prints_commands_as_chance_has_it_and_the_record_has_them_by_what_they_are(task):
    def event(item, kind, command):
        return {"type": f"item.{kind}", "item": {"id": item, "type": "command_execution", "command": command}}

    together = [("1", "started", "ls"), ("2", "started", "cat"), ("2", "completed", "cat"), ("1", "completed", "ls")]
    in_turn = [("1", "started", "cat"), ("1", "completed", "cat"), ("2", "started", "ls"), ("2", "completed", "ls")]
    records = []
    for order in (together, in_turn):
        events = [{"type": "turn.started"}, *(event(*entry) for entry in order)]
        print_lines(task, [*events, {"type": "turn.completed", "usage": {"input_tokens": 5}}])
        records.append(lines(AGENTS["codex"].session_record(task)["stdout"]))
    for record in records:
        told = [(entry["type"], entry["item"]["command"]) for entry in record[1:-1]]
        assert told == [(f"item.{kind}", command) for command in ("cat", "ls") for kind in ("started", "completed")]
    assert AGENTS["codex"].usage(task) == {"turns": [{"input_tokens": 5}]}


def test_codex_keeps_history_and_events_and_the_record_has_them_one_after_the_other(task):
    outputs = [{"type": "response_item", "payload": {"call_id": call}} for call in ("c1", "c2")]
    ends = [
        {"type": "event_msg", "payload": {"item": {"type": "CommandExecution", "id": call}}} for call in ("c1", "c2")
    ]
    records = set()
    for number, order in enumerate(([*ends, *outputs], [ends[1], outputs[0], ends[0], outputs[1]])):
        file = task.home / "codex" / "sessions" / "2026" / f"rollout-{number}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps({"ordinal": at} | entry) + "\n" for at, entry in enumerate(order)))
        records.add(AGENTS["codex"].session_record(task)[f"session-{number + 1}"])
    [record] = records
    assert lines(record) == [*outputs, *ends]


def test_pi_prints_progress_as_it_reads_it_and_the_record_has_none(task):
    usage = {"input": 3}
    events = [
        {"type": "message_start", "message": {"usage": {}}},
        {"type": "message_update", "message": {}},
        {"type": "tool_execution_end", "toolCallId": "call_2"},
        {"type": "tool_execution_update", "toolCallId": "call_1"},
        {"type": "tool_execution_end", "toolCallId": "call_1"},
        {"type": "message_end", "message": {"role": "assistant", "usage": usage}},
        {"type": "message_end", "message": {"role": "user"}},
    ]
    print_lines(task, events)
    sessions = task.folder / "sessions"
    sessions.mkdir()
    (sessions / "2026_x.jsonl").write_text('{"type":"session"}\n')
    record = AGENTS["pi"].session_record(task)
    assert lines(record["stdout"]) == [events[4], events[2], *events[5:]]
    assert record["session-1"] == '{"type":"session"}\n'
    assert AGENTS["pi"].usage(task) == {"messages": [usage]}


HERMES_TABLES = {
    "sessions": ("id", "title"),
    "messages": ("id", "session_id", "content"),
    "session_model_usage": ("session_id", "input_tokens"),
}


def test_sessions_of_hermes_are_apart_with_their_usage_and_messages(task):
    tables = {
        "sessions": [("2026_b", "main"), ("2026_a", "sub")],
        "messages": [(2, "2026_b", "second"), (1, "2026_b", "first"), (3, "2026_a", '{"output": "x"}')],
        "session_model_usage": [("2026_b", 9)],
    }
    write_database(task.home / "hermes" / "state.db", HERMES_TABLES, tables)
    (task.folder / "usage.json").write_text('{"input_tokens": 9}')
    record = AGENTS["hermes"].session_record(task)
    assert [next(iter(entry)) for entry in lines(record["session-1"])] == ["session", "usage", "message", "message"]
    assert [entry["message"]["content"] for entry in lines(record["session-1"])[2:]] == ["first", "second"]
    assert lines(record["session-2"])[1]["message"]["content"] == {"output": "x"}
    assert AGENTS["hermes"].usage(task) == {"input_tokens": 9}


def test_hermes_as_a_library_leaves_its_result(task):
    result = {"messages": [{"role": "user"}], "input_tokens": 9, "api_calls": 2, "completed": True, "base_url": "x"}
    (task.folder / "result.json").write_text(json.dumps(result))
    assert lines(AGENTS["hermes-library"].session_record(task)["session-1"]) == [{"role": "user"}]
    assert AGENTS["hermes-library"].usage(task) == {"input_tokens": 9, "api_calls": 2, "completed": True}


def write_database(file, columns, tables):
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        for name, found in tables.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(columns[name])})")
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns[name]))})", found)
        connection.commit()


def print_lines(task, events):
    task.stdout.write_text("".join(json.dumps(event) + "\n" for event in events))


def lines(text):
    return [json.loads(line) for line in text.splitlines()]
