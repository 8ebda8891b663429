"""A CSV file as a stream of rows, with its faults told by line."""

import csv
from collections.abc import Iterator
from itertools import chain, islice
from typing import TextIO

from layby import ToolError

#: Rows that are read, counted and reported at once.
CHUNK = 1000
# The default is 128 KiB; a field may be as long as memory allows.
csv.field_size_limit(2**31 - 1)


class Table:
    """A CSV file behind its header.

    `lines` ends its lines at line feeds only, as `open(…, newline="\\n")` does: so a record with a line
    feed in quotes has one more line for each. Bytes that are not UTF-8 come as lone surrogates
    (`errors="surrogateescape"`), which tells their record better than an exception of the decoder.
    """

    def __init__(self, lines: TextIO) -> None:
        self._records = csv.reader(lines, strict=True)
        #: Where the next record starts.
        self._line = 1
        self.names: list[str] = []
        for record in self._read(1):
            self.names = self._header(record)
        if not self.names:
            raise ToolError("line 1: the table has no header")

    def chunks(self) -> Iterator[list[list[str]]]:
        """The rows, `CHUNK` at a time."""
        while rows := self._read(CHUNK):
            yield rows

    def _read(self, count: int) -> list[list[str]]:
        """The next records without blank lines: `count` of them, unless the table ends."""
        rows: list[list[str]] = []
        while len(rows) < count:
            records: list[list[str]] = []
            try:
                # Where it fails, the records before the fault are in the list all the same.
                records.extend(islice(self._records, count - len(rows)))
            except csv.Error as error:
                self._find_fault(records)
                raise self._fault(_reason(error)) from None
            if not records:
                break
            if not self._is_sound(records):
                self._find_fault(records)
            self._line = self._records.line_num + 1
            rows += filter(None, records)
        return rows

    def _is_sound(self, records: list[list[str]]) -> bool:
        """Have all the right number of fields, in UTF-8?"""
        if self.names and not {0, len(self.names)}.issuperset(map(len, records)):
            return False
        return _is_unicode("".join(chain.from_iterable(records)))

    def _find_fault(self, records: list[list[str]]) -> None:
        """Raises the first fault among `records`; where there is none, goes to the line behind them."""
        for record in records:
            if self.names and record and len(record) != len(self.names):
                raise self._fault(f"{len(record)} fields, and the header has {len(self.names)}")
            text = "".join(record)
            if not _is_unicode(text):
                raise self._fault("not UTF-8")
            self._line += 1 + text.count("\n")

    def _header(self, record: list[str]) -> list[str]:
        self._line -= 1 + "".join(record).count("\n")
        names = [cell.strip(" \t") for cell in record]
        for number, name in enumerate(names, 1):
            if not name:
                raise self._fault(f"column {number} has no name")
            if name in names[: number - 1]:
                raise self._fault(f'two columns are named "{name}"')
        self._line = self._records.line_num + 1
        return names

    def _fault(self, what: str) -> ToolError:
        """A fault of the record that starts on the current line."""
        return ToolError(f"line {self._line}: {what}")


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: csv.Error) -> str:
    said = str(error)
    if "unexpected end" in said:
        return "a quoted field is not closed"
    if "expected after" in said:
        return "text follows the end of a quoted field"
    if "new-line" in said:
        return "a carriage return without a line feed"
    return said
