"""Thousands of keys looked for in one text at once.

Keys that are whole words are looked up among the words of the text. Others are found by how they begin: the text's
pieces of one, two and three characters say where a key may stand, and only there it is looked for. So the time follows
the text, not the number of keys, and no key and no text makes it explode. Aho–Corasick would do as well; it reports
every occurrence of every key, and needs a library that is built for each platform.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_SPACELESS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff"
"""Scripts that part no words, or bind particles to them: Thai, Lao, Burmese, Khmer; Chinese, Japanese, Korean."""

_WORD: Final = re.compile(rf"[^\W{_SPACELESS}]+")
_GRAM: Final = 3  # characters by which a longer key is looked for
_PROBE: Final = 32  # characters of a key that are compared at a place; the rest of a long one is searched for once


class Literal(NamedTuple):
    """A key that is looked for as it is. `whole`: it has to stand as a word of its own."""

    number: int
    text: str
    whole: bool


def folded(text: str) -> str:
    """Return a text without case, in one form."""
    return unicodedata.normalize("NFC", text).casefold()


def exact(text: str) -> str:
    """Return a text in one form."""
    return unicodedata.normalize("NFC", text)


class Words:
    """Keys in one form, folded or exact. Texts must be in the same one."""

    def __init__(self, keys: Iterable[Literal]) -> None:
        """Sort keys by how they are looked for."""
        self._words: dict[str, list[int]] = defaultdict(list)
        self._grams: dict[int, dict[str, dict[int, dict[str, list[Literal]]]]] = {}
        for key in keys:
            if key.whole and _WORD.fullmatch(key.text):
                self._words[key.text].append(key.number)
            elif key.text:
                size = min(_GRAM, len(key.text))
                probe = key.text[:_PROBE]
                by_length = self._grams.setdefault(size, {}).setdefault(key.text[:size], {})
                by_length.setdefault(len(probe), {}).setdefault(probe, []).append(key)

    def found(self, text: str) -> Iterator[int]:
        """Yield the numbers of the keys that stand in a text."""
        if self._words:
            for word in self._words.keys() & set(_WORD.findall(text)):
                yield from self._words[word]
        for key in self._probed(text):
            if _stands_alone(text, key.text) if key.whole else len(key.text) <= _PROBE or key.text in text:
                yield key.number

    def _probed(self, text: str) -> Iterator[Literal]:
        """Yield the keys whose beginnings stand in a text, each once."""
        for size, begins in self._grams.items():
            grams = {text[at : at + size] for at in range(len(text) - size + 1)}
            for gram in begins.keys() & grams:
                yield from _beginning(text, gram, begins[gram])


def _beginning(text: str, gram: str, by_length: dict[int, dict[str, list[Literal]]]) -> Iterator[Literal]:
    seen: set[str] = set()
    place = text.find(gram)
    while place >= 0:
        for length, probes in by_length.items():
            probe = text[place : place + length]
            if probe in probes and probe not in seen:
                seen.add(probe)
                yield from probes[probe]
        place = text.find(gram, place + 1)


def _stands_alone(text: str, key: str) -> bool:
    """Say whether a key stands somewhere without a letter that goes on; a sign at its own edge parts it from any."""
    before, after = _is_letter(key[0]), _is_letter(key[-1])
    place = text.find(key)
    while place >= 0:
        end = place + len(key)
        if not (before and place and _is_letter(text[place - 1])) and not (
            after and end < len(text) and _is_letter(text[end])
        ):
            return True
        place = text.find(key, place + 1)
    return False


def _is_letter(char: str) -> bool:
    return _WORD.match(char) is not None
