"""Vectors for words of other languages, in the space of the English table: a sentence is near its translation."""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.language import function_words
from brimful.embedding.wordpiece import MAX_WORD_LENGTH

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_DATA: Final = Path(__file__).with_name("data")
STEMMERS: Final = {"de": "german", "es": "spanish", "ru": "russian"}
"""Languages whose words are looked up by their stems. In the others, words are found by longest match."""
LANGUAGES: Final = (*STEMMERS, "zh", "ja")  # in the order of the table
LEVELS: Final = (-1.510, -0.4528, 0.4528, 1.510)  # of the Lloyd-Max quantizer with two bits, in standard deviations
_WORD: Final = re.compile(r"[^\W\d_]+")
_UNSPACED: Final = re.compile(r"[\u3005\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_MIN_PART: Final = 4  # letters of a part of a compound, in languages with spaces
_MAX_SKIPPED: Final = 3  # letters of a compound that belong to no known part, such as a linking "s"
_LINKS: Final = ("", "s", "n", "e", "es", "en")  # between the parts of a German compound
_CACHED_WORDS: Final = 16_384


class Words(msgspec.Struct, frozen=True):
    """The words of one language, each with the number of its row in the table."""

    language: str
    rows: Mapping[str, int]
    longest: int

    def units(self, text: str, *, functional: bool = False) -> list[str]:
        """Return the words of a text that are looked up: stems, or runs of a script without spaces.

        Function words are left out, unless they are wanted, as when the table is made.
        """
        plain = unicodedata.normalize("NFKC", text).casefold()
        if self.language not in STEMMERS:
            return _UNSPACED.findall(plain)
        dropped = frozenset() if functional else _function_words(self.language)
        words = (word for word in _WORD.findall(plain) if len(word) <= MAX_WORD_LENGTH and word not in dropped)
        return [stem(word, self.language) for word in words]

    def find(self, unit: str) -> tuple[int, ...]:
        """Return the row of a word, or else the rows of its longest known parts from left to right."""
        if unit in self.rows:
            return (self.rows[unit],)
        spaced = self.language in STEMMERS
        shortest, found, index, skipped = _MIN_PART if spaced else 1, [], 0, 0
        while index < len(unit):
            ends = range(min(len(unit), index + self.longest), index + shortest - 1, -1)
            end = next((end for end in ends if unit[index:end] in self.rows), None)
            if end is None:
                index, skipped = index + 1, skipped + 1
            else:
                found.append(self.rows[unit[index:end]])
                index = end
        return tuple(found) if not spaced or skipped <= _MAX_SKIPPED else ()


_function_words: Final = cache(function_words)


def make_words(language: str, words: list[str], first: int) -> Words:
    """Return the words of a language whose rows begin with a number."""
    return Words(language, {word: row for row, word in enumerate(words, first)}, max(map(len, words)))


@lru_cache(maxsize=_CACHED_WORDS)
def stem(word: str, language: str) -> str:
    """Return the stem of a word in lower case, without accents in the Latin script.

    >>> stem("häuser", "de"), stem("canciones", "es"), stem("ёлки", "ru")
    ('haus', 'cancion', 'елк')
    """
    import Stemmer  # noqa: PLC0415 - imported on first use

    stemmed = str(Stemmer.Stemmer(STEMMERS[language], 0).stemWord(word))
    bare = "".join(char for char in unicodedata.normalize("NFKD", stemmed) if not unicodedata.combining(char))
    return bare if bare.isascii() else stemmed.replace("ё", "е")


@cache
def load_words() -> dict[str, Words]:
    """Return the words of all languages."""
    words, first = {}, 0
    for line in (_DATA / "languages.txt").read_text(encoding="utf-8").splitlines():
        language, *known = line.split(" ")
        words[language] = make_words(language, known, first)
        first += len(known)
    return words


@lru_cache(maxsize=_CACHED_WORDS)
def split_compound(stemmed: str) -> tuple[str, ...]:
    """Return the two parts of a German compound, given its stem, or nothing.

    >>> split_compound("arbeitszimm"), split_compound("tisch")
    (('arbeit', 'zimm'), ())
    """
    known = load_words()["de"].rows
    for index in range(_MIN_PART, len(stemmed) - _MIN_PART + 1):
        if stemmed[:index] in known:
            for link in _LINKS:
                rest = stemmed[index:].removeprefix(link)
                if len(rest) >= _MIN_PART and rest in known:
                    return (stemmed[:index], rest)
    return ()


class MultilingualTable:
    """The vectors of all words: two bits for each number, and a scale for each row."""

    def __init__(self, packed: "npt.NDArray[np.uint8]", scales: "npt.NDArray[np.float16]") -> None:
        import numpy as np  # noqa: PLC0415 - imported on first use

        self._packed = packed
        self._scales = scales
        codes = np.arange(256, dtype=np.uint8)[:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
        self._levels = np.array(LEVELS, np.float32)[codes]  # four numbers for each byte

    def rows(self, numbers: "npt.NDArray[np.intp]") -> "npt.NDArray[np.float32]":
        """Return the vectors of some rows."""
        import numpy as np  # noqa: PLC0415 - imported on first use

        levels: npt.NDArray[np.float32] = self._levels[self._packed[numbers]].reshape(len(numbers), -1)
        return levels * self._scales[numbers].astype(np.float32)[:, None]


@cache
def load_table() -> MultilingualTable:
    """Return the table. It is memory-mapped, so that processes on one machine share it."""
    import numpy as np  # noqa: PLC0415 - imported on first use

    packed = np.asarray(np.load(_DATA / "languages.npy", mmap_mode="r"))
    return MultilingualTable(packed, np.load(_DATA / "languages-scales.npy"))
