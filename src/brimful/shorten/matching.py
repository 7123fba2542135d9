"""How well pieces of a text match a query, by the rare words that they share."""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import Final

_WORD: Final = re.compile(r"\w+")
_NO_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]{2,}")  # kana, Chinese characters, Thai
_STEM: Final = 5  # letters of a word that decide, so that "ladder" and "ladders", "repair" and "repairing" match
_ENDINGS: Final = ("ing", "ed", "es", "e", "s")  # of words with shorter stems, so that "moved" and "moving" match
_MIN_STEM: Final = 3  # letters
_MAX_SHORT: Final = 7  # letters; an ending of a longer word leaves its stem as it is
_MAX_CACHED: Final = 32_768  # short words
_NEIGHBOR: Final = 0.15  # of the match of a piece counts for the pieces beside it


def word_set(text: str) -> set[str]:
    """Return the words of a text, lowercased, without most of their endings; pairs of characters where words run on.

    >>> sorted(word_set("The Ladders cost €80 (order A-17)"))
    ['17', '80', 'a', 'cost', 'ladde', 'order', 'the']
    >>> word_set("We moved it") & word_set("Why are you moving?")
    {'mov'}
    """
    words = {
        word if not word.isalpha() else _stem(word) if len(word) <= _MAX_SHORT else word[:_STEM]
        for word in _WORD.findall(text.casefold())
    }
    for run in _NO_SPACES.findall(text):
        words.update(run[i : i + 2] for i in range(len(run) - 1))
    return words


@lru_cache(_MAX_CACHED)
def _stem(word: str) -> str:
    stems = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending))
    return next((stem for stem in stems if len(stem) >= _MIN_STEM), word)[:_STEM]


class WordIndex:
    """The words of pieces of a text, by which queries are matched."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = len(pieces)
        self._positions: dict[str, list[int]] = {}
        for i, piece in enumerate(pieces):
            for word in word_set(piece):
                self._positions.setdefault(word, []).append(i)

    def match(self, query: str) -> list[float]:
        """Return how well each piece matches, from 0 to 1. Rare words weigh more; neighbors of a match count a little.

        >>> WordIndex(["the red cup", "the old ladder", "the green cup"]).match("Where is the ladder?")
        [0.15, 1.0, 0.15]
        """
        count = self._pieces
        found = [self._positions[word] for word in sorted(word_set(query)) if word in self._positions]
        weights = [(log((count + 1) / (len(each) + 0.5)), each) for each in found if len(each) < count]
        own = [0.0] * count
        if not count:
            return own
        # Words that nearly all pieces have are no match, even if the query has no others.
        best = max(sum(weight for weight, _ in weights if weight > 0), log((count + 1) / 1.5))
        for weight, positions in weights:
            for i in positions:
                own[i] += max(0.0, weight) / best
        edged = [0.0, *own, 0.0]
        return [max(match, _NEIGHBOR * max(edged[i], edged[i + 2])) for i, match in enumerate(own)]
