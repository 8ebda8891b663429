"""A stand-in for the host, so that tools can be tested with any ordinary test runner.

    from layby.testing import Host

    def test_greets_who_answers():
        with Host(answers={"who": {"name": "Ada"}}) as host:
            assert greet() == "Hello, Ada!"
        assert host.asked[0].message == "What is your name?"

Outside the sandbox and without a `Host`, a call is never cancelled, and every question is unsupported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from . import _host
from ._ask import KINDS, Accepted, Declined, Dismissed
from ._content import Content, Text
from ._errors import Cancelled, ProtocolError, Unsupported
from ._host import Kind, Level, Listing, Reply, Request
from ._json import dumps, plain
from ._result import Wire
from ._tool import Ended, Tool, registered, serve

__all__ = ["Host", "Request", "Result", "definition"]


@dataclass(frozen=True)
class Result:
    """A call's result as its caller gets it."""

    content: list[Content]
    structured: Any
    is_error: bool
    meta: Any = None

    @property
    def text(self) -> str:
        """Its texts, joined by newlines."""
        return "\n".join(one.text for one in self.content if isinstance(one, Text))


@dataclass
class Host:
    """A host that answers as it is told, and remembers what a tool said.

    ``answers`` are by the question's key: a form's content (a dataclass or a dictionary), `Declined()` or
    `Dismissed()`, or as in the file of ``layby call --answers`` ``"accept"``, ``"decline"`` and
    ``"dismiss"``. A question without an answer is unsupported.
    """

    answers: Mapping[str, Any] = field(default_factory=dict)
    #: The policy's ``grants.config``.
    config: Mapping[str, str] = field(default_factory=dict)
    #: How many checks for cancellation say no before the call is cancelled; None: all.
    cancel_after: int | None = None
    #: The kinds of question that the client can answer; None: all, where there are answers.
    can_answer: Collection[Kind] | None = None

    #: The questions that were put so far.
    asked: list[Request] = field(default_factory=list, init=False)
    #: The progress that was reported so far: done, total, message.
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list, init=False)
    #: What was logged so far: level, message.
    logged: list[tuple[Level, str]] = field(default_factory=list, init=False)
    #: What was said to have changed so far: a list, or a resource's URI.
    changed: list[str] = field(default_factory=list, init=False)
    _used: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __enter__(self) -> Host:
        _host.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        _host.leave()

    def call(self, tool: str | Callable[..., Any], arguments: Mapping[str, Any] | None = None) -> Result:
        """Calls a tool as the host does: arguments as JSON, and the result as it crosses the boundary.

        Raises `Cancelled`, `Unsupported` or `ProtocolError` where the call ends so.
        """
        with self:
            outcome = serve(definition(tool).name, dumps(dict(arguments or {})))
        if isinstance(outcome, Wire):
            return _result(outcome, is_error=False)
        return _result(_failed(outcome), is_error=True)

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))

    def check_cancelled(self) -> bool:
        if self.cancel_after is None:
            return False
        self.cancel_after -= 1
        return self.cancel_after < 0

    def log(self, level: Level, message: str) -> None:
        self.logged.append((level, message))

    def supports(self, kind: Kind) -> bool:
        return kind in (KINDS if self.can_answer is None else self.can_answer) and bool(self.answers)

    def tell_changed(self, what: Listing | None, contents: str | None) -> None:
        self.changed.append(contents if what is None else what)  # type: ignore[arg-type]

    def request_input(self, requests: list[Request]) -> list[Reply]:
        self.asked.extend(requests)
        if not all(self.supports(request.kind) for request in requests):
            raise Unsupported
        return [self._answer(request.key) for request in requests]

    def get_config(self, key: str) -> str | None:
        return self.config.get(key)

    def _answer(self, key: str) -> Reply:
        times = self._used[key] = self._used.get(key, 0) + 1
        key = key if times == 1 else f"{key}_{times}"
        if key not in self.answers:
            raise Unsupported
        answer = self.answers[key]
        if isinstance(answer, Declined) or answer == "decline":
            return Reply("decline")
        if isinstance(answer, Dismissed) or answer == "dismiss":
            return Reply("dismiss")
        if answer == "accept":
            return Reply("accept", {})
        return Reply("accept", plain(answer.value if isinstance(answer, Accepted) else answer))


def definition(tool: str | Callable[..., Any]) -> Tool:
    """What the host lists of a tool: by its name, or by its function."""
    for one in registered.values():
        if tool in (one.name, one.function):
            return one
    raise LookupError(f"there is no tool {tool!r}")


def _failed(ended: Ended) -> Wire:
    if ended.how == "cancelled":
        raise Cancelled
    if ended.how == "unsupported":
        raise Unsupported
    if ended.wire is None:
        raise ProtocolError(ended.code, ended.message, _parsed(ended.data))
    return ended.wire


def _result(wire: Wire, *, is_error: bool) -> Result:
    return Result(wire.content, _parsed(wire.structured), is_error, _parsed(wire.meta))


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)
