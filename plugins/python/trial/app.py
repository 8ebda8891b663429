"""A test guest: what a plugin's kit must pass on."""

import logging
import os
import sys
import time
from dataclasses import dataclass

import layby
from layby import Declined, Dismissed, Form, ask_all, tool


@tool
def echo(text: str) -> str:
    """Gives the text back."""
    return text


@tool
def fail(message: str) -> str:
    """Raises an exception that nothing catches."""
    raise RuntimeError(message)


@tool
def trap() -> None:
    """Ends the instance in a hard way."""
    os.abort()


@tool
def spin() -> None:
    """Loops without end."""
    while True:
        pass


@tool
def wait() -> None:
    """Waits until it is cancelled."""
    rounds = 0
    while True:
        rounds += 1
        layby.progress(rounds)
        if layby.cancelled():
            layby.log("stopped on request", "notice")
            raise layby.Cancelled
        time.sleep(0.02)


@dataclass
class Value:
    value: str


@tool
def ask() -> str:
    """Asks two questions at once."""
    first, second = ask_all(
        Form(Value, "The first?", key="first"),
        Form(Value, "The second?", key="second"),
    )
    return f"first: {said(first)}, second: {said(second)}"


def said(answer: layby.Answer[Value]) -> str:
    """An answer in a word."""
    match answer:
        case layby.Accepted(Value(value)):
            return value
        case Declined():
            return "declined"
        case Dismissed():
            return "dismissed"


@tool
def config(key: str) -> str:
    """The value of a key of the plugin's configuration."""
    return layby.config(key, "no value")


@tool
def log() -> str:
    """Writes one line in each way that there is."""
    logging.getLogger("trial").warning("a line by wasi:logging")
    layby.log("a line by the call", "notice")
    print("a line on standard error", file=sys.stderr)
    print("a line on standard output")
    return "logged"
