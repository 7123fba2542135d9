"""Text → terms: what the lexical index holds, and what it is asked for."""

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import snowballstemmer

from brimful.retrieval.stopwords import STOPWORDS

MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Scripts that are written without spaces, or whose words bear their particles: pairs of characters find them.
_PAIRED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_STEMMERS: Final = (("\u0370", "english"), ("\u0400", "greek"), ("\u0530", "russian"), ("\u0590", "armenian"))
_REMEMBERED_WORDS: Final = 65_536


def analyze(text: str, speaker: str = "", at: float | None = None) -> list[str]:
    """Return the terms of a text in order, repeats kept; then those of its speaker, and of the day it was said.

    A question is analysed by its text alone. Whoever asks "what did Ann say in July?" finds what Ann said, and July.

    >>> analyze("We're hiking to the lakes!", "Ann", 1_689_552_000.0)
    ['hike', 'lake', 'ann', '2023', 'juli', '17']
    """
    return [*_terms(text), *_terms(speaker), *_day(at)]


def _terms(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return [term for word in _WORD.findall(plain) for term in _read(word)]


def _day(at: float | None) -> list[str]:
    if at is None:
        return []
    day = datetime.fromtimestamp(at, UTC)
    return [str(day.year), *_read(MONTHS[day.month - 1]), str(day.day)]


@lru_cache(maxsize=_REMEMBERED_WORDS)
def _read(word: str) -> tuple[str, ...]:
    """Return the terms of one word: none if it says nothing, its stem, or its pairs of characters."""
    if word in STOPWORDS:
        return ()
    if paired := _PAIRED.search(word):
        before, run, after = word[: paired.start()], paired.group(), word[paired.end() :]
        return (*_read(before), *_pairs(run), *_read(after))
    bare = _unaccented(word.removesuffix("'s").replace("'", ""))
    return (_stem(bare),) if bare and bare not in STOPWORDS else ()


def _pairs(run: str) -> tuple[str, ...]:
    return tuple(run[at : at + 2] for at in range(max(1, len(run) - 1)))


def _unaccented(word: str) -> str:
    """Drop accents from what is Latin under them; in other scripts a mark makes another letter."""
    bare = "".join(sign for sign in unicodedata.normalize("NFKD", word) if not unicodedata.combining(sign))
    return bare if bare.isascii() else word


def _stem(word: str) -> str:
    # A stemmer keeps state while it works; a new one costs a microsecond, and threads do not meet in it.
    language = next((language for end, language in _STEMMERS if word[0] < end), None)
    return str(snowballstemmer.stemmer(language).stemWord(word)) if language else word
