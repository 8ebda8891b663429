"""From what a tool returns to what crosses the boundary."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal, TypeAlias

from ._content import CONTENT, Content, Structured, Text, ToolResult
from ._json import dumps
from ._shape import Member, Schema, Writer, split, union_of


@dataclass(frozen=True)
class Wire:
    """A result as the host takes it."""

    content: list[Content]
    structured: str | None = None
    meta: str | None = None


#: What a tool says that it returns: content; data that is an object, or goes into one; nothing is said.
Returns: TypeAlias = Literal["content", "data", "wrapped", "unknown"]


def returns(hint: Any, *, annotated: bool) -> tuple[Returns, Schema | None]:
    """What a tool with this return type returns, and the schema of its structured content."""
    if not annotated or hint is Any or hint is ToolResult:
        return "unknown", None
    bare, _ = split(hint)
    if typing.get_origin(bare) is Structured:
        return _data(typing.get_args(bare)[0])
    if bare is Structured:
        return "unknown", None
    return ("content", None) if _is_content(bare) else _data(hint)


def _data(hint: Any) -> tuple[Returns, Schema]:
    writer = Writer("output")
    schema = writer.root(hint)
    if schema.get("type") == "object":
        return "data", schema
    # Structured content is mostly an object, and for older clients has to be.
    writer = Writer("output")
    return "wrapped", writer.finish(writer.object([Member("result", hint, True)], closed=False))


def _is_content(hint: Any) -> bool:
    hint, _ = split(hint)
    if hint in (None, type(None), str) or hint in CONTENT:
        return True
    union = union_of(hint)
    if union is not None:
        return all(_is_content(option) for option in union)
    if typing.get_origin(hint) in (list, tuple, Sequence):
        arguments = [argument for argument in typing.get_args(hint) if argument is not ...]
        # A list of texts is data; one that may have an image in it is content.
        return all(map(_is_content, arguments)) and any(argument is not str for argument in arguments)
    return False


def to_wire(value: Any, kind: Returns) -> Wire:
    """What a tool returned, as the host takes it."""
    if isinstance(value, ToolResult):
        structured = None if value.structured is None else dumps(value.structured)
        return Wire(_contents(value.content), structured, None if value.meta is None else dumps(value.meta))
    if isinstance(value, Structured):
        wrapped = {"result": value.data} if kind == "wrapped" else value.data
        return Wire(_contents(value.text), dumps(wrapped))
    if kind == "wrapped":
        return _text_of(dumps(value), dumps({"result": value}))
    if kind == "data":
        return _text_of(dumps(value), dumps(value))
    if kind == "content" or value is None or _is_content_value(value):
        return Wire(_contents(value))
    json = dumps(value)
    return _text_of(json, json if isinstance(value, dict) or is_dataclass(value) else None)


def _text_of(text: str, structured: str | None) -> Wire:
    return Wire([Text(text)], structured)


def _is_content_value(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(one, (str, *CONTENT)) for one in value)
    return isinstance(value, (str, *CONTENT))


def _contents(value: Any) -> list[Content]:
    if value is None:
        return []
    several = value if isinstance(value, (list, tuple)) else [value]
    return [_content(one) for one in several]


def _content(value: Any) -> Content:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, CONTENT):
        return value
    raise TypeError(f"{type(value).__name__} is no content")


def failure(message: str, content: Sequence[str | Content] = (), structured: Any = None) -> Wire:
    """A result that says why a tool failed."""
    texts: list[Content] = [Text(message)] if message else []
    return Wire(texts + _contents(list(content)), None if structured is None else dumps(structured))
