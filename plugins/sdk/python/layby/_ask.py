"""Questions to the caller: a normal call that returns the answer, perhaps days later."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

from . import _host
from ._errors import InvalidQuestion
from ._form import form_schema
from ._host import Reply, Request
from ._shape import Decode, Mismatch, decoder

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Accepted(Generic[T_co]):
    """The caller gave an answer."""

    value: T_co


@dataclass(frozen=True)
class Declined:
    """The caller said no."""

    @property
    def value(self) -> None:
        """None: there is no answer."""


@dataclass(frozen=True)
class Dismissed:
    """The caller closed the question without saying yes or no."""

    @property
    def value(self) -> None:
        """None: there is no answer."""


#: What became of a question. ``answer.value`` is what was answered, or None.
Answer: TypeAlias = Accepted[T] | Declined | Dismissed


class Question(Generic[T_co]):
    """A question; `Form`, `Url`, `Sampling` or `Roots`."""

    request: Request
    _decode: Decode

    def _read(self, reply: Reply) -> Accepted[T_co] | Declined | Dismissed:
        if reply.action == "decline":
            return Declined()
        if reply.action == "dismiss":
            return Dismissed()
        try:
            return Accepted(self._decode(reply.content, ""))
        except Mismatch as mismatch:
            raise InvalidQuestion(f"the answer to {self.request.key!r} does not fit: {mismatch}") from None


class Form(Question[T]):
    """A form with the fields of a dataclass or a ``TypedDict``.

    Fields are texts, numbers, booleans, dates, choices of texts (``Literal``, enums) and lists of such
    choices; one with a default need not be filled in. ``Annotated`` and `Field` describe them.
    Where a text's choices are known only now, ``choices`` has them by the field's name. ``key`` names the
    question to the client; it is the class's name in snake case where it is left out.
    """

    def __init__(
        self,
        fields: type[T],
        message: str,
        *,
        key: str | None = None,
        choices: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        schema = form_schema(fields, choices or {})
        self.request = Request(key or _snake(fields.__name__), "form", message=message, data=schema)
        self._decode = decoder(fields)


class Url(Question[None]):
    """A page that the caller is asked to open. Accepting means agreeing to open it, no more."""

    def __init__(self, url: str, message: str, *, key: str = "url") -> None:
        self.request = Request(key, "url", message=message, url=url)
        self._decode = lambda value, where: None


class Sampling(Question[dict[str, Any]]):
    """Asks the client's model: the parameters of MCP's ``sampling/createMessage``, answered by its result."""

    def __init__(self, params: Mapping[str, Any], *, key: str = "sampling") -> None:
        self.request = Request(key, "sampling", data=dict(params))
        self._decode = lambda value, where: value

    @classmethod
    def text(cls, prompt: str, *, max_tokens: int, key: str = "sampling") -> Sampling:
        """One text from the user, without a system prompt."""
        message = {"role": "user", "content": {"type": "text", "text": prompt}}
        return cls({"messages": [message], "maxTokens": max_tokens}, key=key)


@dataclass(frozen=True)
class Root:
    """A folder or file that the client's user works on."""

    uri: str
    name: str | None = None


class Roots(Question[list[Root]]):
    """Asks the client for its roots."""

    def __init__(self, *, key: str = "roots") -> None:
        self.request = Request(key, "roots")
        self._decode = _roots


def _roots(value: Any, where: str) -> list[Root]:
    try:
        return [Root(root["uri"], root.get("name")) for root in value["roots"]]
    except (KeyError, TypeError, AttributeError):
        raise Mismatch(where, "a list of roots is expected") from None


@overload
def ask(question: Question[T], /) -> Answer[T]: ...


@overload
def ask(
    fields: type[T],
    message: str,
    /,
    *,
    key: str | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> Answer[T]: ...


def ask(what: Any, message: str = "", /, **options: Any) -> Any:
    """Asks the caller one question, and waits for the answer, perhaps for days.

    ``ask(Person, "Who are you?")`` is short for ``ask(Form(Person, "Who are you?"))``. The answer is
    `Accepted`, `Declined` or `Dismissed`; ``.value`` of each is what was answered, or None.

    Raises `Unsupported` where the caller's client cannot answer or policy forbids asking, `Cancelled`
    where the call is cancelled meanwhile, and `TimedOut`.
    """
    question = what if isinstance(what, Question) else Form(what, message, **options)
    return _put([question])[0]


@overload
def ask_all(q1: Question[T1], q2: Question[T2], /) -> tuple[Answer[T1], Answer[T2]]: ...


@overload
def ask_all(
    q1: Question[T1], q2: Question[T2], q3: Question[T3], /
) -> tuple[Answer[T1], Answer[T2], Answer[T3]]: ...


@overload
def ask_all(
    q1: Question[T1], q2: Question[T2], q3: Question[T3], q4: Question[T4], /
) -> tuple[Answer[T1], Answer[T2], Answer[T3], Answer[T4]]: ...


@overload
def ask_all(*questions: Question[T]) -> tuple[Answer[T], ...]: ...


def ask_all(*questions: Question[Any]) -> tuple[Any, ...]:
    """Puts several questions at once, and waits until each is answered: the answers in their order."""
    return tuple(_put(questions))


def _put(questions: Sequence[Question[Any]]) -> list[Answer[Any]]:
    replies = _host.current().request_input([question.request for question in questions])
    if len(replies) != len(questions):
        raise InvalidQuestion(f"{len(replies)} answers came to {len(questions)} questions")
    return [question._read(reply) for question, reply in zip(questions, replies)]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().strip("_")


#: The kinds of question that `supports` knows.
KINDS: tuple[Literal["form", "url", "sampling", "roots"], ...] = ("form", "url", "sampling", "roots")
