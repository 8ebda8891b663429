"""Write Layby plugins in Python: a tool is a typed function with one decorator.

    from dataclasses import dataclass
    from typing import Annotated

    from layby import ask, tool

    @dataclass
    class Who:
        name: Annotated[str, "Your name"]

    @tool(read_only=True)
    def greet(name: Annotated[str | None, "Whom to greet"] = None) -> str:
        \"\"\"Greets somebody.\"\"\"
        if name is None:
            who = ask(Who, "What is your name?").value
            name = who.name if who else "whoever you are"
        return f"Hello, {name}!"

Every call runs in an instance of its own: nothing is kept from one call to the next. The modules'
own code runs once, when the component is built, and all imports have to be made there: an ``import``
inside a function finds nothing. Files, environment and configuration are there in a call, as far as
the operator's policy grants them.
"""

from ._ask import (
    Accepted,
    Answer,
    Declined,
    Dismissed,
    Form,
    Question,
    Root,
    Roots,
    Sampling,
    Url,
    ask,
    ask_all,
)
from ._call import cancelled, changed, check, config, log, progress, supports
from ._content import Audio, Content, EmbeddedResource, Image, Raw, ResourceLink, Structured, Text, ToolResult
from ._errors import AskError, Cancelled, InvalidQuestion, ProtocolError, TimedOut, ToolError, Unsupported
from ._exports import Tools
from ._field import Field
from ._tool import tool

__all__ = [
    "Accepted",
    "Answer",
    "AskError",
    "Audio",
    "Cancelled",
    "Content",
    "Declined",
    "Dismissed",
    "EmbeddedResource",
    "Field",
    "Form",
    "Image",
    "InvalidQuestion",
    "ProtocolError",
    "Question",
    "Raw",
    "ResourceLink",
    "Root",
    "Roots",
    "Sampling",
    "Structured",
    "Text",
    "TimedOut",
    "ToolError",
    "ToolResult",
    "Tools",
    "Unsupported",
    "Url",
    "ask",
    "ask_all",
    "cancelled",
    "changed",
    "check",
    "config",
    "log",
    "progress",
    "supports",
    "tool",
]
