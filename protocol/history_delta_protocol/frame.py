# SPDX-License-Identifier: Apache-2.0
"""The frame: a request body told as what is new of it. One codec, used by both ends. SPEC.md section 6.

A frame is one line of JSON, a newline, and literal bytes in the order in which they stand in the rebuilt body. This
module knows the form alone; whether a base or an item is held is the business of whoever holds histories.
"""

import json
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from . import chain
from .pieces import Piece
from .wire import FRAME_MEDIA_TYPE, MAX_FRAME_LINE_BYTES, MAX_MESSAGES, MAX_PIECES

HELD = "held"

# A header value as RFC 9110 has it, one character a byte: what is restored must not be able to end its header line.
_FIELD_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?\Z")


class Malformed(ValueError):
    """The frame breaks the grammar: ``field`` says where, in the words of SPEC.md."""

    def __init__(self, field: str, problem: str) -> None:
        ValueError.__init__(self, "%s: %s" % (field, problem))
        self.field = field


class TooLarge(ValueError):
    """Over a limit that the receiver sets; ``setting`` is what its operator would change."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        ValueError.__init__(self, "%s is over the limit of %d (setting %s)" % (what, limit, setting))
        self.limit = limit
        self.setting = setting


class Pieces(NamedTuple):
    """An item made out of another: ``source`` is a head's or tail's hash, or a base message's index."""

    source: Union[bytes, int]
    pieces: List[Piece]


# A head or a tail: its bytes, HELD (the receiver has it under the result's hash), or pieces of another.
Item = Union[bytes, str, Pieces]
# A message that an edit puts in: its bytes, or pieces of a base message.
Inserted = Union[bytes, Pieces]


class Edit(NamedTuple):
    """Replaces ``remove`` base messages from index ``at`` (from 0) by (separator, message) pairs."""

    at: int
    remove: int
    insert: List[Tuple[bytes, Inserted]]


class Result(NamedTuple):
    """What the rebuilt body must come to, hashes as 32 bytes; ``length`` in bytes."""

    message_count: int
    chain: bytes
    head: bytes
    tail: bytes
    length: int


class Frame(NamedTuple):
    content_type: Optional[str]
    head: Item
    base_count: int
    base_chain: bytes
    edits: List[Edit]
    append: List[Tuple[bytes, bytes]]
    tail: Item
    result: Result


def is_content_type(value: str) -> bool:
    """Whether a frame can carry this header value: one that ends its header line, or names a frame, it cannot."""
    return bool(_FIELD_VALUE.match(value)) and FRAME_MEDIA_TYPE not in value.lower()


def encode(frame: Frame) -> bytes:
    """The frame's bytes, uncompressed."""
    literals: List[bytes] = []
    head = _encode_item(frame.head, literals)
    edits = [[edit.at, edit.remove, _encode_inserts(edit.insert, literals)] for edit in frame.edits]
    append = []
    for separator, message in frame.append:
        append.append([len(separator), len(message)])
        literals += [separator, message]
    tail = _encode_item(frame.tail, literals)
    result = frame.result
    line = {
        "content_type": frame.content_type,
        "head": head,
        "base": [frame.base_count, chain.to_text(frame.base_chain)],
        "edits": edits,
        "append": append,
        "tail": tail,
        "result": [
            result.message_count,
            chain.to_text(result.chain),
            chain.to_text(result.head),
            chain.to_text(result.tail),
            result.length,
        ],
    }
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n" + b"".join(literals)


def _encode_item(item: Item, literals: List[bytes]) -> Any:
    if isinstance(item, bytes):
        literals.append(item)
        return len(item)
    return HELD if isinstance(item, str) else _encode_pieces(item, literals)


def _encode_inserts(insert: List[Tuple[bytes, Inserted]], literals: List[bytes]) -> List[Any]:
    out: List[Any] = []
    for separator, message in insert:
        literals.append(separator)
        if isinstance(message, bytes):
            literals.append(message)
            out.append([len(separator), len(message)])
        else:
            out.append([len(separator), _encode_pieces(message, literals)])
    return out


def _encode_pieces(item: Pieces, literals: List[bytes]) -> Dict[str, Any]:
    parts: List[Any] = []
    for piece in item.pieces:
        if isinstance(piece, bytes):
            literals.append(piece)
            parts.append(len(piece))
        else:
            parts.append(list(piece))
    source = item.source if isinstance(item.source, int) else chain.to_text(item.source)
    return {"of": source, "pieces": parts}


def decode(data: bytes, max_body: int, max_line: int = MAX_FRAME_LINE_BYTES) -> Frame:
    """Read a whole frame, already decompressed.

    Raises Malformed for anything outside the grammar, TooLarge for a line over ``max_line`` bytes or a result over
    ``max_body``.
    """
    end = data.find(b"\n", 0, max_line + 1)
    if end < 0:
        if len(data) > max_line:
            raise TooLarge("the frame's line", max_line, "max_frame_line_bytes")
        raise Malformed("line", "expected one line of JSON and a newline")
    line = _Fields(_parse_line(data[:end]), "line", _FIELDS)
    literals = _Literals(data, end + 1)
    content_type = _content_type(line.get("content_type"))
    result = _result(line.get("result"))
    if result.length > max_body:
        raise TooLarge("the rebuilt body (result.length %d)" % result.length, max_body, "max_body_bytes")
    base_count, base_chain = _base(line.get("base"))
    head = _item(line.get("head"), "head", literals)
    edits = _edits(line.get("edits"), base_count, literals)
    append = _append(line.get("append"), literals)
    tail = _item(line.get("tail"), "tail", literals)
    literals.finish()
    return Frame(content_type, head, base_count, base_chain, edits, append, tail, result)


_FIELDS = ("content_type", "head", "base", "edits", "append", "tail", "result")
_PIECES_FIELDS = ("of", "pieces")


def _parse_line(line: bytes) -> Any:
    try:
        return json.loads(
            line.decode("utf-8"), object_pairs_hook=_unique, parse_int=_natural, parse_constant=_refuse_constant
        )
    except Malformed:
        raise
    except (ValueError, RecursionError):
        raise Malformed("line", "not JSON in UTF-8")


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("line", "a member stands twice")
    return members


def _natural(digits: str) -> int:
    # Every number of the grammar fits in 16 digits; -1 is outside every range, and so is what it stands for.
    return int(digits) if len(digits) <= 16 and digits[0] != "-" else -1


def _refuse_constant(name: str) -> Any:
    raise Malformed("line", "%s is not JSON" % name)


class _Fields(object):
    """An object of the line with exactly the members that the grammar names."""

    def __init__(self, value: Any, field: str, names: Tuple[str, ...]) -> None:
        if not isinstance(value, dict):
            raise Malformed(field, "expected an object")
        for name in value:
            if name not in names:
                raise Malformed(field, "unknown member %s" % json.dumps(name[:64]))
        for name in names:
            if name not in value:
                raise Malformed(name if field == "line" else "%s.%s" % (field, name), "missing")
        self.get: Callable[[str], Any] = value.get


class _Literals(object):
    """Hands out the bytes behind the line, in order, all of them."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def take(self, length: int, field: str) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise Malformed(field, "%d bytes wanted, %d left" % (length, len(self._data) - self._position))
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def finish(self) -> None:
        left = len(self._data) - self._position
        if left:
            raise Malformed("literals", "%d bytes are left over behind the last one" % left)


def _integer(value: Any, field: str, least: int = 0, most: int = 2**53 - 1) -> int:
    # type(), not isinstance(): a boolean is no integer.
    if type(value) is not int or not least <= value <= most:
        raise Malformed(field, "expected an integer from %d to %d" % (least, most))
    return int(value)


def _hash(value: Any, field: str) -> bytes:
    if not isinstance(value, str):
        raise Malformed(field, "expected a hash of 43 characters")
    try:
        return chain.from_text(value)
    except ValueError as error:
        raise Malformed(field, str(error))


def _array(value: Any, field: str, least: int = 0, most: int = MAX_MESSAGES) -> List[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise Malformed(field, "expected an array of %d to %d elements" % (least, most))
    return value


def _content_type(value: Any) -> Optional[str]:
    if value is not None and not (isinstance(value, str) and is_content_type(value)):
        raise Malformed("content_type", "expected a header value, of no frame, or null")
    return value


def _base(value: Any) -> Tuple[int, bytes]:
    count, name = _array(value, "base", 2, 2)
    return _integer(count, "base[0]", 0, MAX_MESSAGES), _hash(name, "base[1]")


def _result(value: Any) -> Result:
    count, name, head, tail, length = _array(value, "result", 5, 5)
    return Result(
        _integer(count, "result[0]", 0, MAX_MESSAGES),
        _hash(name, "result[1]"),
        _hash(head, "result[2]"),
        _hash(tail, "result[3]"),
        _integer(length, "result[4]"),
    )


def _item(value: Any, field: str, literals: _Literals) -> Item:
    if value == HELD:
        return HELD
    if isinstance(value, dict):
        members = _Fields(value, field, _PIECES_FIELDS)
        source = _hash(members.get("of"), field + ".of")
        return Pieces(source, _pieces(members.get("pieces"), field + ".pieces", literals))
    return literals.take(_integer(value, field, 1), field)


def _pieces(value: Any, field: str, literals: _Literals) -> List[Piece]:
    pieces: List[Piece] = []
    for index, piece in enumerate(_array(value, field, 1, MAX_PIECES)):
        name = "%s[%d]" % (field, index)
        if isinstance(piece, list):
            offset, length = _array(piece, name, 2, 2)
            pieces.append((_integer(offset, name + "[0]"), _integer(length, name + "[1]", 1)))
        else:
            pieces.append(literals.take(_integer(piece, name, 1), name))
    return pieces


def _edits(value: Any, base_count: int, literals: _Literals) -> List[Edit]:
    edits: List[Edit] = []
    free = 0
    for index, edit in enumerate(_array(value, "edits")):
        field = "edits[%d]" % index
        at, remove, insert = _array(edit, field, 3, 3)
        # An insertion takes no base message, so a second edit at its place would leave their order open.
        at = _integer(at, field + "[0]", free, base_count)
        remove = _integer(remove, field + "[1]", 0, base_count - at)
        inserted = [
            _insert(pair, "%s[2][%d]" % (field, place), base_count, literals)
            for place, pair in enumerate(_array(insert, field + "[2]"))
        ]
        if not remove and not inserted:
            raise Malformed(field, "changes nothing")
        edits.append(Edit(at, remove, inserted))
        free = at + max(remove, 1)
    return edits


def _insert(value: Any, field: str, base_count: int, literals: _Literals) -> Tuple[bytes, Inserted]:
    separator_length, message = _array(value, field, 2, 2)
    separator = literals.take(_integer(separator_length, field + "[0]"), field + "[0]")
    if isinstance(message, dict):
        members = _Fields(message, field + "[1]", _PIECES_FIELDS)
        source = _integer(members.get("of"), field + "[1].of", 0, base_count - 1)
        return separator, Pieces(source, _pieces(members.get("pieces"), field + "[1].pieces", literals))
    return separator, literals.take(_integer(message, field + "[1]", 1), field + "[1]")


def _append(value: Any, literals: _Literals) -> List[Tuple[bytes, bytes]]:
    messages: List[Tuple[bytes, bytes]] = []
    for index, pair in enumerate(_array(value, "append")):
        field = "append[%d]" % index
        separator_length, message_length = _array(pair, field, 2, 2)
        separator = literals.take(_integer(separator_length, field + "[0]"), field + "[0]")
        messages.append((separator, literals.take(_integer(message_length, field + "[1]", 1), field + "[1]")))
    return messages
