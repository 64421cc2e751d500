# SPDX-License-Identifier: Apache-2.0
import itertools

import h11
import pytest
from history_delta_shim import http1
from history_delta_shim.http1 import CLOSED, NEED_DATA, Data, End, Request, Response
from hypothesis import given
from hypothesis import strategies as st

REQUEST = (
    b"POST /v1/x?a=%20b HTTP/1.1\r\nHost: h:1\r\nX-A: one\r\nx-a:two\t\r\nEmpty:\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b'5\r\nhello\r\n6;ext="v"\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n'
)
RESPONSE = (
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    b"HTTP/1.1 200 All is well\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 11\r\n\r\nhello world"
)


def read(reader, pieces):
    """All events of the input given in those pieces and then ended, with neighbouring pieces of a body joined."""
    events = []
    for piece in [*pieces, b""]:
        reader.receive(piece)
        while not reader.done and (event := reader.next_event()) is not NEED_DATA:
            if isinstance(event, Data) and events and isinstance(events[-1], Data):
                event = Data(events.pop().data + event.data)
            events.append(event)
    return events


def read_request(*pieces):
    return read(http1.RequestReader(), pieces)


def read_response(*pieces, method="GET"):
    return read(http1.ResponseReader(method), pieces)


def request(*lines, body=b""):
    return "\r\n".join(["POST / HTTP/1.1", "Host: h", *lines, "", ""]).encode("latin-1") + body


def test_a_request_keeps_order_case_and_duplicates():
    head, data, end = read_request(REQUEST)
    headers = [("Host", "h:1"), ("X-A", "one"), ("x-a", "two"), ("Empty", ""), ("Transfer-Encoding", "Chunked")]
    assert head == Request("POST", "/v1/x?a=%20b", "1.1", headers)
    assert data == Data(b"hello world")
    assert end == End([("X-Sum", "1")])


def test_a_response_comes_with_its_informational_heads():
    hints, head, data, end = read_response(RESPONSE)
    assert hints == Response(103, "Early Hints", "1.1", [("Link", "</a>")])
    assert head.status == 200
    assert head.reason == "All is well"
    assert head.headers == [("Set-Cookie", "a"), ("Set-Cookie", "b"), ("Content-Length", "11")]
    assert (data, end) == (Data(b"hello world"), End([]))


@pytest.mark.parametrize(("reader", "raw"), [(read_request, REQUEST), (read_response, RESPONSE)])
def test_events_do_not_depend_on_where_the_input_is_split(reader, raw):
    whole = reader(raw)
    assert reader(*(raw[i : i + 1] for i in range(len(raw)))) == whole
    for at in range(1, len(raw)):
        assert reader(raw[:at], raw[at:]) == whole


@pytest.mark.parametrize("raw", [REQUEST, request("Content-Length: 3", body=b"abc")])
def test_a_request_that_ends_early_is_incomplete_wherever_it_ends(raw):
    for at in range(1, len(raw)):
        with pytest.raises(http1.Incomplete):
            read_request(raw[:at])


def test_a_response_that_ends_early_is_incomplete_wherever_it_ends():
    for raw in (RESPONSE, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):
        for at in range(len(raw)):
            with pytest.raises(http1.Incomplete):
                read_response(raw[:at])


def test_what_came_before_an_early_end_is_given_out():
    reader = http1.ResponseReader("GET")
    reader.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\nde")
    reader.receive(b"")
    assert reader.next_event().status == 200
    assert reader.next_event() == Data(b"abcde")
    with pytest.raises(http1.Incomplete):
        reader.next_event()


def test_a_connection_may_end_between_requests_but_not_before_a_response():
    assert read_request() == [CLOSED]
    with pytest.raises(http1.Incomplete):
        read_response()


def test_pipelined_requests_are_read_one_after_another():
    reader = http1.RequestReader()
    reader.receive(
        b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n" + request("Content-Length: 2", body=b"ab") + b"\r\nGET /3 HTTP"
    )
    assert reader.next_event().target == "/1"
    assert reader.next_event() == End([])
    reader.next_message()
    assert [reader.next_event(), reader.next_event()][1] == Data(b"ab")
    assert reader.next_event() == End([])
    reader.next_message()
    assert reader.next_event() is NEED_DATA
    reader.receive(b"/1.1\r\nHost: h\r\n\r\n")
    assert reader.next_event().target == "/3"


def test_bytes_behind_a_response_are_excess():
    reader = http1.ResponseReader("GET")
    reader.receive(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200")
    assert [reader.next_event().status, reader.next_event()] == [204, End([])]
    assert reader.excess == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("method", "raw", "body"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nto the end", b"to the end"),
        ("GET", b"HTTP/1.0 200 OK\r\n\r\nto the end", b"to the end"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        ("CONNECT", b"HTTP/1.1 200 OK\r\n\r\n", b""),
        ("CONNECT", b"HTTP/1.1 407 Who\r\nContent-Length: 2\r\n\r\nno", b"no"),
        ("GET", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
def test_how_a_response_body_ends(method, raw, body):
    head, *rest = read_response(raw, method=method)
    assert isinstance(head, Response)
    assert rest == ([Data(body)] if body else []) + [End([])]


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Content-Length: 3", "Content-Length: 3"],
        ["Content-Length: 3, 3"],
        ["Content-Length: +3"],
        ["Content-Length: -1"],
        ["Content-Length: 0x3"],
        ["Content-Length: 3_0"],
        ["Content-Length: ３"],
        ["Content-Length:"],
        ["Content-Length: " + "9" * 30],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: \x0bchunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding : chunked"],
        ["X: a", " folded: b"],
        ["X: a", "\tfolded"],
        [" X: first"],
        ["X: a\nTransfer-Encoding: chunked"],
        ["X: a\rTransfer-Encoding: chunked"],
        ["X: a\0b"],
        ["X: a\x7fb"],
        ["no colon"],
        [": no name"],
        ["X y: a"],
        ["X\xa0: a"],
        ["Host: second"],
    ],
)
def test_an_ambiguous_head_is_refused(lines):
    raw = "\r\n".join(["POST / HTTP/1.1", "Host: h", *lines, "", ""]).encode("utf-8" if "３" in lines[0] else "latin-1")
    for pieces in ([raw], [raw[i : i + 1] for i in range(len(raw))]):
        with pytest.raises(http1.ProtocolError) as error:
            read_request(*pieces)
        assert error.value.status == 400


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\nHost: h\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"G@T / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / http/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ],
)
def test_a_malformed_request_is_refused(raw, status):
    with pytest.raises(http1.ProtocolError) as error:
        read_request(raw)
    assert error.value.status == status


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
    ],
)
def test_a_malformed_response_is_refused(raw):
    with pytest.raises(http1.ProtocolError):
        read_response(raw)


def test_http_1_0_needs_no_host_and_does_not_stay():
    (head, _) = read_request(b"GET / HTTP/1.0\r\n\r\n")
    assert head.version == "1.0"
    assert not http1.keeps_alive(head)


@pytest.mark.parametrize(("value", "keeps"), [("close", False), ("x, Close", False), ("keep-alive", True), ("", True)])
def test_whether_a_connection_stays_open(value, keeps):
    assert http1.keeps_alive(Request("GET", "/", "1.1", [("Connection", value)])) is keeps


def test_a_head_up_to_the_limit_is_read_and_one_byte_more_is_refused():
    raw = request("X: " + "v" * 100)
    assert read(http1.RequestReader(max_head=len(raw)), [raw])
    for pieces in ([raw], [raw[i : i + 1] for i in range(len(raw))]):
        with pytest.raises(http1.ProtocolError) as error:
            read(http1.RequestReader(max_head=len(raw) - 1), pieces)
        assert error.value.status == 431
        assert str(len(raw) - 1) in str(error.value)


def test_a_request_line_over_the_limit_is_told_apart():
    with pytest.raises(http1.ProtocolError) as error:
        read_request(b"GET /" + b"x" * 70000)
    assert error.value.status == 414
    assert "65536" in str(error.value)


def test_a_stream_is_given_out_as_it_comes():
    reader = http1.ResponseReader("GET")
    reader.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert reader.next_event().status == 200
    for raw, data in ((b"4\r\nda", b"da"), (b"ta\r\n", b"ta"), (b"2\r\n12\r\n1\r\n3\r\n", b"123")):
        reader.receive(raw)
        assert reader.next_event() == Data(data)
        assert reader.next_event() is NEED_DATA


names = st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}", fullmatch=True).filter(
    lambda name: name.lower() not in ("content-length", "transfer-encoding", "host", "connection", "upgrade", "expect")
)
texts = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f")).filter(
    lambda text: not any(0x7F <= ord(c) < 0xA1 for c in text)
)
header_lists = st.lists(st.tuples(names, texts), max_size=8)
bodies = st.lists(st.binary(min_size=1, max_size=50), max_size=6)


def pieces_of(data, cuts):
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


@given(header_lists, bodies, header_lists, st.lists(st.integers(min_value=0), max_size=5), st.booleans())
def test_what_is_written_is_read_back(headers, body, trailers, cuts, chunked):
    data = b"".join(body)
    framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(data)))
    headers = [("Host", "h"), *headers, framing]
    raw = http1.request_head("PUT", "/t", headers)
    raw += b"".join(map(http1.chunk, body)) + http1.last_chunk(trailers) if chunked else data
    head, *rest = read_request(*pieces_of(raw, cuts))
    assert head == Request("PUT", "/t", "1.1", headers)
    assert rest == ([Data(data)] if data else []) + [End(trailers if chunked else [])]


@given(header_lists, bodies)
def test_another_parser_reads_the_same(headers, body):
    raw = http1.response_head(200, "OK", [*headers, ("Transfer-Encoding", "chunked")])
    raw += b"".join(map(http1.chunk, body)) + http1.last_chunk([])
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(raw)
    response = client.next_event()
    ours, *_ = read_response(raw)
    theirs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw_items()]
    assert ours.headers == theirs
    data = b""
    while isinstance(event := client.next_event(), h11.Data):
        data += event.data
    assert data == b"".join(body)


# What framing is made of, so that random sequences come close to being well-formed.
TOKENS = [b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"0", b"3", b"a", b"abc", b";", b":", b" ", b"\t", b"X", b"\0"]
TOKENS += [b"Content-Length", b"Transfer-Encoding", b"chunked", b"POST / HTTP/1.1\r\nHost: h\r\n"]


@given(st.lists(st.sampled_from(TOKENS), max_size=20).map(b"".join), st.lists(st.integers(min_value=0), max_size=4))
def test_any_bytes_are_read_or_refused_and_in_the_same_way_however_they_are_split(raw, cuts):
    def outcome(pieces):
        try:
            return read_request(*pieces)
        except (http1.ProtocolError, http1.Incomplete) as error:
            return type(error)

    prefix = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    for data in (raw, prefix + raw):
        assert outcome([data]) == outcome(pieces_of(data, cuts))
