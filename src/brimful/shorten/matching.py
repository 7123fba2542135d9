"""How well pieces of a text match a query, by the rare words that they share."""

import re
from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Final

_WORD: Final = re.compile(r"\w+")
_NO_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]{2,}")  # kana, Chinese characters, Thai
_STEM: Final = 5  # letters of a word that decide, so that "cost" and "costs", "find" and "finding" match
_NEIGHBOR: Final = 0.15  # of the match of a piece counts for the pieces beside it


def word_set(text: str) -> set[str]:
    """Return the words of a text, lowercased, without most of their endings; pairs of characters where words run on.

    >>> sorted(word_set("The Ladders cost €80 (order A-17)"))
    ['17', '80', 'a', 'cost', 'ladde', 'order', 'the']
    """
    words = {word[:_STEM] if word.isalpha() else word for word in _WORD.findall(text.casefold())}
    for run in _NO_SPACES.findall(text):
        words.update(run[at : at + 2] for at in range(len(run) - 1))
    return words


def match_query(pieces: Sequence[str], query: str) -> list[float]:
    """Return how well each piece matches, from 0 to 1. Rare words weigh more; neighbors of a match count a little.

    >>> match_query(["the red cup", "the old ladder", "the green cup"], "Where is the ladder?")
    [0.15, 1.0, 0.15]
    """
    wanted = word_set(query)
    found = [wanted & word_set(piece) for piece in pieces] if wanted else []
    frequency = Counter(word for words in found for word in words)
    weights = {word: log((len(pieces) + 1) / (times + 0.5)) for word, times in frequency.items()}
    weights = {word: weight for word, weight in weights.items() if frequency[word] < len(pieces) and weight > 0}
    best = sum(weights.values())
    if not best:
        return [0.0] * len(pieces)
    own = [sum(weights[word] for word in sorted(words) if word in weights) / best for words in found]
    return [
        max(own[at], _NEIGHBOR * max(own[at - 1] if at else 0.0, own[at + 1] if at + 1 < len(own) else 0.0))
        for at in range(len(own))
    ]
