"""The tools of `trial` that end by themselves."""

import contextlib
import io
import unittest

import app
from layby import Cancelled
from layby.testing import Host


class Tools(unittest.TestCase):
    def test_echo(self) -> None:
        self.assertEqual(app.echo("x"), "x")

    def test_fail(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            result = Host().call(app.fail, {"message": "exactly"})
        self.assertEqual((result.text, result.is_error), ("exactly", True))
        self.assertIn("RuntimeError: exactly", stderr.getvalue())

    def test_ask(self) -> None:
        host = Host(answers={"first": {"value": "one"}, "second": "dismiss"})
        self.assertEqual(host.call(app.ask).text, "first: one, second: dismissed")
        self.assertEqual([question.message for question in host.asked], ["The first?", "The second?"])

    def test_config(self) -> None:
        host = Host(config={"color": "blue"})
        self.assertEqual(host.call(app.config, {"key": "color"}).text, "blue")
        self.assertEqual(host.call(app.config, {"key": "size"}).text, "no value")

    def test_wait(self) -> None:
        host = Host(cancel_after=2)
        with self.assertRaises(Cancelled):
            host.call(app.wait)
        self.assertEqual([done for done, _, _ in host.progress], [1, 2, 3])
        self.assertEqual(host.logged, [("notice", "stopped on request")])

    def test_log(self) -> None:
        host = Host()
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(host.call(app.log).text, "logged")
        self.assertEqual(host.logged, [("notice", "a line by the call")])

    def test_rounds(self) -> None:
        self.assertEqual(app.fnv1a(b"foobar"), 0x85944171F73967E8)
        host = Host(answers={"round": {"value": "a"}, "round_2": "decline", "round_3": "dismiss"})
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            result = host.call(app.rounds, {"sleep_ms": 2})
        self.assertFalse(result.is_error, result.text)
        self.assertEqual(stdout.getvalue(), "round 1\nround 2\nround 3\n")
        self.assertEqual(host.progress, [(1, 3, None), (2, 3, None), (3, 3, None)])
        drawn = []
        for number, question in enumerate(host.asked, 1):
            self.assertEqual(question.key, "round")
            self.assertRegex(question.message or "", rf"^round {number}: [0-9a-f]{{16}}$")
            drawn.append((question.message or "").removeprefix(f"round {number}: "))
        self.assertEqual(len(set(drawn)), 3)
        lines = f"1 {drawn[0]} a\n2 {drawn[1]} declined\n3 {drawn[2]} dismissed"
        self.assertEqual(result.text, f"{lines}\ndigest {app.fnv1a(lines.encode()):016x}")
