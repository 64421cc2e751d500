# SPDX-License-Identifier: Apache-2.0
"""Reading single values: any window gives the same, and no value costs more than its bound, whatever it holds."""

import tracemalloc

import hostile_json
import pytest
import slow_reference
from history_delta_protocol import scan, values
from history_delta_protocol.values import MAX_MARKS, NotUnderstood, Values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def small_windows(monkeypatch):
    monkeypatch.setattr(scan, "_MEMBER_WINDOW", 5)
    monkeypatch.setattr(scan, "_MESSAGE_WINDOW", 5)
    monkeypatch.setattr(values, "_GROWTH", 2)


def split(body, key="messages"):
    try:
        found = scan.split(body, key)
    except NotUnderstood:
        return None
    return found.head_end, list(found.starts), list(found.ends)


def reference_split(body):
    try:
        found = slow_reference.split(body, "chat")
    except slow_reference.NotUnderstood:
        return None
    starts, ends, position = [], [], len(found.head)
    for separator, message in found.messages:
        starts.append(position + len(separator))
        position = starts[-1] + len(message)
        ends.append(position)
    return len(found.head), starts, ends


hostile = hostile_json.bodies("messages")


@given(hostile | hostile_json.damaged(hostile) | st.binary(max_size=60))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_small_windows_find_what_the_slow_reference_finds(small_windows, body):
    assert split(body) == reference_split(body)


@pytest.mark.parametrize("window", range(1, 20))
def test_a_value_cut_anywhere_by_the_window_is_read_whole(monkeypatch, window):
    for value in (b"1", b"12345", b"-1.25", b"0.5e+10", b"1E-7", b"-Infinity", b"NaN", b"true", rb'"a\\\"\u0041b"'):
        for rest in (b"", b",", b"]", b" ,2", b"x"):
            for before in (b"", b"1,", b'"ab",'):
                read = Values(before + value + rest, 9, window)
                if before:
                    read.read(0)
                assert read.read(len(before))[1] == len(before + value)
    assert Values(b'{"ab"', 9, window).read(1) == ("ab", 5)
    monkeypatch.setattr(scan, "_MESSAGE_WINDOW", window)
    assert scan.split(b'{"messages":[1.5,-2.5e+1,3]}', "messages").ends == [16, 24, 26]


def bytes_looked_at(monkeypatch):
    looked = []
    real = values._is_harmless

    def counting(region, levels):
        looked.append(len(region))
        return real(region, levels)

    monkeypatch.setattr(values, "_is_harmless", counting)
    return looked


def test_each_byte_is_looked_at_a_bounded_number_of_times(monkeypatch):
    """One message larger than many windows, then many small ones."""
    looked = []
    real = values._is_harmless
    monkeypatch.setattr(
        values, "_is_harmless", lambda region, levels: looked.append(len(region)) or real(region, levels)
    )
    body = b'{"messages":["' + b"x" * 5_000_000 + b'"' + b',"%s"' % (b"y" * 3000) * 1000 + b"]}"
    assert len(scan.split(body, "messages").ends) == 1001
    assert sum(looked) < 4 * len(body)


def test_an_appended_message_is_all_that_is_looked_at(monkeypatch):
    looked = []
    real = values._is_harmless
    monkeypatch.setattr(
        values, "_is_harmless", lambda region, levels: looked.append(len(region)) or real(region, levels)
    )
    body = b'{"messages":[' + b'"%s",' % (b"y" * 3000) * 1000 + b'1],"tail":"' + b"z" * 3_000_000 + b'"}'
    assert list(scan.iter_messages(body, body.index(b",1]"), 1000)) == [(body.index(b",1]") + 1, body.index(b"],"))]
    assert sum(looked) <= scan._MESSAGE_WINDOW


LARGE = 6_000_000
GREEDY = {
    "lists": b"[],",
    "objects": b"{},",
    "strings": b'"ab",',
    "numbers": b"0,",
    "members": b'{"a":0},',
    "lists of lists": b"[[[0]]],",
}


def peak_of(act):
    tracemalloc.start()
    try:
        made = act()
        return tracemalloc.get_traced_memory()[1], made
    finally:
        tracemalloc.stop()


def why_not(body):
    with pytest.raises(NotUnderstood) as caught:
        scan.split(body, "messages")
    return caught.value.reason


@pytest.mark.parametrize("unit", GREEDY.values(), ids=GREEDY.keys())
@pytest.mark.parametrize("frame", [b'{"messages":[[%s0]]}', b'{"x":[%s0],"messages":[]}', b'{"x":"%%","y":[%s'])
def test_a_value_of_millions_of_values_is_never_built(unit, frame):
    """The standard library's scanner would take ten seconds and 770 MB for 32 MB of lists."""
    body = frame % (unit * (LARGE // len(unit)))
    peak, why = peak_of(lambda: why_not(body))
    assert why == scan.TOO_MANY_VALUES
    assert peak < 64_000_000


def test_no_more_strings_are_cut_out_than_bounded():
    """A window that one long string has made large, and then strings without end."""
    body = b'{"messages":["' + b"x" * 3_000_000 + b'","y",' + b'"",' * 2_000_000
    peak, why = peak_of(lambda: why_not(body))
    assert why == scan.TOO_MANY_MESSAGES
    assert peak < 64_000_000


def calls_of_the_scanner(monkeypatch):
    sizes = []
    real = values._scan_value

    def scanning(text, position):
        sizes.append(len(text) - position)
        return real(text, position)

    monkeypatch.setattr(values, "_scan_value", scanning)
    return sizes


@pytest.mark.parametrize("unit", GREEDY.values(), ids=GREEDY.keys())
def test_many_messages_of_many_values_are_read_one_by_one(monkeypatch, unit):
    message = b"[" + unit * 5_000 + b"0]"
    sizes = calls_of_the_scanner(monkeypatch)
    body = b'{"messages":[' + b",".join([message] * 20) + b"]}"
    assert len(scan.split(body, "messages").ends) == 20
    assert max(sizes) <= scan._MESSAGE_WINDOW


def test_up_to_the_bound_a_value_is_read():
    inside = b"1," * ((MAX_MARKS - 3) // 1)
    assert len(scan.split(b'{"messages":[[%s1]]}' % inside, "messages").ends) == 1
    assert why_not(b'{"messages":[[%s1]]}' % (inside + b"1," * 10)) == scan.TOO_MANY_VALUES


def test_marks_in_strings_do_not_count():
    message = b'{"code":"' + b'[{},\\"[],' * 200_000 + b'"}'
    body = b'{"messages":[' + message + b"," + message + b"]}"
    assert len(scan.split(body, "messages").ends) == 2


def test_what_lies_behind_the_history_does_not_count():
    body = b'{"messages":[1,[2]],"x":[' + b"[]," * 1_000_000 + b"[" * 10_000
    assert len(scan.split(body, "messages").ends) == 2


def test_a_deep_message_is_told_from_its_shallow_neighbours():
    shallow, deep = hostile_json.nested(512), hostile_json.nested(513)
    found = []
    with pytest.raises(NotUnderstood) as caught:
        found.extend(scan.iter_messages(b"%s,%s,%s]" % (shallow, shallow, deep), 0))
    assert caught.value.reason == scan.TOO_DEEP
    steps = scan.iter_messages(b"%s,%s,%s]" % (shallow, shallow, deep), 0)
    assert [next(steps), next(steps)] == [(0, len(shallow)), (len(shallow) + 1, 2 * len(shallow) + 1)]


def test_a_long_string_of_escapes_before_a_deep_value_takes_one_step():
    """Walking mark by mark over the escapes of a string would take seconds."""
    body = b'{"messages":["' + b"\\\\" * 1_000_000 + b'",' + hostile_json.nested(600) + b"]}"
    steps = scan.iter_messages(body, 13)
    assert next(steps) == (13, body.index(b",["))
    with pytest.raises(NotUnderstood):
        next(steps)
    text = body.decode("latin-1")
    found = []
    real = values._next_mark
    values._check(text, 13, 512)
    try:
        values._next_mark = lambda *args: found.append(args) or real(*args)
        values._check(text, 13, 512)
    finally:
        values._next_mark = real
    assert len(found) == 1


def test_the_members_before_the_history_come_one_by_one():
    body = b'{"a":1, "b":[2] ,"messages":[3]}'
    assert list(scan.iter_to_history(body, "messages")) == [7, 17, 29]
    assert body[:29].endswith(b"[")
