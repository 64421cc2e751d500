# SPDX-License-Identifier: Apache-2.0
"""Bodies, and where their messages lie: SPEC.md sections 4 and 5."""

import json
from collections.abc import Iterator
from typing import Any

import slow_reference
from describe import Description, describe, run

# Longer histories are told by their count and last chain value alone.
MOST_TOLD = 64

USER = {"role": "user", "content": "What is in README.md?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path":"README.md"}'}}
    ],
}
TOOL = {"role": "tool", "tool_call_id": "call_1", "content": "# Title\r\n\t“quotes” and \\ and 😀\n"}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def in_chat(history: bytes) -> bytes:
    return b'{"model":"m","messages":' + history + b',"stream":true}'


def case(name: str, about: str, body: bytes, dialect: str = "chat") -> Description:
    return {"id": name, "about": about, "dialect": dialect, "body": describe(body), "split": told(body, dialect)}


def told(body: bytes, dialect: str) -> Description | None:
    try:
        split = slow_reference.split(body, dialect)
    except slow_reference.NotUnderstood:
        return None
    chain = [slow_reference.text(value) for value in slow_reference.chain_values(dialect, split.messages)]
    few = len(split.messages) <= MOST_TOLD
    return {
        "head_length": len(split.head),
        "messages": [[len(separator), len(message)] for separator, message in split.messages] if few else None,
        "tail_length": len(split.tail),
        "held": [len(split.messages), chain[-1]],
        "chain": chain if few else None,
        "head_hash": slow_reference.item_text(split.head),
        "tail_hash": slow_reference.item_text(split.tail),
    }


def cases() -> Iterator[Description]:
    """Every case says whether it must be understood, so that a mistake of the slow reference shows."""
    for made, understood in [*_dialects(), *_layouts(), *_keys(), *_values(), *_blanks(), *_sizes(), *_depths()]:
        assert (made["split"] is not None) is understood, made["id"]
        yield made
    for made in _not_json():
        assert made["split"] is None, made["id"]
        yield made


Told = Iterator[tuple[Description, bool]]


def _dialects() -> Told:
    chat = {"model": "m", "messages": [USER, CALL, TOOL], "tools": [{"type": "function"}], "stream": True}
    yield case("chat", "a chat completion", compact(chat)), True
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd":"ls"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a\nb\n"},
    ]
    yield (
        case("responses", "input as an array", compact({"model": "m", "input": items, "store": False}), "responses"),
        True,
    )
    blocks = [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}],
        },
    ]
    anthropic = compact({"model": "m", "max_tokens": 9, "system": "s", "messages": blocks})
    yield case("messages", "the messages dialect", anthropic, "messages"), True
    yield case("messages-as-chat", "the same octets in another dialect: another chain", anthropic, "chat"), True
    yield (
        case("responses-string", "input as a string has no history", b'{"input":"hi","model":"m"}', "responses"),
        False,
    )
    yield case("responses-with-messages", "only the dialect's own key counts", in_chat(b"[1]"), "responses"), False


def _layouts() -> Told:
    history = [USER, CALL, TOOL]
    members: list[tuple[str, Any]] = [("model", "m"), ("stream", True)]
    for place, index in [("first", 0), ("middle", 1), ("last", 2)]:
        body = dict([*members[:index], ("messages", history), *members[index:]])
        yield case(f"history-{place}", f"the history is the {place} member", compact(body)), True
    body = {"model": "m", "messages": history, "stream": True}
    yield case("only-history", "no other member", compact({"messages": history})), True
    yield case("spaced", "blanks behind commas and colons", json.dumps(body).encode()), True
    yield case("indented", "indented by two", json.dumps(body, indent=2).encode()), True
    yield (
        case("indented-crlf", "indented by tabs, CRLF", json.dumps(body, indent="\t").replace("\n", "\r\n").encode()),
        True,
    )
    padded = b' \t\r\n{ "messages" \t:\r\n[ \t{ } \r, \n[ ] , 1\t] , "a" : 1 } \n'
    yield case("blanks-everywhere", "every place where a blank may stand has one", padded), True
    yield case("empty-history", "no message: the tail begins behind the bracket", in_chat(b"[]")), True
    yield case("empty-history-spaced", "the blanks in an empty history belong to the tail", in_chat(b"[ \n ]")), True
    yield case("tail-is-opaque", "what follows the history need not be JSON", b'{"messages":[1] oh, "no'), True
    yield case("tail-is-one-octet", "the body may end with the history", b'{"messages":[1,2]'), True
    yield case("tail-not-utf-8", "nor need it be text", b'{"messages":[1]\xff\xfe\x00'), True


def _keys() -> Told:
    yield case("key-escaped", 'the key written "m\\u0065ssages"', b'{"m\\u0065ssages":[1,2]}'), True
    spelled = "".join(f"\\u{ord(char):04X}" for char in "messages").encode()
    yield case("key-escaped-whole", "every letter escaped, hex in upper case", b'{"' + spelled + b'":[1]}'), True
    yield case("key-other-case", "keys are compared exactly", b'{"Messages":[1]}'), False
    yield case("key-longer", "a key that begins with the name", b'{"messages2":[1],"messages":[2]}'), True
    yield case("key-escape-not-the-name", "an escape that makes another name", b'{"messages\\u0000":[1]}'), False
    yield case("key-surrogate", "a key with a lone surrogate before it", b'{"\\ud800":1,"messages":[1]}'), True
    yield case("key-empty", "an empty key before it", b'{"":1,"messages":[1]}'), True
    yield case("key-not-utf-8", "a key that is not UTF-8 before it", b'{"\xff":1,"messages":[1]}'), True
    yield case("key-nested-before", "a nested key of the same name", b'{"a":{"messages":[0]},"messages":[1]}'), True
    nested = b'{"a":[{"messages":[0]},"\\"messages\\":[9]"],"messages":[1]}'
    yield case("key-nested-deeper", "in an array, and inside a string", nested), True
    yield case("key-only-nested", "a nested key alone is none", b'{"a":{"messages":[0]}}'), False
    yield case("key-twice", "the first counts; the second is in the tail", b'{"messages":[1],"messages":[2,3]}'), True
    yield (
        case(
            "key-twice-first-no-array", "the first counts, also if it is no array", b'{"messages":"x","messages":[1]}'
        ),
        False,
    )
    for name, history in [("null", b"null"), ("object", b'{"0":1}'), ("number", b"1"), ("string", b'"[1]"')]:
        yield case(f"history-is-{name}", "the history must be an array", in_chat(history)), False


def _values() -> Told:
    kinds = b'[{"a":1},[2],"3",4,-5.6e+7,true,false,null,NaN,Infinity,-Infinity,{},[],""]'
    yield case("every-type", "a message may be of any type", in_chat(kinds)), True
    yield (
        case("duplicate-keys", "keys that repeat inside a message", in_chat(b'[{"a":1,"a":2,"a":{"b":1,"b":1}}]')),
        True,
    )
    surrogates = b'["\\ud800","\\udc00\\ud800","\\uD83D\\uDE00","\\ud83dx","\\udfff\\u0041"]'
    yield case("lone-surrogates", "surrogates alone, in the wrong order, paired", in_chat(surrogates)), True
    numbers = b"[18446744073709551616,-9223372036854775809,9007199254740993,-0,0,1e999,-1E-999,0.1e+0]"
    yield case("wide-numbers", "beyond 2^64, 2^53 and any float", in_chat(numbers)), True
    yield case("long-integer", "an integer of 10,000 digits", in_chat(b"[1" + run(b"7", 9_999) + b",-1]")), True
    yield case("long-fraction", "a fraction of 10,000 digits", in_chat(b"[0." + run(b"7", 9_999) + b"]")), True
    separators = in_chat('["a\u2028b\u2029c\u00a0d\x7fe\u0085"]'.encode())
    yield case("raw-separators-in-strings", "U+2028, NBSP, DEL, raw in a string", separators), True
    yield (
        case("raw-controls-in-strings", "control characters, raw in a string", in_chat(b'["\x00\x01\n\r\t\x1c\x1f"]')),
        True,
    )
    yield case("not-utf-8-in-strings", "octets that are no UTF-8", in_chat(b'["\xff\xc0\x80\xed\xa0\x80"]')), True
    yield case("every-escape", "all escapes there are", in_chat(b'["\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uABCD"]')), True
    backslashes = in_chat(b'["\\\\","\\\\\\"","a\\\\\\\\",["\\"]"],{"\\"}":"{["}]')
    yield case("quotes-and-backslashes", "where strings end, and brackets in them", backslashes), True
    yield case("number-one", "[1 is how [12 begins", in_chat(b"[1]")), True
    yield case("number-twelve", "but 12 is another message than 1", in_chat(b"[12]")), True
    yield case("one-octet-messages", "forty messages of one octet", in_chat(b"[" + b",".join([b"7"] * 40) + b"]")), True


def _blanks() -> Told:
    others = [("nbsp", b"\xc2\xa0"), ("nbsp-latin-1", b"\xa0"), ("0x1c", b"\x1c"), ("vt", b"\x0b"), ("ff", b"\x0c")]
    others += [("u2028", b"\xe2\x80\xa8"), ("u0085", b"\xc2\x85"), ("nul", b"\x00"), ("bom", b"\xef\xbb\xbf")]
    for name, blank in others:
        about = "no blank, so not understood between messages"
        yield case(f"blank-{name}", about, in_chat(b"[1," + blank + b"2]")), False
    yield case("blank-0x1c-before-key", "nor before a key", b'{\x1c"messages":[1]}'), False
    yield case("blank-nbsp-before-history", "nor before the history", b'{"messages":\xc2\xa0[1]}'), False
    yield case("blank-0x1c-behind-history", "behind the history everything goes", b'{"messages":[1]\x1c}'), True
    yield case("byte-order-mark", "no object at the first octet", b"\xef\xbb\xbf" + in_chat(b"[1]")), False
    for name in ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le"):
        about = "an encoding that ASCII is no part of"
        data = in_chat(b"[1]").decode().encode("utf-16-le" if name == "utf-16" else name)
        yield case(name, about, b"\xff\xfe" + data if name == "utf-16" else data), False


def _sizes() -> Told:
    text = run(b"0123456789abcdef", 131_072)
    yield case("large-message", "a message of 2 MB among small ones", in_chat(b'[1,"' + text + b'",2]')), True
    yield case("most-messages", "100,000 messages", in_chat(b"[1" + run(b",1", 99_999) + b"]")), True
    yield case("too-many-messages", "100,001 messages", in_chat(b"[1" + run(b",1", 99_999) + b",1]")), False


def _depths() -> Told:
    for levels, understood in [(511, True), (512, True), (513, False), (100_000, False)]:
        arrays = run(b"[", levels) + run(b"]", levels)
        yield case(f"depth-{levels}", f"a message of {levels} arrays", in_chat(b"[1," + arrays + b",2]")), understood
        objects = run(b'{"a":', levels) + b"1" + run(b"}", levels)
        yield (
            case(f"depth-{levels}-objects", f"a message of {levels} objects", in_chat(b"[" + objects + b"]")),
            understood,
        )
    for levels, understood in [(513, True), (514, False)]:
        before = b'{"a":' + run(b"[", levels) + run(b"]", levels) + b',"messages":[1]}'
        yield case(f"depth-{levels}-before", f"{levels} levels in a member before the history", before), understood
    deep = run(b"[", 100_000)
    yield case("depth-in-tail", "100,000 levels behind the history", b'{"messages":[1],"tools":' + deep), True
    yield case("depth-in-string", "100,000 brackets in a string are no depth", in_chat(b'["' + deep + b'"]')), True
    yield case("depth-side-by-side", "nor are 10,000 side by side", in_chat(b"[[" + run(b"[],", 10_000) + b"1]]")), True
    yield case("depth-unclosed", "100,000 brackets, never closed", b'{"messages":[' + deep), False


def _not_json() -> Iterator[Description]:
    about = "not understood"
    for name, body in [
        ("empty-body", b""),
        ("blank-body", b" \n"),
        ("array-body", b'["messages",[1]]'),
        ("string-body", b'"messages"'),
        ("no-history", b'{"model":"m"}'),
        ("empty-object", b"{}"),
        ("object-unclosed", b'{"a":1'),
        ("key-without-value", b'{"messages"'),
        ("key-without-colon", b'{"messages" [1]}'),
        ("key-unquoted", b"{messages:[1]}"),
        ("key-single-quotes", b"{'messages':[1]}"),
        ("comma-first", b'{,"messages":[1]}'),
        ("comma-missing", b'{"a":1 "messages":[1]}'),
        ("comment", b'{/**/"messages":[1]}'),
    ]:
        yield case(name, about, body)
    for name, history in [
        ("history-unclosed", b"[1"),
        ("history-closed-wrongly", b"[1}"),
        ("history-comma-last", b"[1,]"),
        ("history-comma-first", b"[,1]"),
        ("history-comma-twice", b"[1,,2]"),
        ("history-comma-missing", b"[1 2]"),
        ("history-colon", b"[1:2]"),
        ("message-comma-last", b"[[1,]]"),
        ("message-object-comma-last", b'[{"a":1,}]'),
        ("message-object-no-value", b'[{"a"}]'),
        ("message-object-number-key", b"[{1:2}]"),
        ("message-closed-wrongly", b"[[1}]"),
        ("message-string-unclosed", b'["a]'),
        ("message-string-ends-escaped", b'["a\\"]'),
        ("escape-unknown", b'["\\x41"]'),
        ("escape-single-quote", b'["\\\'"]'),
        ("escape-upper-case-u", b'["\\U0041"]'),
        ("escape-three-digits", b'["\\u004"]'),
        ("escape-no-hex", b'["\\u00g0"]'),
        ("escape-with-sign", b'["\\u+041"]'),
        ("escape-second-of-pair-bad", b'["\\ud83d\\u12g4"]'),
        ("number-leading-zero", b"[01]"),
        ("number-plus", b"[+1]"),
        ("number-point-first", b"[.5]"),
        ("number-point-last", b"[1.]"),
        ("number-exponent-empty", b"[1e]"),
        ("number-exponent-sign", b"[1e+]"),
        ("number-minus", b"[-]"),
        ("number-minus-nan", b"[-NaN]"),
        ("number-hex", b"[0x1]"),
        ("number-underscore", b"[1_0]"),
        ("number-arabic-digit", "[\u0661]".encode()),
        ("number-superscript", b"[1\xb2]"),
        ("word-short", b"[tru]"),
        ("word-long", b"[nullx]"),
        ("word-upper-case", b"[True]"),
        ("word-nan-lower-case", b"[nan]"),
        ("word-undefined", b"[undefined]"),
    ]:
        yield case(name, about, in_chat(history))
