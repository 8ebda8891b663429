"""Schemas of arguments, results and forms."""

import datetime
import enum
import json
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from layby import Field, Form, Image, Structured
from layby._form import form_schema
from layby._result import returns
from layby._shape import Mismatch, Writer, decoder
from layby._tool import Tool, make


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    """Where somebody lives."""

    street: Annotated[str, "With the number"]
    zip: Annotated[str, Field(pattern="^[0-9]{5}$")] = "00000"


@dataclass
class Person:
    name: str
    address: Address | None = None
    tags: list[str] = field(default_factory=list)
    born: datetime.date | None = None


@dataclass
class Tree:
    label: str
    children: "list[Tree]" = field(default_factory=list)


class Movie(TypedDict):
    title: str
    year: NotRequired[Annotated[int, Field(ge=1888)]]


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n <= 0:
            raise ValueError("n has to be positive")


def schema(hint: Any) -> dict[str, Any]:
    return Writer("input").root(hint)


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    made: Tool = make(function)
    parsed: dict[str, Any] = json.loads(made.input_schema)
    return parsed


class Arguments(unittest.TestCase):
    def test_a_function_is_an_object(self) -> None:
        def f(
            text: Annotated[str, "What\n        it says"],
            count: Annotated[int, "How often", Field(ge=1, le=9)] = 3,
            mode: Literal["fast", "slow"] | None = None,
        ) -> str:
            """Does it."""
            return text

        self.assertEqual(
            arguments(f),
            {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "What it says"},
                    "count": {
                        "type": "integer",
                        "description": "How often",
                        "minimum": 1,
                        "maximum": 9,
                        "default": 3,
                    },
                    "mode": {"type": "string", "enum": ["fast", "slow"]},
                },
                "required": ["text"],
                "additionalProperties": False,
            },
        )

    def test_types(self) -> None:
        cases: list[tuple[Any, dict[str, Any]]] = [
            (bool, {"type": "boolean"}),
            (Any, {}),
            (Colour, {"type": "string", "enum": ["red", "blue"]}),
            (Literal[1, "a"], {"enum": [1, "a"]}),
            (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            (float | None, {"type": ["number", "null"]}),
            (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
            (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
            (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
            (datetime.datetime, {"type": "string", "format": "date-time"}),
            (bytes, {"type": "string", "contentEncoding": "base64"}),
            (
                Annotated[list[int], Field(min_length=1)],
                {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            ),
        ]
        for hint, expected in cases:
            with self.subTest(hint=hint):
                self.assertEqual(schema(hint), expected)

    def test_nested_objects_are_written_where_they_are(self) -> None:
        person = schema(Person)
        self.assertEqual(person["required"], ["name"])
        self.assertEqual(person["properties"]["address"]["type"], "object")
        self.assertEqual(person["properties"]["address"]["description"], "Where somebody lives.")
        self.assertNotIn("$defs", person)

    def test_recursive_types_refer_to_themselves(self) -> None:
        tree = schema(Tree)
        self.assertEqual(tree["type"], "object")
        self.assertEqual(tree["properties"]["children"]["items"], {"$ref": "#/$defs/Tree"})
        self.assertIn("Tree", tree["$defs"])

    def test_typed_dictionaries(self) -> None:
        movie = schema(Movie)
        self.assertEqual(movie["required"], ["title"])
        self.assertEqual(movie["properties"]["year"], {"type": "integer", "minimum": 1888})

    def test_what_has_no_schema_is_named(self) -> None:
        with self.assertRaisesRegex(TypeError, "complex has no JSON Schema"):
            schema(complex)
        with self.assertRaisesRegex(TypeError, "only texts as keys"):
            schema(dict[int, str])

    def test_what_is_no_tool_is_refused(self) -> None:
        def undocumented() -> None: ...

        def untyped(x) -> None:  # type: ignore[no-untyped-def]
            """Has no hint."""

        def variadic(*xs: int) -> None:
            """Has no names."""

        async def asynchronous() -> None:
            """Is a coroutine."""

        cases: list[tuple[Callable[..., Any], str]] = [
            (undocumented, "docstring"),
            (untyped, "type hint"),
            (variadic, "have names"),
            (asynchronous, "plain def"),
        ]
        for function, why in cases:
            with self.subTest(why), self.assertRaisesRegex(TypeError, why):
                make(function)


class Values(unittest.TestCase):
    def test_are_read_as_their_types(self) -> None:
        person = decoder(Person)(
            {"name": "Ada", "address": {"street": "1 High St"}, "born": "1815-12-10", "tags": ["x"]}, ""
        )
        self.assertEqual(person, Person("Ada", Address("1 High St"), ["x"], datetime.date(1815, 12, 10)))
        self.assertEqual(decoder(Tree)({"label": "a", "children": [{"label": "b"}]}, "").children, [Tree("b")])
        self.assertIs(decoder(Colour)("blue", ""), Colour.BLUE)
        self.assertEqual(decoder(tuple[int, str])([1, "a"], ""), (1, "a"))
        self.assertEqual(decoder(frozenset[int])([1, 1], ""), frozenset({1}))
        self.assertEqual(decoder(tuple[int, ...])([1, 2], ""), (1, 2))
        self.assertEqual(decoder(bytes)("aGk=", ""), b"hi")
        self.assertEqual(decoder(int)(2.0, ""), 2)
        self.assertIsInstance(decoder(float)(2, ""), float)
        self.assertEqual(decoder(Movie)({"title": "M"}, ""), {"title": "M"})

    def test_that_do_not_fit_say_where(self) -> None:
        cases: list[tuple[Any, Any, str]] = [
            (Person, {"name": "A", "address": {"street": 1}}, "address.street: a text is expected"),
            (Person, {}, "name: it is missing"),
            (Person, {"name": "A", "agee": 1}, "there is no field 'agee'"),
            (list[int], [1, True], r"\[1\]: an integer is expected"),
            (Positive, {"n": 0}, "n has to be positive"),
            (Literal["a", "b"], "c", "one of 'a', 'b' is expected"),
            (Literal["a"], [], "one of 'a' is expected"),
            (datetime.date, "yesterday", "isoformat"),
            (int | None, "x", "an integer is expected"),
            (dict[str, int], [], "an object is expected"),
            (tuple[int, str], [1], "a list of 2 is expected"),
        ]
        for hint, value, why in cases:
            with self.subTest(why), self.assertRaisesRegex(Mismatch, why):
                decoder(hint)(value, "")


class Results(unittest.TestCase):
    def test_what_is_none_by_default_is_not_required(self) -> None:
        kind, output = returns(Structured[Person], annotated=True)
        self.assertEqual(kind, "data")
        assert output is not None
        self.assertEqual(output["required"], ["name", "tags"])
        self.assertEqual(output["properties"]["born"], {"type": "string", "format": "date"})

    def test_kinds(self) -> None:
        for hint, expected in [
            (str, "content"),
            (None, "content"),
            (list[Image | str], "content"),
            (Image | None, "content"),
            (list[str], "wrapped"),
            (int, "wrapped"),
            (Movie, "data"),
            (dict[str, int], "data"),
            (Any, "unknown"),
        ]:
            with self.subTest(hint=hint):
                self.assertEqual(returns(hint, annotated=True)[0], expected)
        self.assertEqual(returns(None, annotated=False), ("unknown", None))


class Forms(unittest.TestCase):
    def test_are_flat(self) -> None:
        @dataclass
        class Order:
            name: Annotated[str, "Who orders", Field(max_length=80, pattern="x")]
            size: Literal["small", "large"]
            day: datetime.date
            count: int = 1
            gift: bool | None = None
            extras: list[Literal["milk", "sugar"]] = field(default_factory=list)

        self.assertEqual(
            form_schema(Order, {}),
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Who orders", "maxLength": 80},
                    "size": {"type": "string", "enum": ["small", "large"]},
                    "day": {"type": "string", "format": "date"},
                    "count": {"type": "integer", "default": 1},
                    "gift": {"type": "boolean"},
                    "extras": {
                        "type": "array",
                        "items": {"type": "string", "enum": ["milk", "sugar"]},
                        "default": [],
                    },
                },
                "required": ["name", "size", "day"],
            },
        )

    def test_nothing_else_is(self) -> None:
        with self.assertRaisesRegex(TypeError, "Person.address: a form has only"):
            form_schema(Person, {})
        with self.assertRaisesRegex(TypeError, "neither"):
            form_schema(int, {})

    def test_choices_can_come_late(self) -> None:
        @dataclass
        class PickOne:
            key: str

        form = Form(PickOne, "Which?", choices={"key": ["a", "b"]})
        self.assertEqual(form.request.key, "pick_one")
        self.assertEqual(form.request.data["properties"]["key"], {"type": "string", "enum": ["a", "b"]})
        with self.assertRaisesRegex(TypeError, "no field 'kay'"):
            Form(PickOne, "Which?", choices={"kay": []})
