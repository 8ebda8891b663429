"""`summarize_table`, outside the sandbox."""

import io
import tempfile
import unittest
from pathlib import Path
from typing import Any

import app
from columns import Tally
from layby import Cancelled, Declined, Unsupported
from layby.testing import Host, Result, definition

PEOPLE = "id,name\n1,Al\n2,Barbarian\n3,\n4,Al\n5,Cleo\n"


def call(host: Host | None = None, **arguments: Any) -> Result:
    return (host or Host()).call("summarize_table", arguments)


def columns(csv: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call(Host({"key_column": Declined()}), csv=csv).structured["columns"]
    return found


class Summaries(unittest.TestCase):
    def test_the_example(self) -> None:
        result = call(csv=PEOPLE)
        self.assertEqual(
            result.text,
            "5 rows, 2 columns, key: id\n"
            "id: integer, 5 values, 5 distinct, 1 to 5, mean 3.00\n"
            "name: text, 4 values, 1 missing, 3 distinct, 2 to 9 characters",
        )
        first = {"name": "id", "type": "integer", "values": 5, "missing": 0, "distinct": 5}
        second = {"name": "name", "type": "text", "values": 4, "missing": 1, "distinct": 3}
        self.assertEqual(
            result.structured,
            {
                "rows": 5,
                "key": "id",
                "duplicates": 0,
                "columns": [
                    {**first, "min": 1, "max": 5, "mean": 3.0},
                    {**second, "shortest": 2, "longest": 9},
                ],
            },
        )

    def test_types(self) -> None:
        cases: list[tuple[list[str], str]] = [
            (["1", "-2", "+3", "999999999999999"], "integer"),
            (["1", "1000000000000000"], "number"),
            (["1", "2.5", ".5", "1.", "1e3", "1.5E-3"], "number"),
            (["1", "1e999"], "text"),
            (["1", "1e1000"], "text"),
            (["nan"], "text"),
            (["1_000"], "text"),
            (["٣"], "text"),
            (["1\0002"], "text"),
            (["1\n"], "text"),
            (["true", "FALSE", "True"], "boolean"),
            (["true", "1"], "text"),
            (["1", "true"], "text"),
            (["", "  ", "\t"], "empty"),
        ]
        for cells, expected in cases:
            for later in range(len(cells)):
                with self.subTest(cells=cells, later=later):
                    tally = Tally("x")
                    tally.add(tuple(cells[:later]))
                    tally.add(tuple(cells[later:]))
                    self.assertEqual(tally.column().type, expected)

    def test_cells_are_trimmed_and_blank_lines_skipped(self) -> None:
        [a, b] = columns('\ufeff a ,b\r\n\r\n 1\t, "x"\r\n\r\n1,"y\r\nz"\r\n')
        self.assertEqual((a["name"], a["distinct"], a["type"]), ("a", 1, "integer"))
        self.assertEqual((b["distinct"], b["longest"]), (2, 4))

    def test_no_rows(self) -> None:
        result = call(csv="a,b\n")
        self.assertEqual(result.text, "0 rows, 2 columns, no key\na: empty, 0 values\nb: empty, 0 values")
        self.assertNotIn("key", result.structured)

    def test_numbers_in_words(self) -> None:
        result = call(csv="x,y\n-0.5,1\n1e2,1\n")
        self.assertIn("x: number, 2 values, 2 distinct, -0.50 to 100.00, mean 49.75", result.text)

    def test_the_sum_is_the_plain_one(self) -> None:
        [column, _] = columns("x,y\n1e16,a\n1,b\n1,c\n-1e16,d\n")
        self.assertEqual(column["mean"], 0.0)

    def test_a_sum_too_large_has_a_mean(self) -> None:
        cases = [
            ("1e308 1.7e308", 1.35e308),
            ("-1e308 -1.7e308 1", -9e307),
            ("1.7e308 1.7e308 -1.7e308 -1.7e308", 0.0),
            ("1.7976931348623157e308 " * 3, 1.7976931348623157e308),
            # Chunk after chunk.
            ("1.7e308 " * 2500, 1.7e308),
        ]
        for cells, mean in cases:
            rows = "\n".join(f"{number},{cell}" for number, cell in enumerate(cells.split()))
            [_, column] = columns(f"key,a\n{rows}\n")
            self.assertAlmostEqual(column["mean"] / 1e308, mean / 1e308, 12)


class Keys(unittest.TestCase):
    CSV = "a,b\n1,x\n1,y\n2,\n2,y\n"

    def test_is_asked_for(self) -> None:
        host = Host({"key_column": {"key": "b"}})
        result = call(host, csv=self.CSV)
        [question] = host.asked
        self.assertEqual(question.key, "key_column")
        self.assertEqual(
            question.data,
            {
                "type": "object",
                "properties": {"key": {"type": "string", "enum": ["a", "b"]}},
                "required": ["key"],
            },
        )
        self.assertTrue(result.text.startswith("4 rows, 2 columns, key: b, 2 duplicates\n"))

    def test_may_stay_unknown(self) -> None:
        self.assertIn("no key", call(Host({"key_column": "dismiss"}), csv=self.CSV).text)
        with self.assertRaises(Unsupported):
            call(csv=self.CSV)

    def test_is_given(self) -> None:
        host = Host()
        self.assertEqual(call(host, csv=self.CSV, key="a").structured["duplicates"], 2)
        self.assertEqual(host.asked, [])
        self.assertEqual(
            call(csv=self.CSV, key="z").text, 'there is no column "z"; there are "a", "b"'
        )


class Faults(unittest.TestCase):
    def test_are_told_by_line(self) -> None:
        for csv, text in [
            ("", "line 1: the table has no header"),
            ("\n\n", "line 1: the table has no header"),
            ("\na,,c\n", "line 2: column 2 has no name"),
            ("a,b, a\n", 'line 1: two columns are named "a"'),
            ('"a\nb",c\n1\n', "line 3: 1 fields, and the header has 2"),
            ("a,b\n1,2\n\n1,2,3\n", "line 4: 3 fields, and the header has 2"),
            ('a,b\n"1\n\n",2\n3\n', "line 5: 1 fields, and the header has 2"),
            ('a,b\n1,2\n1,"x\ny\n', "line 3: a quoted field is not closed"),
            ('a,b\n"x', "line 2: a quoted field is not closed"),
            ('"a', "line 1: a quoted field is not closed"),
            ('a,b\n1\n1,"x\ny\n', "line 2: 1 fields, and the header has 2"),
            ('a,b\n1,"x"y\n', "line 2: text follows the end of a quoted field"),
            ("a,b\n1,2\r3,4\n", "line 2: a carriage return without a line feed"),
        ]:
            with self.subTest(csv=csv):
                result = call(csv=csv)
                self.assertEqual((result.text, result.is_error), (text, True))

    def test_far_down_too(self) -> None:
        rows = "".join(f'{n},"x\ny"\n' for n in range(2500))
        self.assertEqual(call(csv=f"a,b\n{rows}1\n").text, "line 5002: 1 fields, and the header has 2")

    def test_either_csv_or_path(self) -> None:
        self.assertEqual(call().text, "give either csv or path")
        self.assertEqual(call(csv="a\n", path="x").text, "give either csv or path")


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "t.csv")

    def read(self, contents: bytes) -> Result:
        self.path.write_bytes(contents)
        return call(path=str(self.path))

    def test_are_read(self) -> None:
        result = self.read(b"\xef\xbb\xbfid,name\r\n1,\xc3\xa9\xc3\xa9\r\n2,x\r\n")
        self.assertIn("name: text, 2 values, 2 distinct, 1 to 2 characters", result.text)

    def test_bytes_that_are_not_utf8(self) -> None:
        self.assertEqual(self.read(b"a,b\n1,2\n3,\xff\n4\n").text, "line 3: not UTF-8")
        self.assertEqual(self.read(b"a,\xff\n").text, "line 1: not UTF-8")
        self.assertEqual(self.read(b"a,b\n1\n3,\xff\n").text, "line 2: 1 fields, and the header has 2")

    def test_that_are_not_there(self) -> None:
        for path in [str(self.path), str(self.path.parent), "a\0b"]:
            result = call(path=path)
            self.assertTrue(result.is_error)
            self.assertTrue(result.text.startswith(f"cannot read {path}: "), result.text)

    def test_that_are_folders(self) -> None:
        path = str(self.path.parent)
        self.assertEqual(call(path=path).text, f"cannot read {path}: it is a folder")


class Calls(unittest.TestCase):
    CSV = "n\n" + "".join(f"{n}\n" for n in range(2500))

    def test_progress(self) -> None:
        host = Host()
        call(host, csv=self.CSV)
        self.assertEqual(
            host.progress,
            [(1000, None, "1000 rows"), (2000, None, "2000 rows"), (2500, 2500, "2500 rows")],
        )

    def test_cancellation(self) -> None:
        host = Host(cancel_after=1)
        with self.assertRaises(Cancelled):
            call(host, csv=self.CSV)
        self.assertEqual(len(host.progress), 1)

    def test_definition(self) -> None:
        listed = definition(app.summarize_table)
        self.assertEqual((listed.title, listed.read_only), ("Summarize a table", True))
        self.assertIn('"additionalProperties":false', listed.input_schema)

    def test_a_stream_is_enough(self) -> None:
        self.assertEqual(app.summarize(io.StringIO("a\n1\n", newline="\n"), None).data.rows, 1)
