"""Between this package's values and the bindings that componentize-py generates."""

from __future__ import annotations

import json
import logging
import random
import sys
from typing import Any, NoReturn

from componentize_py_types import Err
from wit_world.imports import call, store, types
from wit_world.imports import logging as wasi_logging

from . import _content, _errors, _host, _preload  # noqa: F401
from ._host import Kind, Level, Listing, Reply, Request
from ._json import dumps
from ._result import Wire
from ._tool import Ended, Tool, registered, serve


def list_tools() -> list[types.Tool]:
    return [_tool(tool) for tool in registered.values()]


def call_tool(name: str, arguments: str) -> types.ToolResult:
    # The state that was made at build time is in the component: the same numbers in every call.
    random.seed()
    try:
        outcome = serve(name, arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    if isinstance(outcome, Wire):
        return _result(outcome)
    raise Err(_error(outcome))


def _tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            tool.read_only, tool.destructive, tool.idempotent, tool.open_world
        ),
        extra=tool.extra,
    )


def _result(wire: Wire) -> types.ToolResult:
    return types.ToolResult([_block(one) for one in wire.content], wire.structured, wire.meta)


def _block(content: _content.Content) -> types.Content:
    match content:
        case _content.Text(text):
            return types.Content_Text(text)
        case _content.Image(data, mime_type):
            return types.Content_Image(types.Media(data, mime_type))
        case _content.Audio(data, mime_type):
            return types.Content_Audio(types.Media(data, mime_type))
        case _content.ResourceLink(uri, name, title, description, link_type):
            link = types.ResourceLink(uri, name, title, description, link_type)
            return types.Content_ResourceLink(link)
        case _content.EmbeddedResource(uri, contents, resource_type):
            inside: types.ResourceContents = (
                types.ResourceContents_Text(contents)
                if isinstance(contents, str)
                else types.ResourceContents_Blob(contents)
            )
            return types.Content_Embedded(types.EmbeddedResource(uri, resource_type, inside))
        case _content.Raw(block):
            return types.Content_Other(dumps(block))


def _error(ended: Ended) -> types.ToolError:
    match ended.how:
        case "failed":
            return types.ToolError_Failed(_result(ended.wire or Wire([])))
        case "protocol":
            return types.ToolError_Protocol(types.ProtocolError(ended.code, ended.message, ended.data))
        case "unsupported":
            return types.ToolError_Unsupported()
        case "cancelled":
            return types.ToolError_Cancelled()


class Sandboxed:
    """The real host."""

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        call.report_progress(progress, total, message)

    def check_cancelled(self) -> bool:
        return call.check_cancelled()

    def log(self, level: Level, message: str) -> None:
        call.log(call.LogLevel[level.upper()], message)

    def supports(self, kind: Kind) -> bool:
        return call.supports(call.QuestionKind[kind.upper()])

    def tell_changed(self, what: Listing | None, contents: str | None) -> None:
        if contents is not None:
            call.changed(call.Change_Contents(contents))
        match what:
            case "tools":
                call.changed(call.Change_Tools())
            case "prompts":
                call.changed(call.Change_Prompts())
            case "resources":
                call.changed(call.Change_Resources())

    def request_input(self, requests: list[Request]) -> list[Reply]:
        try:
            answers = call.request_input([_request(request) for request in requests])
        except Err as error:
            _raise(error)
        return [_reply(answer) for answer in answers]

    def get_config(self, key: str) -> str | None:
        return store.get(key)


def _request(request: Request) -> call.InputRequest:
    question: call.Question
    match request.kind:
        case "form":
            question = call.Question_Form(call.FormQuestion(request.message, dumps(request.data)))
        case "url":
            question = call.Question_Url(call.UrlQuestion(request.message, request.url))
        case "sampling":
            question = call.Question_Sampling(dumps(request.data))
        case "roots":
            question = call.Question_Roots()
    return call.InputRequest(request.key, question)


def _reply(answer: call.InputAnswer) -> Reply:
    match answer:
        case call.InputAnswer_Accepted(text):
            return Reply("accept", json.loads(text))
        case call.InputAnswer_Declined():
            return Reply("decline")
        case call.InputAnswer_Dismissed():
            return Reply("dismiss")


def _raise(error: Err[Any]) -> NoReturn:
    match error.value:
        case call.InputError_Unsupported():
            raise _errors.Unsupported from None
        case call.InputError_TimedOut():
            raise _errors.TimedOut from None
        case call.InputError_Cancelled():
            raise _errors.Cancelled from None
        case call.InputError_Invalid(reason):
            raise _errors.InvalidQuestion(f"the question is malformed: {reason}") from None
    raise error


class OperatorsLog(logging.Handler):
    """The standard library's ``logging`` goes to the operator's log, with the logger's name as context."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            wasi_logging.log(_level(record.levelno), record.name, self.format(record))
        except Exception:
            self.handleError(record)


def _level(number: int) -> wasi_logging.Level:
    steps = (
        (logging.DEBUG, wasi_logging.Level.TRACE),
        (logging.INFO, wasi_logging.Level.DEBUG),
        (logging.WARNING, wasi_logging.Level.INFO),
        (logging.ERROR, wasi_logging.Level.WARN),
        (logging.CRITICAL, wasi_logging.Level.ERROR),
    )
    return next((level for below, level in steps if number < below), wasi_logging.Level.CRITICAL)


_host.enter(Sandboxed())
logging.getLogger().addHandler(OperatorsLog())
