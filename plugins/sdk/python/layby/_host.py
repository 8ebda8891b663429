"""What a call may ask of its host: the real one in the sandbox, a stand-in elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Level: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical"]
Kind: TypeAlias = Literal["form", "url", "sampling", "roots"]
#: A list that has changed.
Listing: TypeAlias = Literal["tools", "prompts", "resources"]


@dataclass(frozen=True)
class Request:
    """A question as the host takes it."""

    #: What the caller sees as the request's key, such as ``user_name``.
    key: str
    kind: Kind
    message: str = ""
    #: The schema of a form, or the parameters of ``sampling/createMessage``.
    data: Any = None
    url: str = ""


@dataclass(frozen=True)
class Reply:
    """An answer as the host gives it."""

    action: Literal["accept", "decline", "dismiss"]
    #: A form's content, ``{}`` for a URL, or MCP's result object.
    content: Any = None


class Host(Protocol):
    """The host's functions."""

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    def check_cancelled(self) -> bool: ...

    def log(self, level: Level, message: str) -> None: ...

    def supports(self, kind: Kind) -> bool: ...

    def tell_changed(self, what: Listing | None, contents: str | None) -> None: ...

    def request_input(self, requests: list[Request]) -> list[Reply]: ...

    def get_config(self, key: str) -> str | None: ...


class _Nobody:
    """Outside the sandbox and without a stand-in: nothing is cancelled, and nobody answers."""

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        pass

    def check_cancelled(self) -> bool:
        return False

    def log(self, level: Level, message: str) -> None:
        pass

    def supports(self, kind: Kind) -> bool:
        return False

    def tell_changed(self, what: Listing | None, contents: str | None) -> None:
        pass

    def request_input(self, requests: list[Request]) -> list[Reply]:
        from ._errors import Unsupported

        raise Unsupported

    def get_config(self, key: str) -> str | None:
        return None


_hosts: list[Host] = [_Nobody()]


def current() -> Host:
    """The host of the running call. A plugin has one thread, and so has a test of it."""
    return _hosts[-1]


def enter(host: Host) -> None:
    _hosts.append(host)


def leave() -> None:
    _hosts.pop()
