"""All keys of some books, numbered, and which of them stand in a text."""

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from brimful.lore.patterns import MESSAGE, Pattern, Patterns, compiled, slashed
from brimful.lore.words import Literal, Words, exact, folded

_REMEMBERED: Final = 2_048  # texts: from one turn to the next, nearly all messages are the same


class Key(NamedTuple):
    """A key as an entry means it: with or without case, as a whole word, as a pattern."""

    text: str
    case_sensitive: bool
    whole_words: bool
    regex: bool


class Finder:
    """Finds keys in texts; what it found in a text, it remembers."""

    def __init__(self) -> None:
        """Begin without any key."""
        self._numbers: dict[Key, int] = {}
        self._known: dict[bytes, frozenset[int]] = {}

    def number(self, key: Key) -> int:
        """Return the number of a key. All keys must be numbered before the first text is looked through."""
        return self._numbers.setdefault(key, len(self._numbers))

    def ready(self) -> "Finder":
        """Sort all keys by how they are looked for."""
        sorted_keys = [(number, key, _pattern(number, key)) for key, number in self._numbers.items()]
        self.patterns = Patterns(pattern for _, _, pattern in sorted_keys if pattern is not None)
        plain = [(number, key) for number, key, pattern in sorted_keys if pattern is None]
        self._folded = Words(_literal(number, key) for number, key in plain if not key.case_sensitive)
        self._exact = Words(_literal(number, key) for number, key in plain if key.case_sensitive)
        return self

    def found(self, text: str) -> frozenset[int]:
        """Return the numbers of all keys that stand in a text."""
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()  # texts may be long
        found = self._known.get(digest)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[digest] = frozenset(self._all(text))
        return found

    def _all(self, text: str) -> Iterator[int]:
        yield from self._folded.found(folded(text))
        yield from self._exact.found(exact(text))
        yield from self.patterns.found(MESSAGE + text)


def _pattern(number: int, key: Key) -> Pattern | None:
    """Return a key as a pattern, if it is one. What only looks like one is a text, as in SillyTavern."""
    between = slashed(key.text)
    if between is not None and (search := compiled(*between)) is not None:
        return Pattern(number, key.text, search)
    if not key.regex:
        return None
    return Pattern(number, key.text, compiled(key.text, "" if key.case_sensitive else "i"))


def _literal(number: int, key: Key) -> Literal:
    text = exact(key.text) if key.case_sensitive else folded(key.text)
    # Of several words only one need be whole: "the woods" is a phrase, and phrases are found wherever they stand.
    return Literal(number, text, key.whole_words and len(text.split()) == 1)
