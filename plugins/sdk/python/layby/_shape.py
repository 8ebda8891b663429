"""From a type hint to a JSON Schema, and from JSON to a value of that type.

Small and own code: the libraries that do this (`mashumaro`, `cattrs`) say less of a parameter than
a model needs (no description from ``Annotated``, no bounds in errors), would have to be installed into
every plugin, and pydantic needs native code, which the sandbox cannot load.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import dataclasses
import datetime
import enum
import inspect
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from ._field import keywords
from ._json import plain

Schema: TypeAlias = dict[str, Any]
Decode: TypeAlias = Callable[[Any, str], Any]
#: Arguments are read by the schema, results are written by it.
Mode: TypeAlias = Literal["input", "output"]

#: There is no default.
MISSING: Any = object()


class Mismatch(ValueError):
    """A value does not fit its type: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)


@dataclasses.dataclass(frozen=True)
class Member:
    """One field of an object."""

    name: str
    hint: Any
    required: bool
    #: Or `MISSING`.
    default: Any = MISSING
    description: str | None = None


def split(hint: Any) -> tuple[Any, list[Any]]:
    """A hint without ``Annotated`` and its like, and what they held."""
    metadata: list[Any] = []
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            metadata = [*hint.__metadata__, *metadata]
            hint = hint.__origin__
        elif origin in (typing.Required, typing.NotRequired, typing.Final):
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint, metadata


def union_of(hint: Any) -> tuple[Any, ...] | None:
    """The members of a union, if it is one."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return None


def is_object(hint: Any) -> bool:
    """Dataclasses and typed dictionaries have named fields."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint))


def members_of(kind: Any) -> list[Member]:
    """The fields of a dataclass or a typed dictionary."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if typing.is_typeddict(kind):
        return [Member(name, hint, name in kind.__required_keys__) for name, hint in hints.items()]
    members = []
    for field in dataclasses.fields(kind):
        if field.init:
            default = _default_of(field)
            description = field.metadata.get("description")
            hint = hints[field.name]
            members.append(Member(field.name, hint, default is MISSING, default, description))
    return members


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return MISSING if field.default is dataclasses.MISSING else field.default


def doc_of(kind: type) -> str | None:
    """A class's own docstring, if its author wrote one."""
    doc = kind.__dict__.get("__doc__")
    if doc is None or doc.startswith(f"{kind.__name__}("):  # the one that dataclasses write
        return None
    return " ".join(inspect.cleandoc(doc).split())


_TEXTS: dict[Any, tuple[Schema, Callable[[str], Any]]] = {
    datetime.datetime: ({"format": "date-time"}, datetime.datetime.fromisoformat),
    datetime.date: ({"format": "date"}, datetime.date.fromisoformat),
    datetime.time: ({"format": "time"}, datetime.time.fromisoformat),
    uuid.UUID: ({"format": "uuid"}, uuid.UUID),
    pathlib.Path: ({}, pathlib.Path),
    pathlib.PurePath: ({}, pathlib.PurePath),
    bytes: ({"contentEncoding": "base64"}, lambda text: base64.b64decode(text, validate=True)),
}
_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_SETS = (set, frozenset, collections.abc.Set)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class Writer:
    """Writes the schema of one root type."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.definitions: dict[str, Schema] = {}
        self._open: list[Any] = []
        self._recursive: set[Any] = set()

    def root(self, hint: Any) -> Schema:
        """The whole schema, with the definitions that it refers to."""
        schema = self.of(hint)
        if "$ref" in schema:
            schema = {**self.definitions[schema["$ref"].removeprefix("#/$defs/")], **schema}
            del schema["$ref"]
        return self.finish(schema)

    def finish(self, schema: Schema) -> Schema:
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def of(self, hint: Any) -> Schema:
        """The schema of `hint`."""
        bare, metadata = split(hint)
        schema = self._bare(bare)
        said = keywords(metadata, schema.get("type"))
        return {**schema, **said} if said else schema

    def object(self, members: list[Member], closed: bool) -> Schema:
        """The schema of an object with these fields."""
        properties: dict[str, Schema] = {}
        for member in members:
            # What is None by default is left out, in arguments as in results; so it is never null either.
            absent = member.default is None
            schema = self.of(without_none(member.hint) if absent else member.hint)
            if member.description and "description" not in schema:
                schema = {**schema, "description": member.description}
            if self.mode == "input" and member.default is not MISSING and member.default is not None:
                schema = {**schema, "default": plain(member.default)}
            properties[member.name] = schema
        required = [m.name for m in members if self._is_required(m)]
        schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if closed:
            schema["additionalProperties"] = False
        return schema

    def _is_required(self, member: Member) -> bool:
        if self.mode == "input" or member.required:
            return member.required
        return member.default is not None and member.default is not MISSING

    def _bare(self, hint: Any) -> Schema:
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        if hint in _TEXTS:
            return {"type": "string", **_TEXTS[hint][0]}
        if is_object(hint):
            return self._named(hint)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return choices([member.value for member in hint])
        if isinstance(hint, typing.TypeVar):
            return {}
        union = union_of(hint)
        if union is not None:
            return self._union(union)
        return self._generic(hint)

    def _generic(self, hint: Any) -> Schema:
        origin = typing.get_origin(hint) or hint
        arguments = typing.get_args(hint)
        if origin is Literal:
            return choices([plain(value) for value in arguments])
        if origin in _LISTS or (origin is tuple and arguments[1:] == (...,)):
            return {"type": "array", "items": self.of(arguments[0] if arguments else Any)}
        if origin in _SETS:
            items = self.of(arguments[0] if arguments else Any)
            return {"type": "array", "items": items, "uniqueItems": True}
        if origin is tuple:
            if not arguments:
                return {"type": "array"}
            each = [self.of(argument) for argument in arguments]
            return {"type": "array", "prefixItems": each, "items": False, "minItems": len(each)}
        if origin in _MAPS:
            if arguments and split(arguments[0])[0] not in (str, Any):
                raise TypeError(f"{name_of(hint)}: JSON has only texts as keys")
            return {"type": "object", "additionalProperties": self.of(arguments[1] if arguments else Any)}
        if is_object(origin):
            return self._named(origin)
        raise TypeError(
            f"{name_of(hint)} has no JSON Schema: use str, int, float, bool, None, Literal, enums, lists, tuples, "
            "sets, dicts, dataclasses, TypedDicts, dates, UUID, Path, bytes, or unions of them"
        )

    def _union(self, options: tuple[Any, ...]) -> Schema:
        schemas = [self.of(option) for option in options]
        null = {"type": "null"}
        if null in schemas and len(schemas) == 2:
            other = next(schema for schema in schemas if schema != null)
            if isinstance(other.get("type"), str):
                other = {**other, "type": [other["type"], "null"]}
                if "enum" in other:
                    other["enum"] = [*other["enum"], None]
                return other
        return {"anyOf": schemas}

    def _named(self, kind: type) -> Schema:
        if kind in self._open:
            self._recursive.add(kind)
            return {"$ref": f"#/$defs/{kind.__name__}"}
        self._open.append(kind)
        try:
            schema = self.object(members_of(kind), closed=self.mode == "input")
        finally:
            self._open.pop()
        doc = doc_of(kind)
        if doc:
            schema = {"description": doc, **schema}
        if kind in self._recursive:
            self.definitions[kind.__name__] = schema
            return {"$ref": f"#/$defs/{kind.__name__}"}
        return schema


def choices(values: list[Any]) -> Schema:
    """One of these values."""
    types_of = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
    kinds = {types_of.get(type(value)) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    return {"type": kind, "enum": values} if kind else {"enum": values}


def without_none(hint: Any) -> Any:
    """``T`` of ``T | None``, with the ``Annotated`` that stands around either."""
    bare, metadata = split(hint)
    options = [option for option in union_of(bare) or () if option is not type(None)]
    if len(options) != 1:
        return hint
    for item in metadata:
        options[0] = typing.Annotated[options[0], item]
    return options[0]


def name_of(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def decoder(hint: Any, known: dict[Any, Decode] | None = None) -> Decode:
    """What reads a value of `hint` from JSON, made once where the tool is defined."""
    known = {} if known is None else known
    bare, _ = split(hint)
    if bare in known:
        return lambda value, where: known[bare](value, where)
    if bare in _SCALARS:
        return _scalar(bare)
    if bare in _TEXTS:
        return _text(bare)
    if is_object(bare):
        return _object_decoder(bare, bare, members_of(bare), known)
    if isinstance(bare, type) and issubclass(bare, enum.Enum):
        return _chooser({member.value: member for member in bare})
    if isinstance(bare, typing.TypeVar):
        return _scalar(Any)
    union = union_of(bare)
    if union is not None:
        return _union_decoder([decoder(option, known) for option in union])
    return _generic_decoder(bare, known)


def _generic_decoder(hint: Any, known: dict[Any, Decode]) -> Decode:
    origin = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    if origin is Literal:
        return _chooser({plain(value): value for value in arguments})
    if origin in _MAPS:
        return _map_decoder(decoder(arguments[1] if arguments else Any, known))
    if is_object(origin):
        return _object_decoder(origin, origin, members_of(origin), known)
    if origin is tuple and arguments and arguments[1:] != (...,):
        return _tuple_decoder([decoder(argument, known) for argument in arguments])
    make = next((kind for kind in (tuple, frozenset) if origin is kind), set if origin in _SETS else list)
    return _list_decoder(decoder(arguments[0] if arguments else Any, known), make)


def _scalar(kind: Any) -> Decode:
    if kind in (Any, object):
        return lambda value, where: value
    if kind is float:
        return _float
    if kind is int:
        return _int
    wanted = type(None) if kind is None else kind
    what = {str: "a text", bool: "true or false"}.get(kind, "null")

    def decode(value: Any, where: str) -> Any:
        if type(value) is not wanted:
            raise Mismatch(where, f"{what} is expected")
        return value

    return decode


def _float(value: Any, where: str) -> float:
    if type(value) is not float and type(value) is not int:
        raise Mismatch(where, "a number is expected")
    return float(value)


def _int(value: Any, where: str) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON Schema takes 1.0 for an integer
        return int(value)
    raise Mismatch(where, "an integer is expected")


def _text(kind: Any) -> Decode:
    make = _TEXTS[kind][1]

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, str):
            raise Mismatch(where, "a text is expected")
        try:
            return make(value)
        except (ValueError, binascii.Error) as error:
            raise Mismatch(where, str(error)) from None

    return decode


def _chooser(values: Mapping[Any, Any]) -> Decode:
    def decode(value: Any, where: str) -> Any:
        try:
            return values[value]
        except (KeyError, TypeError):
            allowed = ", ".join(repr(value) for value in values)
            raise Mismatch(where, f"one of {allowed} is expected") from None

    return decode


def _union_decoder(options: list[Decode]) -> Decode:
    def decode(value: Any, where: str) -> Any:
        reasons = []
        for option in options:
            try:
                return option(value, where)
            except Mismatch as mismatch:
                reasons.append(mismatch)
        # The last one is mostly that it is not null, which says nothing.
        raise reasons[0]

    return decode


def _list_decoder(item: Decode, make: Callable[[Any], Any]) -> Decode:
    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise Mismatch(where, "a list is expected")
        return make([item(one, f"{where}[{index}]") for index, one in enumerate(value)])

    return decode


def _tuple_decoder(items: list[Decode]) -> Decode:
    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise Mismatch(where, f"a list of {len(items)} is expected")
        return tuple(item(one, f"{where}[{index}]") for index, (item, one) in enumerate(zip(items, value)))

    return decode


def _map_decoder(item: Decode) -> Decode:
    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(where, "an object is expected")
        return {key: item(one, _at(where, key)) for key, one in value.items()}

    return decode


def object_decoder(make: Callable[..., Any], members: list[Member]) -> Decode:
    """What reads an object with these fields, and calls `make` with them by name."""
    return _object_decoder(None, make, members, {})


def _object_decoder(
    kind: Any, make: Callable[..., Any], members: list[Member], known: dict[Any, Decode]
) -> Decode:
    fields: dict[str, Decode] = {}
    required = [member.name for member in members if member.required]

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(where, "an object is expected")
        found: dict[str, Any] = {}
        for name, one in value.items():
            field = fields.get(name)
            if field is None:
                raise Mismatch(where, f"there is no field {name!r}")
            found[name] = field(one, _at(where, name))
        for name in required:
            if name not in found:
                raise Mismatch(_at(where, name), "it is missing")
        try:
            return make(**found)
        except ValueError as error:  # what a dataclass checks in `__post_init__`
            raise Mismatch(where, str(error)) from error

    if kind is not None:
        known[kind] = decode
    fields.update((member.name, decoder(member.hint, known)) for member in members)
    return decode


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
