"""How a call ends when it does not succeed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._content import Content


class ToolError(Exception):
    """The tool ran and failed, and the model is to read why: a result with ``isError: true``.

    Any other exception that leaves a tool ends the call likewise, with its message; the stack goes
    to the operator's log. Raise this one where the failure is expected and nobody needs a stack.
    """

    def __init__(
        self,
        message: str = "",
        *,
        content: Sequence[str | Content] = (),
        structured: Any = None,
    ) -> None:
        super().__init__(message)
        #: What the caller reads after the message.
        self.content = tuple(content)
        #: Structured content beside it, anything that becomes JSON.
        self.structured = structured


class ProtocolError(Exception):
    """The call cannot be served: a JSON-RPC error, and a task ends ``failed``.

    ``code`` lies outside -32768 to -32000, or is -32602 (bad arguments) or -32603.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class AskError(Exception):
    """A question has no answer at all."""


class Unsupported(AskError):
    """The caller's client cannot answer this kind of question, or policy forbids asking it.

    Left alone it ends the call, and the host tells the caller what its client lacks.
    """

    def __init__(self) -> None:
        super().__init__("the client cannot answer this kind of question")


class TimedOut(AskError):
    """No answer came in time (only where the host is set to resume the call)."""

    def __init__(self) -> None:
        super().__init__("no answer came in time")


class InvalidQuestion(AskError):
    """The question is malformed, or its answer does not fit: the reason."""


class Cancelled(BaseException):
    """The caller asked for this call to be cancelled.

    Not an ``Exception``, so that ``except Exception`` does not swallow it by accident. Clean up with
    ``finally``, or catch it and raise it again.
    """

    def __init__(self) -> None:
        super().__init__("the call was cancelled")
