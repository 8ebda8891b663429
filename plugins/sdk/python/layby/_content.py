"""What a tool can return beside text and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Text:
    """A text, where it stands among other content; alone, a ``str`` will do."""

    text: str


@dataclass(frozen=True)
class Image:
    """An image: its bytes and media type."""

    data: bytes
    mime_type: str


@dataclass(frozen=True)
class Audio:
    """A sound: its bytes and media type."""

    data: bytes
    mime_type: str


@dataclass(frozen=True)
class ResourceLink:
    """A resource that the client may read by itself."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True)
class EmbeddedResource:
    """A resource with its contents: text or bytes."""

    uri: str
    contents: str | bytes
    mime_type: str | None = None


@dataclass(frozen=True)
class Raw:
    """Any MCP content block as it is, for what the others cannot say (annotations, ``_meta``)."""

    block: dict[str, Any]


Content: TypeAlias = Text | Image | Audio | ResourceLink | EmbeddedResource | Raw

#: For ``isinstance``.
CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource, Raw)


@dataclass(frozen=True)
class Structured(Generic[T]):
    """Data, with words of its own beside it for people.

    A tool that returns ``Structured[Summary]`` has the schema of ``Summary`` as its output schema.
    """

    data: T
    #: What the result says in words, or any content.
    text: str | Sequence[str | Content]


@dataclass(frozen=True)
class ToolResult:
    """A result in full."""

    content: Sequence[str | Content] = ()
    #: Anything that becomes a JSON object.
    structured: Any = None
    #: The result's ``_meta``.
    meta: dict[str, Any] | None = None
