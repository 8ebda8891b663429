"""From a typed function to a tool."""

from __future__ import annotations

import inspect
import json
import re
import sys
import traceback
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from ._errors import Cancelled, ProtocolError, ToolError, Unsupported
from ._json import dumps
from ._result import Returns, Wire, failure, returns, to_wire
from ._shape import MISSING, Decode, Member, Mismatch, Writer, object_decoder

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Tool:
    """A tool, as the host lists and calls it."""

    name: str
    title: str | None
    description: str
    function: Callable[..., Any]
    input_schema: str
    output_schema: str | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    extra: str | None
    decode: Decode
    returns: Returns


@dataclass(frozen=True)
class Ended:
    """How a call ended that did not succeed."""

    how: Literal["failed", "protocol", "unsupported", "cancelled"]
    #: Of `failed`.
    wire: Wire | None = None
    #: Of `protocol`.
    code: int = 0
    message: str = ""
    data: str | None = None


#: All tools of the plugin, by name.
registered: dict[str, Tool] = {}


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
) -> Callable[[F], F]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a tool of a function: ``@tool``, or ``@tool(title="…", read_only=True)``.

    Its name and docstring are the tool's, and the type hints of its parameters become the schema of
    the arguments. A parameter with a default is optional; ``Annotated[str, "…"]`` describes one, and
    `Field` has bounds. A dataclass, a ``TypedDict`` or any other data as return type becomes the output
    schema; ``str`` and content are returned as they are.

    The function itself stays as it is: it can be called, and tested, like any other.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made = make(function, **options)
        if made.name in registered:
            raise ValueError(f"there are two tools {made.name!r}")
        registered[made.name] = made
        # The component's exports are looked for in the plugin's own module.
        from ._exports import Tools

        function.__globals__.setdefault("Tools", Tools)
        return function

    return decorate if function is None else decorate(function)


def make(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
) -> Tool:
    """The tool that a function is."""
    name = name or function.__name__
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
        raise ValueError(f"{name!r} is no name of a tool: it has 1 to 128 of A-Z a-z 0-9 _ - .")
    description = description or inspect.getdoc(function)
    if not description:
        raise TypeError(f"{name} needs a docstring: a model reads it to know what the tool does")
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name}: write a plain def; a question and progress are normal calls")
    hints = typing.get_type_hints(function, include_extras=True)
    members = parameters(function, name, hints)
    writer = Writer("input")
    kind, output = returns(hints.get("return"), annotated="return" in hints)
    extra = {key: value for key, value in (("icons", icons), ("_meta", meta)) if value is not None}
    return Tool(
        name=name,
        title=title,
        description=description,
        function=function,
        input_schema=dumps(writer.finish(writer.object(members, closed=True))),
        output_schema=None if output is None else dumps(output),
        read_only=read_only,
        destructive=destructive,
        idempotent=idempotent,
        open_world=open_world,
        extra=dumps(extra) if extra else None,
        decode=object_decoder(dict, members),
        returns=kind,
    )


def parameters(function: Callable[..., Any], name: str, hints: dict[str, Any]) -> list[Member]:
    """A function's parameters as an object's fields."""
    members = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: a tool's arguments have names, and {parameter} has none")
        if parameter.name not in hints:
            raise TypeError(f"{name}: the parameter {parameter.name} needs a type hint")
        required = parameter.default is parameter.empty
        default = MISSING if required else parameter.default
        members.append(Member(parameter.name, hints[parameter.name], required, default))
    return members


def serve(name: str, arguments: str) -> Wire | Ended:
    """Serves one call as the host asks for it."""
    tool = registered.get(name)
    if tool is None:
        return Ended("protocol", code=-32602, message=f"this plugin has no tool {name!r}")
    try:
        try:
            values = tool.decode(json.loads(arguments), "")
        except Mismatch as mismatch:
            return Ended("failed", failure(f"the arguments do not fit: {mismatch}"))
        return to_wire(tool.function(**values), tool.returns)
    except Cancelled:
        return Ended("cancelled")
    except Unsupported:
        return Ended("unsupported")
    except ProtocolError as error:
        data = None if error.data is None else dumps(error.data)
        return Ended("protocol", code=error.code, message=str(error), data=data)
    except ToolError as error:
        return Ended("failed", failure(str(error), error.content, error.structured))
    except (Exception, SystemExit) as error:
        # The stack is for the operator's log; it says more of the plugin than a caller is to know.
        inner = error.__traceback__ and error.__traceback__.tb_next  # without this function's own line
        traceback.print_exception(type(error), error, inner, file=sys.stderr)
        return Ended("failed", failure(message_of(error)))


def message_of(error: BaseException) -> str:
    """What an exception says for itself."""
    message = str(error)
    # A `KeyError` says no more than the key, and others say nothing at all.
    if isinstance(error, KeyError) or not message:
        return f"{type(error).__name__}: {message}".removesuffix(": ")
    return message
