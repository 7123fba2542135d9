"""Lorebooks: thousands of entries against the last messages, beside SillyTavern's own way of looking for them.

SillyTavern runs in a browser. Its loop is written here in Python as its source has it: for each entry, the messages are
joined and changed to lower case, and each key is searched for in them, by a pattern where it is to be a whole word.
"""

import argparse
import random
import re
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from brimful.lore import LoreIndex, Turn, activate
from brimful.records import Lorebook, LoreEntry
from tables import Section, duration, table
from texts import Texts

SIZES = (100, 1_000, 10_000)
DEPTH = 10  # messages that are looked through
CHARACTERS = 600  # of a message
MENTIONS = 2  # names of the book in a message
T = TypeVar("T")
_SYLLABLES = (
    *("ael", "bor", "cyn", "dra", "el", "fen", "gar", "hil", "ith", "jor", "kal", "lor", "mir"),
    *("nev", "or", "pel", "qua", "ryn", "sol", "tar", "ul", "ven", "wyn", "yr", "zan"),
)


def report(data: Path | None = None, *, quick: bool) -> Section:
    sizes = SIZES[:2] if quick else SIZES
    rows = [row(size, data, whole=whole) for whole in (True, False) for size in sizes]
    return Section(
        title="Lorebooks",
        about=f"Activating the entries for a new message. An entry has three keywords; the last {DEPTH} messages of "
        f"about {CHARACTERS} characters are scanned, each with {MENTIONS} names from the book. An index is built once "
        "for each version of a book. `new message` scans one new message after nine that were seen before, `all new` "
        "ten new ones. Times are processor times, medians of several runs. SillyTavern's loop is a Python port of its "
        "source; if it activates other entries, the run fails.",
        tables=(
            table(
                [
                    "keywords",
                    "entries",
                    "activated",
                    "build index",
                    "new message",
                    "all new",
                    "SillyTavern",
                    "times faster",
                ],
                rows,
                words=1,
            ),
        ),
    )


def row(size: int, data: Path | None, *, whole: bool) -> list[str]:
    entries, turns = workload(size, data)
    book = Lorebook(id="world", scan_depth=DEPTH, whole_words=whole)
    ready, shelf = timed(lambda: LoreIndex({"world": book}, entries))
    activated = activated_by_us(shelf, turns[:DEPTH])
    theirs, found = timed(lambda: activated_by_loop(entries, turns[:DEPTH], whole=whole))
    if activated != found:
        raise SystemExit(f"the two disagree about {sorted(activated ^ found)[:5]}")
    fresh = [timed(partial(activated_by_us, shelf, turns[at : at + DEPTH]))[0] for at in range(20, 120, 10)]
    seen = [timed(partial(activated_by_us, shelf, turns[at : at + DEPTH]))[0] for at in range(139, 119, -1)]
    turn = statistics.median(seen[1:])
    return [
        "whole words" if whole else "anywhere",
        f"{size:,}",
        f"{len(activated):,}",
        *map(duration, (ready, turn, statistics.median(fresh), theirs)),
        f"{theirs / turn:,.0f}×",
    ]


def workload(size: int, data: Path | None) -> tuple[list[LoreEntry], list[Turn]]:
    """Return entries with names as keys, and messages in which some of them are named."""
    chance, texts = random.Random(size), Texts(size, data)
    names = [name(chance) for _ in range(3 * size)]
    entries = [
        LoreEntry(
            id=f"entry-{at}",
            lorebook="world",
            content=texts.prose(200),
            keys=tuple(names[3 * at : 3 * at + 3]),
        )
        for at in range(size)
    ]
    lines = [" ".join([texts.prose(CHARACTERS), *(chance.choice(names) for _ in range(MENTIONS))]) for _ in range(150)]
    return entries, [Turn(id=f"m{at}", number=150 - at, text=text) for at, text in enumerate(lines)]


def name(chance: random.Random) -> str:
    word = "".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(2, 4))).title()
    return f"{word} {chance.choice(('Keep', 'of the Vale', 'Hill', 'the Old'))}" if chance.random() < 0.25 else word


def activated_by_us(shelf: LoreIndex, turns: list[Turn]) -> set[str]:
    return {each.entry.id for each in activate(shelf, turns, seed="room", count_tokens=lambda _: 0).activated}


def activated_by_loop(entries: list[LoreEntry], turns: list[Turn], *, whole: bool) -> set[str]:
    activated = set()
    for entry in sorted(entries, key=lambda entry: -entry.order):
        text = "\x01" + "\n\x01".join(turn.text.strip() for turn in turns)
        if any(stands_in(text, key.strip(), whole=whole) for key in entry.keys):
            activated.add(entry.id)
    return activated


def stands_in(haystack: str, needle: str, *, whole: bool) -> bool:
    haystack, needle = haystack.lower(), needle.lower()
    if not whole or len(needle.split()) > 1:
        return needle in haystack
    return re.search(rf"(?:^|\W)({re.escape(needle)})(?:$|\W)", haystack, re.ASCII) is not None


def timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    print(report(options.data, quick=options.quick).markdown())
