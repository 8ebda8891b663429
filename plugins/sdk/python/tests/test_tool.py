"""Tools, called as the host calls them."""

import contextlib
import io
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import layby
from layby import (
    Accepted,
    Cancelled,
    Declined,
    Dismissed,
    Form,
    Image,
    ProtocolError,
    Roots,
    Sampling,
    Structured,
    Text,
    ToolError,
    ToolResult,
    Unsupported,
    Url,
    ask,
    ask_all,
    tool,
)
from layby._tool import make, registered
from layby.testing import Host, definition


@dataclass
class Who:
    name: Annotated[str, "Your name"]


@dataclass
class Sum:
    total: int
    note: str | None = None


@tool(title="Greet", read_only=True)
def greet(name: str | None = None) -> str:
    """Greets somebody."""
    if name is None:
        who = ask(Who, "What is your name?").value
        name = who.name if who else "whoever you are"
    layby.progress(1, 2, "half")
    layby.check()
    return f"Hello, {name}!"


@tool
def add(numbers: list[int]) -> Sum:
    """Adds numbers."""
    if not numbers:
        raise ToolError("nothing to add", structured={"total": 0})
    return Sum(sum(numbers))


@tool
def add_in_words(numbers: list[int]) -> Structured[Sum]:
    """Adds numbers, and says so."""
    return Structured(Sum(sum(numbers), "done"), f"It is {sum(numbers)}.")


@tool
def words(text: str) -> list[str]:
    """Splits a text."""
    return text.split()


@tool
def picture() -> list[str | Image]:
    """Draws."""
    return ["This:", Image(b"png", "image/png")]


@tool
def anything(what: str):  # type: ignore[no-untyped-def]
    """Returns what it likes."""
    return {
        "none": None,
        "dict": {"a": 1},
        "number": 7,
        "full": ToolResult(["x"], {"a": 1}, {"m": 2}),
    }[what]


@tool
def wrong(how: str) -> str:
    """Fails."""
    if how == "key":
        return {"a": "b"}[how]
    if how == "empty":
        raise RuntimeError
    if how == "protocol":
        raise ProtocolError(7, "not now", {"a": 1})
    if how == "exit":
        raise SystemExit("bye")
    if how == "stop":
        try:
            raise Cancelled
        except Exception:
            return "swallowed"
    raise ValueError(how)


@tool
def several() -> str:
    """Asks everything at once."""
    who, url, model, roots = ask_all(
        Form(Who, "Who?"), Url("https://example.com/", "Open it"), Sampling.text("Hi", max_tokens=9), Roots()
    )
    assert isinstance(url, (Accepted, Declined))
    names = [root.name for root in roots.value or []]
    return f"{who.value} {type(url).__name__} {model.value} {names}"


@contextlib.contextmanager
def stack() -> Iterator[io.StringIO]:
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        yield stderr


class Tools(unittest.TestCase):
    def test_stay_functions(self) -> None:
        self.assertEqual(greet("Ada"), "Hello, Ada!")
        self.assertEqual(add([1, 2]), Sum(3))

    def test_are_listed(self) -> None:
        listed = definition("greet")
        self.assertEqual((listed.title, listed.description), ("Greet", "Greets somebody."))
        self.assertIs(listed.read_only, True)
        self.assertIsNone(listed.output_schema)
        self.assertIsNotNone(definition(add).output_schema)

    def test_have_names_of_their_own(self) -> None:
        with self.assertRaisesRegex(ValueError, "two tools 'greet'"):
            tool(greet)
        with self.assertRaisesRegex(ValueError, "no name of a tool"):
            make(greet, name="two words")
        self.assertIn("greet", registered)

    def test_export_themselves_from_their_module(self) -> None:
        self.assertIn("Tools", greet.__globals__)

    def test_results(self) -> None:
        host = Host()
        result = host.call(add, {"numbers": [1, 2]})
        self.assertEqual((result.text, result.structured, result.is_error), ('{"total":3}', {"total": 3}, False))
        result = host.call(add_in_words, {"numbers": [1]})
        self.assertEqual((result.text, result.structured), ("It is 1.", {"total": 1, "note": "done"}))
        self.assertEqual(host.call(words, {"text": "a b"}).structured, {"result": ["a", "b"]})
        self.assertEqual(host.call(picture).content, [Text("This:"), Image(b"png", "image/png")])
        self.assertEqual(host.call(anything, {"what": "none"}).content, [])
        self.assertEqual(host.call(anything, {"what": "dict"}).structured, {"a": 1})
        self.assertEqual(host.call(anything, {"what": "number"}).text, "7")
        full = host.call(anything, {"what": "full"})
        self.assertEqual((full.text, full.structured, full.meta), ("x", {"a": 1}, {"m": 2}))

    def test_failures(self) -> None:
        host = Host()
        result = host.call(add, {"numbers": []})
        self.assertEqual((result.text, result.is_error, result.structured), ("nothing to add", True, {"total": 0}))
        result = host.call(add, {"numbers": ["x"]})
        self.assertEqual(result.text, "the arguments do not fit: numbers[0]: an integer is expected")
        for how, text in [
            ("just so", "just so"),
            ("key", "KeyError: 'key'"),
            ("empty", "RuntimeError"),
            ("exit", "bye"),
        ]:
            with self.subTest(how), stack() as stderr:
                result = host.call(wrong, {"how": how})
                self.assertEqual((result.text, result.is_error), (text, True))
                self.assertIn("Traceback", stderr.getvalue())
                self.assertIn("in wrong", stderr.getvalue())
                self.assertNotIn("in serve", stderr.getvalue())

    def test_an_expected_failure_has_no_stack(self) -> None:
        with stack() as stderr:
            Host().call(add, {"numbers": []})
        self.assertEqual(stderr.getvalue(), "")

    def test_the_hosts_own_errors(self) -> None:
        with self.assertRaises(ProtocolError) as caught:
            Host().call(wrong, {"how": "protocol"})
        self.assertEqual((caught.exception.code, caught.exception.data), (7, {"a": 1}))
        with self.assertRaises(Cancelled):
            Host().call(wrong, {"how": "stop"})
        with self.assertRaises(Unsupported):
            Host().call(greet)


class Calls(unittest.TestCase):
    def test_a_question_is_a_call(self) -> None:
        answers: list[tuple[Any, str]] = [
            ({"name": "Ada"}, "Ada"),
            (Who("Ada"), "Ada"),
            (Accepted(Who("Ada")), "Ada"),
            (Declined(), "whoever you are"),
            (Dismissed(), "whoever you are"),
            ("dismiss", "whoever you are"),
        ]
        for answer, name in answers:
            with self.subTest(answer=answer), Host(answers={"who": answer}) as host:
                self.assertEqual(greet(), f"Hello, {name}!")
                self.assertEqual([question.key for question in host.asked], ["who"])
                self.assertEqual(host.progress, [(1.0, 2.0, "half")])

    def test_several_questions_at_once(self) -> None:
        answers = {
            "who": Who("Ada"),
            "url": "accept",
            "sampling": {"role": "assistant"},
            "roots": {"roots": [{"uri": "file:///x", "name": "x"}]},
        }
        host = Host(answers=answers)
        result = host.call(several)
        self.assertEqual(result.text, "Who(name='Ada') Accepted {'role': 'assistant'} ['x']")
        self.assertEqual([question.kind for question in host.asked], ["form", "url", "sampling", "roots"])

    def test_an_answer_that_does_not_fit(self) -> None:
        with Host(answers={"who": {"name": 1}}), self.assertRaisesRegex(layby.InvalidQuestion, "name: a text"):
            greet()

    def test_a_key_that_comes_again_is_numbered(self) -> None:
        with Host(answers={"who": Who("A"), "who_2": Who("B")}):
            self.assertEqual([greet(), greet()], ["Hello, A!", "Hello, B!"])

    def test_cancellation(self) -> None:
        with Host(cancel_after=1):
            greet("Ada")
            with self.assertRaises(Cancelled):
                greet("Ada")

    def test_the_rest(self) -> None:
        with Host(config={"color": "blue"}, answers={"x": {}}, can_answer=["form"]) as host:
            self.assertEqual(layby.config("color"), "blue")
            self.assertEqual(layby.config("size", "large"), "large")
            self.assertTrue(layby.supports("form"))
            self.assertFalse(layby.supports("url"))
            layby.log("hello", "notice")
            layby.changed("tools")
            layby.changed(contents="notes:///a")
        self.assertEqual(host.logged, [("notice", "hello")])
        self.assertEqual(host.changed, ["tools", "notes:///a"])
