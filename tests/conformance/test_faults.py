# SPDX-License-Identifier: Apache-2.0
"""Which fault befalls a request, and where in the events of an answer it acts: decided without any I/O."""

import pytest
from history_delta_conformance.scripted_model import chat, messages, responses
from history_delta_conformance.scripted_model.faults import Befallen, course, fault_of, halves, split_in_character
from history_delta_conformance.scripted_model.reply import Reply, ToolCall, Usage, argument_pieces
from history_delta_conformance.scripted_model.scenario import Fault
from history_delta_conformance.scripted_model.sse import with_pings

CALLS = (ToolCall("call_1", "bash", '{"command": "a\\nb"}'), ToolCall("call_2", "bash", '{"command": "second"}'))
REPLY = Reply("id", "m", "two words — é", "some thought", CALLS, Usage(10, 20))
ENCODERS = {"chat": chat, "responses": responses, "messages": messages}
FINAL = {"chat": b'"finish_reason":"tool_calls"', "responses": b"response.completed", "messages": b"message_delta"}


@pytest.fixture(params=list(ENCODERS))
def dialect(request):
    return request.param


@pytest.fixture
def events(dialect):
    encoder = ENCODERS[dialect]
    return with_pings(encoder.stream(REPLY, {"stream_options": {"include_usage": True}}), encoder.PING)


def sent(plan):
    return b"".join(piece.data for piece in plan.pieces)


def whole(events):
    return b"".join(event.data for event in events)


def test_without_a_fault_everything_is_sent_to_its_end(events):
    plan = course(events)
    assert sent(plan) == whole(events)
    assert (plan.ending, plan.length) == ("complete", None)
    assert not any(piece.silence for piece in plan.pieces)


def test_characters_of_several_bytes_are_sent_in_two_writes(events):
    cut = [piece for piece in course(events).pieces if piece.data[-1] >= 0xC0]
    assert cut
    for piece in cut:
        with pytest.raises(UnicodeDecodeError):
            piece.data.decode()


@pytest.mark.parametrize("text", ["é", "aé", "日本語", "👩‍👩‍👧 x", "x", ""])
def test_a_split_loses_nothing_and_parts_the_first_such_character(text):
    parts = split_in_character(text.encode())
    assert b"".join(parts) == text.encode()
    assert len(parts) == (1 if text.isascii() else 2)


def test_a_cut_behind_the_first_token(events):
    data = sent(course(events, Fault(1, "cut", after="first-token")))
    assert b"some" in data
    assert b"thought" not in data.partition(b"some")[2]
    assert whole(events).startswith(data)


def test_a_cut_behind_the_text(events, dialect):
    data = sent(course(events, Fault(1, "cut", after="text")))
    assert "é".encode() in data
    assert b"bash" not in data
    if dialect == "responses":
        assert data.count(b"event: response.output_item.done") == 2


def test_a_cut_behind_a_tool_call_keeps_the_whole_of_it_and_nothing_of_the_next(events, dialect):
    plan = course(events, Fault(1, "cut", after="tool-call"))
    data = sent(plan)
    assert plan.ending == "cut"
    assert data.count(b'"name":"bash"') >= 1
    assert b"second" not in data
    assert FINAL[dialect] not in data
    pieces = list(argument_pieces(CALLS[0].arguments))
    assert data.count(b'"arguments":"') + data.count(b'"partial_json":') + data.count(b"arguments.delta") >= len(pieces)
    last = {
        "chat": pieces[-1].replace('"', '\\"').encode(),
        "responses": b"event: response.output_item.done",
        "messages": b"event: content_block_stop",
    }
    assert last[dialect] in data.rpartition(b"\n\n")[0].rpartition(b"\n\n")[2]


def test_no_final_event_leaves_out_what_ends_an_answer_and_no_more(events, dialect):
    plan = course(events, Fault(1, "no-final-event"))
    assert plan.ending == "complete"
    assert FINAL[dialect] in whole(events)
    assert FINAL[dialect] not in sent(plan)
    assert b"[DONE]" not in sent(plan)
    assert b"message_stop" not in sent(plan)
    assert b"second" in sent(plan)


def test_short_length_announces_everything_and_ends_before_it(events):
    plan = course(events, Fault(1, "short-length", after="text"))
    assert plan.length == len(whole(events)) > len(sent(plan))
    assert plan.ending == "cut"


def test_a_stall_is_one_silence_at_its_place(events):
    plan = course(events, Fault(1, "stall", after="text", seconds=1.5))
    assert sent(plan) == whole(events)
    assert [piece.silence for piece in plan.pieces if piece.silence] == [1.5]
    index = next(number for number, piece in enumerate(plan.pieces) if piece.silence)
    before = b"".join(piece.data for piece in plan.pieces[: index + 1])
    assert before == sent(course(events, Fault(1, "cut", after="text")))


def test_a_drip_is_tiny_pieces_over_all_of_its_time(events):
    plan = course(events, Fault(1, "drip", seconds=3))
    assert sent(plan) == whole(events)
    assert len(plan.pieces) > 50
    assert max(len(piece.data) for piece in plan.pieces) < 100
    assert sum(piece.silence for piece in plan.pieces) == pytest.approx(3)


@pytest.mark.parametrize("after", ["text", "tool-call"])
def test_where_the_place_is_not_in_the_answer_the_fault_comes_before_its_end(after):
    document = b'{"choices": []}'
    for fault in (Fault(1, "cut", after=after), Fault(1, "no-final-event")):
        assert sent(course(halves(document), fault)) == document[:7]


def test_a_step_fails_as_often_as_its_faults_say_and_one_fault_after_the_other():
    twice, once = Fault(3, "status", times=2), Fault(3, "cut")
    assert [fault_of([twice, once], request) for request in range(1, 5)] == [twice, twice, once, None]


def test_requests_are_counted_for_each_step_of_each_conversation():
    main, helper = Fault(2, "cut"), Fault(2, "reset", conversation="helper")
    befallen = Befallen([main, helper])
    assert befallen.next("", 0) is None
    assert befallen.next("", 1) is None
    assert befallen.next("helper", 2) is helper
    assert befallen.next("helper", 2) is None
    assert befallen.next("", 2) is main
    assert befallen.next("", 2) is None
