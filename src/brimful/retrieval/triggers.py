"""Lore is told when it is spoken of: entries whose keys occur in what was said last, and those that always stand."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from brimful.records import LoreEntry

SCAN_DEPTH: Final = 4  # the last messages that are looked through, beside the one to be answered


def triggered(entries: Iterable[LoreEntry], text: str) -> list[LoreEntry]:
    """Return the entries that are constant, or one of whose keys stands in the text as a word of its own.

    >>> world = LoreEntry(id="e1", lorebook="w", content="Eldoria is a forest.", keys=("Eldoria", "the woods"))
    >>> [entry.id for entry in triggered([world], "Tell me of ELDORIA!")], triggered([world], "Eldorian tea")
    (['e1'], [])
    """
    spoken = text.casefold()
    return [entry for entry in entries if entry.enabled and (entry.constant or _spoken_of(entry.keys, spoken))]


def _spoken_of(keys: tuple[str, ...], spoken: str) -> bool:
    plain = (key.strip().casefold() for key in keys)
    return any(key and key in spoken and _word(key).search(spoken) for key in plain)


@lru_cache(maxsize=8192)
def _word(key: str) -> re.Pattern[str]:
    """Return a pattern for the key where no letter goes on; scripts without spaces have no such edges."""
    before = r"(?<!\w)" if key[0].isascii() and key[0].isalnum() else ""
    after = r"(?!\w)" if key[-1].isascii() and key[-1].isalnum() else ""
    return re.compile(before + re.escape(key) + after)
