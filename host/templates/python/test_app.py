import unittest

from app import greet
from layby import Cancelled, Declined
from layby.testing import Host


class Greet(unittest.TestCase):
    def test_greets_by_name(self):
        with Host() as host:
            self.assertEqual(greet("Ada"), "Hello, Ada!")
        self.assertEqual(len(host.progress), 1)
        self.assertEqual(host.asked, [])

    def test_asks_for_a_missing_name(self):
        with Host(answers={"who": {"name": "Grace"}}):
            self.assertEqual(greet(), "Hello, Grace!")
        with Host(answers={"who": Declined()}):
            self.assertEqual(greet(), "Hello, whoever you are!")

    def test_stops_when_cancelled(self):
        with Host(cancel_after=0), self.assertRaises(Cancelled):
            greet("Ada")
