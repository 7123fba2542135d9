"""BERT's WordPiece tokenizer: convert a text to vocabulary ids."""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = Path(__file__).with_name("data") / "characters.toml"


class Characters(msgspec.Struct, frozen=True, kw_only=True):
    """Characters by class, each as the ranges within the brackets of a regular expression.

    `controls` cannot be seen, `marks` are accents once they stand alone; both are removed. `punctuation` and
    `ideographs` are words of their own.
    """

    controls: str
    marks: str
    punctuation: str
    ideographs: str


@cache
def characters() -> Characters:
    """Return the classes of characters, read on first use."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return msgspec.convert({name: _brackets(ranges) for name, ranges in table.items()}, Characters)


def _brackets(text: str) -> str:
    r"""Write ranges of code points as a regular expression does.

    >>> _brackets("21-2f 7e")
    '!-/\\~'
    """
    return "".join("-".join(re.escape(chr(int(end, 16))) for end in item.split("-")) for item in text.split())


UNKNOWN: Final = "[UNK]"
CONTINUES: Final = "##"  # how a piece begins that does not begin a word
MAX_WORD_LENGTH: Final = 100  # characters; BERT takes a longer word for unknown

_SPACE: Final = r"\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # no \v, \f, \x85: those are controls
_PUNCTUATION: Final = r"!-/:-@\[-`{-~"
_CAPITAL_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"  # Python writes a final one otherwise; BERT does not
_SIGMA: Final = "\N{GREEK SMALL LETTER SIGMA}"
MAX_CACHED_WORDS: Final = 32_768  # a generation of the memory; there are two, which take about 10 MB when full
_MAX_CACHED_LENGTH: Final = 32  # characters; longer words are hardly ever seen twice

Ids = tuple[int, ...]


class WordPiece:
    """Splits texts by a vocabulary, in which the place of a piece is its id.

    >>> pieces = WordPiece(["[UNK]", "brim", "##ful", "!"])
    >>> pieces.ids("Brimful, brim!")
    [1, 2, 0, 1, 3]
    """

    def __init__(self, vocabulary: Sequence[str], *, max_cached_words: int = MAX_CACHED_WORDS) -> None:
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
        self._memory = _WordCache(max_cached_words)

    @property
    def cached_words(self) -> int:
        """How many words are cached."""
        return len(self._memory)

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
        if len(word) > MAX_WORD_LENGTH:
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


class _WordCache:
    """Words and their pieces, in two generations: when the young one is full, the old one is forgotten.

    A word that is recalled is young again. Threads may share it: the worst is that a word is learnt twice.
    """

    def __init__(self, max_words: int) -> None:
        self._max_words = max_words
        self._young: dict[str, Ids] = {}
        self._old: dict[str, Ids] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def recall(self, word: str) -> Ids | None:
        """Return the pieces of a word that was seen of late."""
        if (ids := self._young.get(word)) is not None:
            return ids
        if (ids := self._old.get(word)) is not None:
            self.keep(word, ids)
        return ids

    def keep(self, word: str, ids: Ids) -> None:
        """Remember a word, unless it is long."""
        if len(word) > _MAX_CACHED_LENGTH:
            return
        if len(self._young) >= self._max_words:
            self._young, self._old = {}, self._young
        self._young[word] = ids
