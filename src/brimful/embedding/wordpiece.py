"""BERT's WordPiece: a text becomes the ids of the pieces of its words.

A text is cut where a word surely ends: at white space, around ASCII punctuation, around ideographs. What lies between
is looked up in a memory of words; only a word that is not there is normalized, split at other punctuation, and matched
against the vocabulary, longest piece first. Names of special tokens in a text, such as `[SEP]`, are plain text.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from brimful.embedding.characters import characters

UNKNOWN: Final = "[UNK]"
CONTINUES: Final = "##"  # how a piece begins that does not begin a word
LONGEST_WORD: Final = 100  # characters; BERT takes a longer word for unknown

_SPACE: Final = r"\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # no \v, \f, \x85: those are controls
_PUNCTUATION: Final = r"!-/:-@\[-`{-~"
_CAPITAL_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"  # Python writes a final one otherwise; BERT does not
_SIGMA: Final = "\N{GREEK SMALL LETTER SIGMA}"
_MOST_WORDS: Final = 32_768  # a generation of the memory; there are two, which take about 10 MB when full
_LONGEST_KEPT: Final = 32  # characters; longer words are hardly ever seen twice

Ids = tuple[int, ...]


class WordPiece:
    """Splits texts by a vocabulary, in which the place of a piece is its id.

    >>> pieces = WordPiece(["[UNK]", "brim", "##ful", "!"])
    >>> pieces.ids("Brimful, brim!")
    [1, 2, 0, 1, 3]
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """Take the pieces in order."""
        begins = {piece: id for id, piece in enumerate(vocabulary)}
        self._begins = begins
        self._continues = {p.removeprefix(CONTINUES): id for p, id in begins.items() if p.startswith(CONTINUES)}
        self._unknown = (begins[UNKNOWN],)
        self._longest = max(map(len, vocabulary))
        table = characters()
        alone = f"{_PUNCTUATION}{table.ideographs}"
        self._words = re.compile(f"[{alone}]|[^{alone}{_SPACE}]+")
        self._controls = re.compile(f"[{table.controls}]+")
        self._marks = re.compile(f"[{table.marks}]+")
        self._parts = re.compile(f"[{table.punctuation}]|[^{table.punctuation}]+")
        self._memory = _Memory()

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text's pieces, without any that begin or end a text."""
        found: list[int] = []
        recall = self._memory.recall
        for word in self._words.findall(text):
            known = recall(word)
            found += self._learn(word) if known is None else known
        return found

    def _learn(self, word: str) -> Ids:
        ids = tuple(id for part in self._parts.findall(self._normal(word)) for id in self._pieces(part))
        self._memory.keep(word, ids)
        return ids

    def _normal(self, word: str) -> str:
        """Return the word in lower case, without controls and accents."""
        seen = self._controls.sub("", word)
        if seen.isascii():
            return seen.lower()
        bare = self._marks.sub("", unicodedata.normalize("NFD", seen))
        return bare.replace(_CAPITAL_SIGMA, _SIGMA).lower()

    def _pieces(self, word: str) -> Ids:
        """Match the longest piece, then the longest one that goes on from there; all of the word, or it is unknown."""
        if len(word) > LONGEST_WORD:
            return self._unknown
        found, start, pieces = [], 0, self._begins
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (id := pieces.get(word[start:end])) is not None:
                    break
            else:
                return self._unknown
            found.append(id)
            start, pieces = end, self._continues
        return tuple(found)


class _Memory:
    """Words and their pieces, in two generations: when the young one is full, the old one is forgotten.

    A word that is recalled is young again. Threads may share it: the worst is that a word is learnt twice.
    """

    def __init__(self) -> None:
        self._young: dict[str, Ids] = {}
        self._old: dict[str, Ids] = {}

    def recall(self, word: str) -> Ids | None:
        """Return the pieces of a word that was seen of late."""
        if (ids := self._young.get(word)) is not None:
            return ids
        if (ids := self._old.get(word)) is not None:
            self.keep(word, ids)
        return ids

    def keep(self, word: str, ids: Ids) -> None:
        """Remember a word, unless it is long."""
        if len(word) > _LONGEST_KEPT:
            return
        if len(self._young) >= _MOST_WORDS:
            self._young, self._old = {}, self._young
        self._young[word] = ids
