# SPDX-License-Identifier: Apache-2.0
"""The report as JSON, from which every other form can be made again."""

import json
from typing import Any

import msgspec

from .results import SCHEMA, Report
from .text import visible

_NESTED = (dict, list, tuple)


class ReportError(ValueError):
    """A document that is no report, or one of another schema; the message names the field."""


class _Head(msgspec.Struct):
    schema: int


def to_json(report: Report) -> bytes:
    """The report, indented, the same bytes for the same report. A lone surrogate, which no JSON text can hold, is
    written as a visible escape."""
    tree = msgspec.to_builtins(report, order="deterministic")
    return (_indented(tree) + "\n").encode()


def from_json(document: bytes) -> Report:
    """Raises ReportError."""
    try:
        schema = msgspec.json.decode(document, type=_Head).schema
        if schema != SCHEMA:
            raise ReportError(f"expected a report of schema {SCHEMA}, got {schema} - at `$.schema`")
        return msgspec.json.decode(document, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"not a report: {error}") from error


def _indented(value: Any, margin: str = "\n") -> str:
    """JSON in which what holds no further structure stands on one line: a report has thousands of calls."""
    if isinstance(value, _NESTED) and any(isinstance(item, _NESTED) for item in _items(value)):
        inner = margin + " "
        members = (
            [_scalar(str(key)) + ": " + _indented(item, inner) for key, item in value.items()]
            if isinstance(value, dict)
            else [_indented(item, inner) for item in value]
        )
        brackets = "{}" if isinstance(value, dict) else "[]"
        return brackets[0] + inner + ("," + inner).join(members) + margin + brackets[1]
    return _scalar(value)


def _items(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def _scalar(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(_printable(value), ensure_ascii=False)
    return text


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list | tuple) else value
