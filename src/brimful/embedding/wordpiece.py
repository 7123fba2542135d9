"""BERT's WordPiece tokenizer: convert a text to vocabulary ids.

The embedder of the base install needs it, without the extra `tokenizers`.
"""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = Path(__file__).with_name("data") / "characters.toml"
UNKNOWN: Final = "[UNK]"
CONTINUES: Final = "##"  # prefix of pieces that continue a word
MAX_WORD_LENGTH: Final = 100  # characters; BERT treats longer words as unknown
_SPACE: Final = r"\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # no \v, \f, \x85: those are controls
_PUNCTUATION: Final = r"!-/:-@\[-`{-~"
_CAPITAL_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"  # Python lowercases a final one differently; BERT does not
_SIGMA: Final = "\N{GREEK SMALL LETTER SIGMA}"
MAX_CACHED_WORDS: Final = 32_768  # per generation of the cache; both take about 10 MB when full
_MAX_CACHED_LENGTH: Final = 32  # characters; longer words rarely occur twice


class Characters(msgspec.Struct, frozen=True, kw_only=True):
    """Character classes, each as ranges for a regular expression set.

    `controls` and `marks` (combining accents) are removed. Each character of `punctuation` and `ideographs` is a word.
    """

    controls: str
    marks: str
    punctuation: str
    ideographs: str


@cache
def characters() -> Characters:
    """Return the character classes, which are frozen as of Unicode 8 as in BERT."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return msgspec.convert({name: _brackets(ranges) for name, ranges in table.items()}, Characters)


def _brackets(text: str) -> str:
    r"""Convert ranges of hexadecimal code points to regular expression syntax.

    >>> _brackets("21-2f 7e")
    '!-/\\~'
    """
    return "".join("-".join(re.escape(chr(int(end, 16))) for end in item.split("-")) for item in text.split())


Ids = tuple[int, ...]


class WordPiece:
    """Tokenizes texts with a vocabulary. The index of a piece is its id.

    >>> pieces = WordPiece(["[UNK]", "brim", "##ful", "!"])
    >>> pieces.ids("Brimful, brim!")
    [1, 2, 0, 1, 3]
    """

    def __init__(self, vocabulary: Sequence[str], *, max_cached_words: int = MAX_CACHED_WORDS) -> None:
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
        self._cache = _WordCache(max_cached_words)

    @property
    def cached_words(self) -> int:
        """The number of cached words."""
        return len(self._cache)

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, without [CLS] and [SEP]."""
        ids: list[int] = []
        get = self._cache.get
        for word in self._words.findall(text):
            cached = get(word)
            ids += self._tokenize(word) if cached is None else cached
        return ids

    def _tokenize(self, word: str) -> Ids:
        ids = tuple(id for part in self._parts.findall(self._normalize(word)) for id in self._pieces(part))
        self._cache.put(word, ids)
        return ids

    def _normalize(self, word: str) -> str:
        """Return the word in lower case, without control characters and accents."""
        visible = self._controls.sub("", word)
        if visible.isascii():
            return visible.lower()
        bare = self._marks.sub("", unicodedata.normalize("NFD", visible))
        return bare.replace(_CAPITAL_SIGMA, _SIGMA).lower()

    def _pieces(self, word: str) -> Ids:
        """Split a word greedily into the longest known pieces. A word with any unknown part is unknown as a whole."""
        if len(word) > MAX_WORD_LENGTH:
            return self._unknown
        ids, start, pieces = [], 0, self._begins
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (id := pieces.get(word[start:end])) is not None:
                    break
            else:
                return self._unknown
            ids.append(id)
            start, pieces = end, self._continues
        return tuple(ids)


class _WordCache:
    """A cache of words in two generations: when the young one is full, it replaces the old one.

    A word that is found in the old generation moves to the young one. Unlike an LRU, a hit changes nothing, so it takes
    no lock: at worst two threads tokenize the same word.
    """

    def __init__(self, max_words: int) -> None:
        self._max_words = max_words
        self._young: dict[str, Ids] = {}
        self._old: dict[str, Ids] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, word: str) -> Ids | None:
        if (ids := self._young.get(word)) is not None:
            return ids
        if (ids := self._old.get(word)) is not None:
            self.put(word, ids)
        return ids

    def put(self, word: str, ids: Ids) -> None:
        """Cache a word, unless it is long."""
        if len(word) > _MAX_CACHED_LENGTH:
            return
        if len(self._young) >= self._max_words:
            self._young, self._old = {}, self._young
        self._young[word] = ids
