"""From values to JSON."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import pathlib
import uuid
from typing import Any


def dumps(value: Any) -> str:
    """JSON text of a value of any type that a schema can be made of."""
    return json.dumps(value, default=_default, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def plain(value: Any) -> Any:
    """The same as JSON's own types."""
    return json.loads(dumps(value))


def _default(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # What is None by default and still None does not apply: absent, not null.
        return {
            field.name: one
            for field in dataclasses.fields(value)
            if (one := getattr(value, field.name)) is not None or field.default is not None
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (pathlib.PurePath, uuid.UUID)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} does not become JSON")
