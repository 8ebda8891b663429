"""From a dataclass or a typed dictionary to the flat schema that MCP allows in a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._shape import Schema, Writer, is_object, members_of, name_of

_FLAT = "a form has only texts, numbers, booleans, choices of texts, and lists of such choices"
_KEPT = {
    "string": ("minLength", "maxLength", "format", "default", "enum"),
    "integer": ("minimum", "maximum", "default"),
    "number": ("minimum", "maximum", "default"),
    "boolean": ("default",),
    "array": ("minItems", "maxItems", "default"),
}
_FORMATS = ("email", "uri", "date", "date-time")


def form_schema(kind: Any, choices: Mapping[str, Sequence[str]]) -> Schema:
    """The schema of a form with the fields of `kind`; `choices` are what some of its texts can be."""
    if not is_object(kind):
        raise TypeError(f"a form is a dataclass or a TypedDict, and {name_of(kind)} is neither")
    schema = Writer("input").object(members_of(kind), closed=False)
    for name in choices:
        if name not in schema["properties"]:
            raise TypeError(f"choices: {name_of(kind)} has no field {name!r}")
    for name, field in schema["properties"].items():
        try:
            schema["properties"][name] = _field(field, choices.get(name))
        except TypeError as error:
            raise TypeError(f"{name_of(kind)}.{name}: {error}") from None
    return schema


def _field(field: Schema, choices: Sequence[str] | None) -> Schema:
    """One field, with nothing in it but what MCP's primitive schemas have."""
    kind = field.get("type")
    if isinstance(kind, list):  # optional: not required, and never null
        kind = next(one for one in kind if one != "null")
    if kind not in _KEPT:
        raise TypeError(_FLAT)
    kept = {key: field[key] for key in _KEPT[kind] if key in field}
    said: Schema = {key: field[key] for key in ("title", "description") if key in field}
    if kept.get("format", "email") not in _FORMATS:
        del kept["format"]
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if value is not None]
    if choices is not None and kind == "string":
        kept["enum"] = list(choices)
    if kind == "array":
        kept["items"] = _items(field, choices)
    return {"type": kind, **said, **kept}


def _items(field: Schema, choices: Sequence[str] | None) -> Schema:
    items = field.get("items")
    allowed = list(choices) if choices is not None else items.get("enum") if isinstance(items, dict) else None
    if not allowed or not all(isinstance(value, str) for value in allowed):
        raise TypeError(_FLAT)
    return {"type": "string", "enum": allowed}
