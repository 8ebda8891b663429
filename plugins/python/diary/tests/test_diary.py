"""A whole diary, without the sandbox."""

import os
import tempfile
import unittest

import app
from layby.testing import Host


class Diary(unittest.TestCase):
    def test_diary_is_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            host = Host(answers={"day": {"value": "yes"}})
            told = host.call(app.write_diary, {"folder": folder, "days": 1})
            self.assertEqual(told.text, "day 1")
            self.assertEqual([question.message for question in host.asked], ["Is day 1 over?"])
            self.assertEqual(os.listdir(os.path.join(folder, "pages")), [])
