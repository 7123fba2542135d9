r"""Keys that are regular expressions, as JavaScript has them: `/dragons?\b/i`.

A pattern comes from a file that anybody may have written, and a hostile one would search for years. So every search has
a time limit, which the library `regex` keeps. An engine that is linear by construction (RE2) would need none, but it
knows no lookaround and no back references, and the books that people have are full of them.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

TIME_LIMIT: Final = 0.05  # seconds for one pattern in one text
MOST_HUNG: Final = 10  # patterns of a book that may take longer; then no further one is tried
MESSAGE: Final = "\x01"  # stands before every message, so that a pattern can say where one begins, as SillyTavern's can

_SLASHED: Final = re.compile(r"/([\w\W]+?)/([dgimsuvy]*)")
_BARE_SLASH: Final = re.compile(r"(?:^|[^\\])/")
_CODE_POINT: Final = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}")


class Pattern(NamedTuple):
    """A key that is a pattern. `search` is the compiled one, or None if it is no pattern at all."""

    number: int
    text: str
    search: Any


def slashed(key: str) -> tuple[str, str] | None:
    r"""Return what stands between the slashes of a key, and the flags after them; None if it is a plain text.

    >>> slashed("/elf|elves/i"), slashed("and/or"), slashed("/a/b/")
    (('elf|elves', 'i'), None, None)
    """
    found = _SLASHED.fullmatch(key)
    if found is None or _BARE_SLASH.search(found[1]):
        return None
    return found[1].replace("\\/", "/"), found[2]


@lru_cache(maxsize=16_384)
def compiled(pattern: str, flags: str) -> Any:
    """Return a pattern of JavaScript's as one of ours, or None if it is none."""
    import regex  # noqa: PLC0415 - only where a book has patterns

    told = _CODE_POINT.sub(_code_point, pattern).replace("[^]", r"[\s\S]")
    chosen = regex.VERSION0
    for flag, ours in (("i", regex.IGNORECASE), ("m", regex.MULTILINE), ("s", regex.DOTALL)):
        chosen |= ours if flag in flags else 0
    try:
        return regex.compile(told, chosen)
    except (regex.error, OverflowError, RecursionError, ValueError):
        return None


def _code_point(found: re.Match[str]) -> str:
    return rf"\U{int(found[1], 16):08x}"


class Patterns:
    """The patterns of some books. One that took too long is not tried again."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        """Hold patterns that could be compiled."""
        self._patterns = [pattern for pattern in patterns if pattern.search is not None]
        self.hung: dict[int, str] = {}

    def found(self, text: str) -> Iterator[int]:
        """Yield the numbers of the patterns that are found in a text."""
        for pattern in self._patterns:
            if pattern.number not in self.hung and not self.exhausted and self._searched(pattern, text):
                yield pattern.number

    @property
    def exhausted(self) -> bool:
        """Whether so many took too long that the others are not tried."""
        return len(self.hung) >= MOST_HUNG

    def _searched(self, pattern: Pattern, text: str) -> bool:
        try:
            return pattern.search.search(text, timeout=TIME_LIMIT) is not None
        except TimeoutError:
            self.hung[pattern.number] = pattern.text
            return False
