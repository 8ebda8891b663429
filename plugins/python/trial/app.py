"""A test guest: what a plugin's kit must pass on."""

import logging
import os
import secrets
import sys
import time
from dataclasses import dataclass
from typing import Annotated

import layby
from layby import Declined, Dismissed, Field, Form, ask_all, tool


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


@dataclass
class Round:
    """What a round leaves in memory."""

    number: int
    drawn: int
    wall: int
    begun: int
    answer: str = ""

    def __str__(self) -> str:
        return f"{self.number} {self.drawn:016x} {self.answer}"


@tool
def rounds(
    rounds: Annotated[int, Field(ge=1, le=100, description="How many rounds.")] = 3,
    sleep_ms: Annotated[
        int, Field(ge=0, le=3_600_000, description="How long to sleep after each answer, in milliseconds.")
    ] = 0,
) -> str:
    """Draws a number, asks about it and sleeps, round after round, and tells all at the end."""
    kept: list[Round] = []
    for number in range(1, rounds + 1):
        # Not `random`, which was seeded when the component was built.
        one = Round(number, secrets.randbits(64), time.time_ns(), time.monotonic_ns())
        kept.append(one)
        layby.progress(number, rounds)
        print(f"round {number}")
        one.answer = said(layby.ask(Value, f"round {number}: {one.drawn:016x}", key="round"))

        asleep = time.monotonic_ns()
        time.sleep(sleep_ms / 1000)
        awake = time.monotonic_ns()
        if any(awake < one.begun for one in kept):
            raise layby.ToolError("the clock went back")
        if awake - asleep < sleep_ms * 1_000_000:
            raise layby.ToolError("slept too little")
    text = "\n".join(map(str, kept))
    return f"{text}\ndigest {fnv1a(text.encode()):016x}"


def fnv1a(data: bytes) -> int:
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value
