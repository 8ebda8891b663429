"""What is said of one parameter or field beside its type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Field:
    """Bounds and words for a parameter or a field: ``age: Annotated[int, Field(ge=0, le=150)]``.

    Objects of the package ``annotated-types`` (``Ge``, ``Le``, ``MinLen`` …) are understood too, and a
    plain string in ``Annotated`` is the description.
    """

    description: str | None = None
    title: str | None = None
    #: Not less than this.
    ge: float | None = None
    #: Greater than this.
    gt: float | None = None
    #: Not greater than this.
    le: float | None = None
    #: Less than this.
    lt: float | None = None
    multiple_of: float | None = None
    #: Of a text in characters, of a list in items.
    min_length: int | None = None
    max_length: int | None = None
    #: A regular expression, as JSON Schema has it.
    pattern: str | None = None
    #: JSON Schema's ``format``, such as ``email`` or ``uri``.
    format: str | None = None
    examples: tuple[Any, ...] | None = None

    KEYWORDS: ClassVar[dict[str, str]] = {
        "description": "description",
        "title": "title",
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "lt": "exclusiveMaximum",
        "multiple_of": "multipleOf",
        "min_length": "minLength",
        "max_length": "maxLength",
        "pattern": "pattern",
        "format": "format",
        "examples": "examples",
    }


def keywords(metadata: Iterable[Any], kind: Any) -> dict[str, Any]:
    """The JSON Schema keywords that the objects in an ``Annotated`` stand for; ``kind`` is the schema's type."""
    found: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, str):
            found["description"] = " ".join(item.split())
            continue
        for name, keyword in Field.KEYWORDS.items():
            value = getattr(item, name, None)
            # Methods of foreign objects may have these names too.
            if value is None or callable(value):
                continue
            if kind in ("array", ["array", "null"]):
                keyword = {"minLength": "minItems", "maxLength": "maxItems"}.get(keyword, keyword)
            found[keyword] = list(value) if isinstance(value, tuple) else value
    return found
