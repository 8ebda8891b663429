"""`summarize_table`: statistics for each column of a CSV file."""

import io
from dataclasses import dataclass
from typing import Annotated, TextIO

from columns import Column, Tally
from layby import Structured, ToolError, ask, check, progress, tool
from reader import Table


@dataclass
class Summary:
    """What a table is made of."""

    rows: Annotated[int, "Rows without the header"]
    columns: list[Column]
    key: Annotated[str | None, "The column that identifies a row"] = None
    duplicates: Annotated[int | None, "Rows whose key is empty or was seen before"] = None


@dataclass
class KeyColumn:
    key: str


@tool(title="Summarize a table", read_only=True)
def summarize_table(
    csv: Annotated[str | None, "The table itself, as CSV text with a header line."] = None,
    path: Annotated[
        str | None, "Path of a CSV file in a granted folder, such as /tables/people.csv."
    ] = None,
    key: Annotated[
        str | None, "Name of the column that identifies a row; found or asked for where it is not given."
    ] = None,
) -> Structured[Summary]:
    """Statistics for each column of a CSV file, and which column identifies a row."""
    if csv is not None and path is None:
        return summarize(io.StringIO(csv.removeprefix("\ufeff"), newline="\n"), key)
    if path is None or csv is not None:
        raise ToolError("give either csv or path")
    try:
        with opened(path) as lines:
            return summarize(lines, key)
    except IsADirectoryError as error:
        raise ToolError(f"cannot read {path}: it is a folder") from error
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror or error}") from error


def opened(path: str) -> TextIO:
    """A file as `Table` reads it."""
    try:
        return open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    except ValueError as error:  # no path at all, such as one with a null byte
        raise ToolError(f"cannot read {path}: {error}") from error


def summarize(lines: TextIO, key: str | None) -> Structured[Summary]:
    """Reads the whole table, and asks for its key where nothing tells it."""
    table = Table(lines)
    if key is not None and key not in table.names:
        there_are = ", ".join(f'"{name}"' for name in table.names)
        raise ToolError(f'there is no column "{key}"; there are {there_are}')
    rows, tallies = count(table)
    summary = Summary(rows, [tally.column() for tally in tallies])
    if key is None and rows:
        key = find_key(summary) or ask_for_key(table.names)
    if key is not None:
        chosen = summary.columns[table.names.index(key)]
        summary.key, summary.duplicates = key, rows - chosen.distinct
    return Structured(summary, in_words(summary))


def count(table: Table) -> tuple[int, list[Tally]]:
    """Reads all rows, and says how far it has come."""
    tallies = [Tally(name) for name in table.names]
    rows = 0
    for chunk in table.chunks():
        for tally, cells in zip(tallies, zip(*chunk)):
            tally.add(cells)
        rows += len(chunk)
        if rows % 1000 == 0:
            check()
            progress(rows, message=f"{rows} rows")
    if rows:
        check()
        progress(rows, rows, f"{rows} rows")
    return rows, tallies


def find_key(summary: Summary) -> str | None:
    """The first column that has a different value in every row."""
    unique = (column.name for column in summary.columns if column.distinct == summary.rows)
    return next(unique, None)


def ask_for_key(names: list[str]) -> str | None:
    """The column that the caller says is the key, if any."""
    question = "No column has a different value in every row. Which one identifies a row?"
    answer = ask(KeyColumn, question, choices={"key": names}).value
    return answer.key if answer else None


def in_words(summary: Summary) -> str:
    """The summary as a text for people."""
    key = f"key: {summary.key}" if summary.key is not None else "no key"
    duplicates = f", {summary.duplicates} duplicates" if summary.duplicates else ""
    first = f"{summary.rows} rows, {len(summary.columns)} columns, {key}{duplicates}"
    return "\n".join([first, *map(line_of, summary.columns)])


def line_of(column: Column) -> str:
    """One column in words."""
    parts = [f"{column.name}: {column.type}", f"{column.values} values"]
    if column.missing:
        parts.append(f"{column.missing} missing")
    if column.type != "empty":
        parts.append(f"{column.distinct} distinct")
    if column.type == "integer":
        parts.append(f"{column.min} to {column.max}")
    elif column.type == "number":
        parts.append(f"{column.min:.2f} to {column.max:.2f}")
    elif column.type == "text":
        parts.append(f"{column.shortest} to {column.longest} characters")
    if column.mean is not None:
        parts.append(f"mean {column.mean:.2f}")
    return ", ".join(parts)
