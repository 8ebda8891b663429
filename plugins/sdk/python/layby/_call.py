"""What a running tool can tell its host, and learn from it."""

from __future__ import annotations

from typing import overload

from . import _host
from ._errors import Cancelled
from ._host import Kind, Level, Listing


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Says how far the call has come. The host drops values that do not increase, and may thin out the rest."""
    _host.current().report_progress(float(done), None if total is None else float(total), message)


def cancelled() -> bool:
    """True once the caller has asked for cancellation. The call is stopped by force when its grace period ends."""
    return _host.current().check_cancelled()


def check() -> None:
    """Raises `Cancelled` once the caller has asked for it.

    Call it before every effect that others can see, and now and then in a long loop.
    """
    if cancelled():
        raise Cancelled


def log(message: str, level: Level = "info") -> None:
    """A line for the operator's log, and for the caller's client where it asked for log messages.

    The standard library's ``logging`` works too; its lines go to the operator alone.
    """
    _host.current().log(level, message)


def supports(kind: Kind) -> bool:
    """Can the caller's client answer this kind of question, and may this plugin ask it?"""
    return _host.current().supports(kind)


@overload
def changed(what: Listing) -> None: ...


@overload
def changed(*, contents: str) -> None: ...


def changed(what: Listing | None = None, *, contents: str | None = None) -> None:
    """Says that a list has changed, or the contents of the resource with the URI ``contents``."""
    _host.current().tell_changed(what, contents)


@overload
def config(key: str) -> str | None: ...


@overload
def config(key: str, default: str) -> str: ...


def config(key: str, default: str | None = None) -> str | None:
    """The value that the plugin's policy file has for ``key`` under ``grants.config``."""
    value = _host.current().get_config(key)
    return default if value is None else value
