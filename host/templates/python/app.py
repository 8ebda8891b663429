"""The plugin {{name}}: one tool, which asks a question."""

from dataclasses import dataclass
from typing import Annotated

from layby import ask, check, progress, tool


@dataclass
class Who:
    name: Annotated[str, "Your name"]


@tool(read_only=True)
def greet(
    name: Annotated[str | None, "Their name. Where it is missing, the tool asks for it."] = None,
) -> str:
    """Greets somebody."""
    progress(0, 1, "thinking of a greeting")
    check()  # ends here if the caller has cancelled
    if name is None:
        who = ask(Who, "Whom shall I greet?").value  # None where it was declined or dismissed
        name = who.name if who else "whoever you are"
    return f"Hello, {name}!"
