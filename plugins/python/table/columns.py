"""Statistics of a table's columns, kept up chunk by chunk.

Python is slow in the sandbox, and a table may have millions of cells: so nothing here runs once per
cell but the built-in functions, which are compiled.
"""

import math
import operator
import re
from dataclasses import dataclass, field
from functools import reduce
from itertools import repeat
from typing import Annotated, Literal, TypeAlias

Kind: TypeAlias = Literal["integer", "number", "boolean", "text", "empty"]

# Of all cells at once, joined by a character that a cell rarely has.
_JOINT = "\0"
_INTEGERS = re.compile(r"(?:[+-]?[0-9]{1,15}\0)*+")
_NUMBERS = re.compile(r"(?:[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,3}+)?\0)*+")
_BOOLEANS = {"true", "false"}
# Of a sum that is no finite number.
_UNIT = 2.0**-64


@dataclass
class Column:
    """What is said of one column."""

    name: str
    type: Annotated[Kind, "What all its values are"]
    values: Annotated[int, "Cells that are not empty"]
    missing: Annotated[int, "Empty cells"]
    distinct: Annotated[int, "Different values"]
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    shortest: Annotated[int | None, "Characters of the shortest value"] = None
    longest: Annotated[int | None, "Characters of the longest value"] = None


@dataclass
class Tally:
    """What is known of one column so far."""

    name: str
    values: int = 0
    missing: int = 0
    seen: set[str] = field(default_factory=set)
    #: What the column may still turn out to be, if all later cells are like the earlier ones.
    may_be: set[Kind] = field(default_factory=lambda: {"integer", "number", "boolean"})
    min: float = math.inf
    max: float = -math.inf
    #: The sum is `sum / unit`; see `_add_up`.
    sum: float = 0.0
    unit: float = 1.0
    shortest: int | None = None
    longest: int = 0

    def add(self, cells: tuple[str, ...]) -> None:
        """Counts the next cells."""
        trimmed = map(str.strip, cells, repeat(" \t"))
        values = list(filter(None, trimmed))
        self.missing += len(cells) - len(values)
        if not values:
            return
        self.values += len(values)
        fresh = set(values) - self.seen
        if fresh:
            self.seen |= fresh
            self._judge(fresh)
            lengths = list(map(len, fresh))
            self.longest = max(self.longest, *lengths)
            self.shortest = min(lengths if self.shortest is None else [self.shortest, *lengths])
        if "number" in self.may_be:
            self._measure(values)

    def _judge(self, fresh: set[str]) -> None:
        """Strikes out what the column cannot be, now that these are among its values."""
        if not self.may_be:
            return
        joined = _JOINT.join(fresh) + _JOINT
        if joined.count(_JOINT) != len(fresh):  # a cell has the joint in it
            self.may_be.clear()
        if "integer" in self.may_be and not _INTEGERS.fullmatch(joined):
            self.may_be.discard("integer")
        if "number" in self.may_be and "integer" not in self.may_be and not _NUMBERS.fullmatch(joined):
            self.may_be.discard("number")
        if "boolean" in self.may_be and not _BOOLEANS.issuperset(map(str.lower, fresh)):
            self.may_be.discard("boolean")

    def _measure(self, values: list[str]) -> None:
        numbers = list(map(float, values))
        self.min = min(self.min, *numbers)
        self.max = max(self.max, *numbers)
        if math.isinf(self.min) or math.isinf(self.max):  # such as 1e999
            self.may_be.discard("number")
        self._add_up(numbers)

    def _add_up(self, numbers: list[float]) -> None:
        """Adds to the sum, which of finite numbers may be none: from where it is too large on, it is kept in
        units of 2^64, which is as exact. No table has so many rows that even that ends.
        """
        # Not the built-in `sum`: it compensates for rounding, and the sum is to be the plain one.
        unit = self.unit
        total = reduce(operator.add, numbers if unit == 1 else map(unit.__mul__, numbers), self.sum)
        if math.isfinite(total) or "number" not in self.may_be:
            self.sum = total
            return
        for number in numbers:
            total = self.sum + number * self.unit
            if not math.isfinite(total):
                self.unit = _UNIT
                total = self.sum * _UNIT + number * _UNIT
            self.sum = total

    def _mean(self) -> float:
        mean = self.sum / self.values / self.unit
        # What was rounded up could lie beyond all numbers.
        return mean if self.unit == 1 else min(max(mean, self.min), self.max)

    def column(self) -> Column:
        """What is known at the end."""
        column = Column(self.name, self._type(), self.values, self.missing, len(self.seen))
        if column.type == "integer":
            column.min, column.max = int(self.min), int(self.max)
        elif column.type == "number":
            column.min, column.max = self.min, self.max
        if column.type in ("integer", "number"):
            column.mean = self._mean()
        if column.type == "text":
            column.shortest, column.longest = self.shortest, self.longest
        return column

    def _type(self) -> Kind:
        if not self.values:
            return "empty"
        order: tuple[Kind, ...] = ("integer", "number", "boolean")
        return next((kind for kind in order if kind in self.may_be), "text")
