# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for request bodies as nobody would write them: any blanks, escapes, key order, duplicate keys,
NaN, huge numbers, lone surrogates, raw control bytes, depth. Each strategy yields bytes.
"""

from hypothesis import strategies as st

blanks = st.text(" \t\r\n", max_size=3).map(str.encode)

_raw = st.binary(max_size=8).map(lambda data: data.translate(None, b'"\\'))
_hex = st.text("0123456789abcdefABCDEF", min_size=4, max_size=4).map(lambda digits: b"\\u" + digits.encode())
_escapes = st.sampled_from([b'\\"', b"\\\\", b"\\/", b"\\b", b"\\f", b"\\n", b"\\r", b"\\t", b"\\ud83d\\ude00"])
_awkward = st.sampled_from(
    [b"\\ud800", b"\\udc00\\ud800", b"\\u0000", "\u2028\u00a0".encode(), b"\x00\x1c", b"[{", b"]}", "😀".encode()]
)
strings = st.lists(_raw | _hex | _escapes | _awkward, max_size=4).map(lambda parts: b'"' + b"".join(parts) + b'"')

_digits = st.text("0123456789", min_size=1, max_size=5).map(str.encode)
_whole = st.integers(0, 10**25).map(lambda number: str(number).encode())
numbers = st.builds(
    lambda sign, whole, fraction, exponent: sign + whole + fraction + exponent,
    st.sampled_from([b"", b"-"]),
    _whole | st.just(b"9" * 5000),
    st.just(b"") | _digits.map(lambda digits: b"." + digits),
    st.just(b"") | st.builds(bytes.__add__, st.sampled_from([b"e", b"E", b"e+", b"E-"]), _digits),
)
words = st.sampled_from([b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"])
scalars = strings | numbers | words


def _between(parts: list[bytes], spaces: list[bytes], opening: bytes, closing: bytes) -> bytes:
    padded = [spaces[2 * i] + part + spaces[2 * i + 1] for i, part in enumerate(parts)]
    return opening + (b",".join(padded) if padded else spaces[0]) + closing


def _container(parts: st.SearchStrategy[bytes], opening: bytes, closing: bytes) -> st.SearchStrategy[bytes]:
    return st.builds(
        _between,
        st.lists(parts, max_size=4),
        st.lists(blanks, min_size=8, max_size=8),
        st.just(opening),
        st.just(closing),
    )


def member(key: st.SearchStrategy[bytes], content: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda k, a, b, v: k + a + b":" + b + v, key, blanks, blanks, content)


# Few keys, so that duplicates are common, nested ones of the history's own name among them.
_keys = st.sampled_from([b'"a"', b'"a"', b'"messages"', b'"input"', b'"content"', b'"\\u0061"']) | strings
values = st.recursive(
    scalars,
    lambda inner: _container(inner, b"[", b"]") | _container(member(_keys, inner), b"{", b"}"),
    max_leaves=12,
)


def nested(levels: int, kind: int = 0) -> bytes:
    """A value of that many levels: arrays (0), objects (1), or both by turns (2)."""
    opening = [b"[", b'{"k":'][kind % 2 : kind % 2 + 1] if kind < 2 else [b"[", b'{"k":']
    inside = b"".join(opening[i % len(opening)] for i in range(levels))
    closing = b"".join(b"]" if opening[i % len(opening)] == b"[" else b"}" for i in reversed(range(levels)))
    return inside + b"0" + closing


# Around the limit of 512 levels for a message, 513 for an envelope member.
deep_values = st.builds(nested, st.integers(505, 520), st.integers(0, 2))


def _spell(name: str, escaped: list[bool]) -> bytes:
    marks = zip(name, escaped, strict=False)
    return b'"' + b"".join(b"\\u%04x" % ord(char) if coded else char.encode() for char, coded in marks) + b'"'


def spelled(name: str) -> st.SearchStrategy[bytes]:
    """The key's name, any of its letters escaped."""
    return st.lists(st.booleans(), min_size=len(name), max_size=len(name)).map(lambda coded: _spell(name, coded))


# Mostly shallow, or hardly a body would be understood.
messages = st.integers(0, 30).flatmap(lambda choice: deep_values if choice == 23 else values)


@st.composite
def bodies(draw: st.DrawFn, key: str, message: st.SearchStrategy[bytes] = messages) -> bytes:
    """A body that has a history under ``key``, unless an earlier member of that name or too much depth hides it."""
    history = draw(
        st.builds(
            _between,
            st.lists(message, max_size=6),
            st.lists(blanks, min_size=12, max_size=12),
            st.just(b"["),
            st.just(b"]"),
        )
    )
    members = draw(st.lists(member(_keys, messages), max_size=3))
    members.insert(draw(st.integers(0, len(members))), draw(member(spelled(key), st.just(history))))
    spaces = draw(st.lists(blanks, min_size=2 * len(members), max_size=2 * len(members)))
    return draw(blanks) + _between(members, spaces, b"{", b"}") + draw(blanks)


def _damage(body: bytes, place: int, removed: int, put_in: bytes) -> bytes:
    place %= len(body) + 1
    return body[:place] + put_in + body[place + removed :]


def damaged(body: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Bodies with some bytes cut out or put in somewhere: mostly no JSON any more, sometimes still."""
    fragments = st.sampled_from([*(bytes([mark]) for mark in b'[]{}"\\,:0-.eNu\x00\xa0\x1c'), b""])
    return st.builds(_damage, body, st.integers(0, 10_000), st.integers(0, 3), fragments | st.binary(max_size=4))
