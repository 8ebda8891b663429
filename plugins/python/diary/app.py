"""A test guest: it writes files, with waits in between."""

import os
from dataclasses import dataclass

import layby
from layby import tool


@dataclass
class Value:
    value: str


@tool
def write_diary(folder: str, days: int = 3) -> str:
    """Writes a line and a page each day, asks before the next, and tells at the end what is there."""
    pages = f"{folder}/pages"
    os.mkdir(pages)
    with open(f"{folder}/diary", "a", encoding="utf-8") as diary:
        for day in range(1, days + 1):
            print(f"day {day}", file=diary, flush=True)
            draft = f"{pages}/draft"
            with open(draft, "w", encoding="utf-8") as page:
                page.write(f"page {day}: " + "x" * 10_000)
            os.replace(draft, f"{pages}/{day}")
            layby.ask(Value, f"Is day {day} over?", key="day")
    os.remove(f"{pages}/1")
    with open(f"{folder}/diary", encoding="utf-8") as diary:
        lines = diary.read().split()
    return " ".join(lines + sorted(os.listdir(pages)))
