r"""Match thousands of keywords against a text at once, plain ones and regular expressions.

Keywords that must be whole words are looked up among the words of the text. Others are found by their first one to
three characters: only where those occur is the keyword compared. So the time depends on the text, not on the number
of keywords. (Aho–Corasick would do as well, but it reports every occurrence, and needs a library that is built for
each platform.)

Regular expressions are JavaScript's (`/dragons?\b/i`); `patterns` limits them, because anybody may have written them.
"""

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from brimful.lore.patterns import Pattern, compile_regex, shorten, split_regex_literal, translate

_UNSPACED_SCRIPTS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff"
"""Scripts without spaces between words, or with attached particles: Thai, Lao, Burmese, Khmer, Chinese, Japanese, …"""

_WORD: Final = re.compile(rf"[^\W{_UNSPACED_SCRIPTS}]+")
_GRAM: Final = 3  # characters by which a longer keyword is found
_PROBE: Final = 32  # characters of a keyword that are compared at each position; a longer one is then searched once
REGEX_TIMEOUT: Final = 0.05  # seconds for one expression in one text
MAX_TIMEOUTS: Final = 10  # expressions that may time out; then the remaining ones are not tried
MAX_TOTAL_SIZE: Final = 100_000  # elements of all expressions of an index: half of what the cache holds
MESSAGE_START: Final = "\x01"  # before every message, so that an expression can match its beginning, as in SillyTavern
_TOTAL_EXCESS: Final = f"is one too many: all together unroll to more than {MAX_TOTAL_SIZE:,} elements"
_CACHED_TEXTS: Final = 2_048  # nearly all messages are the same from one turn to the next


class PlainKeyword(NamedTuple):
    """A keyword that is matched literally, or only as a `whole` word."""

    number: int
    text: str
    whole: bool


def fold_case(text: str) -> str:
    """Return a text in NFC, without case."""
    return unicodedata.normalize("NFC", text).casefold()


def normalize(text: str) -> str:
    """Return a text in NFC."""
    return unicodedata.normalize("NFC", text)


class PlainMatcher:
    """Matches plain keywords. Keywords and texts must be normalized in the same way."""

    def __init__(self, keys: Iterable[PlainKeyword]) -> None:
        self._words: dict[str, list[int]] = defaultdict(list)
        self._grams: dict[int, dict[str, dict[int, dict[str, list[PlainKeyword]]]]] = {}
        for key in keys:
            if key.whole and _WORD.fullmatch(key.text):
                self._words[key.text].append(key.number)
            elif key.text:
                size = min(_GRAM, len(key.text))
                probe = key.text[:_PROBE]
                by_length = self._grams.setdefault(size, {}).setdefault(key.text[:size], {})
                by_length.setdefault(len(probe), {}).setdefault(probe, []).append(key)

    def find(self, text: str) -> Iterator[int]:
        """Yield the numbers of the keywords that appear in a text."""
        if self._words:
            for word in self._words.keys() & set(_WORD.findall(text)):
                yield from self._words[word]
        for key in self._probe(text):
            if _is_whole_word(text, key.text) if key.whole else len(key.text) <= _PROBE or key.text in text:
                yield key.number

    def _probe(self, text: str) -> Iterator[PlainKeyword]:
        """Yield the keywords whose beginnings appear in a text, each once."""
        for size, by_gram in self._grams.items():
            grams = {text[i : i + size] for i in range(len(text) - size + 1)}
            for gram in by_gram.keys() & grams:
                yield from _probe_matches(text, gram, by_gram[gram])


def _probe_matches(text: str, gram: str, by_length: dict[int, dict[str, list[PlainKeyword]]]) -> Iterator[PlainKeyword]:
    seen: set[str] = set()
    start = text.find(gram)
    while start >= 0:
        for length, probes in by_length.items():
            probe = text[start : start + length]
            if probe in probes and probe not in seen:
                seen.add(probe)
                yield from probes[probe]
        start = text.find(gram, start + 1)


def _is_whole_word(text: str, key: str) -> bool:
    """Return whether a keyword appears without letters next to it, except at an end that is not a letter itself."""
    before, after = _is_letter(key[0]), _is_letter(key[-1])
    start = text.find(key)
    while start >= 0:
        end = start + len(key)
        if not (before and start and _is_letter(text[start - 1])) and not (
            after and end < len(text) and _is_letter(text[end])
        ):
            return True
        start = text.find(key, start + 1)
    return False


def _is_letter(char: str) -> bool:
    return _WORD.match(char) is not None


class RegexKeyword(NamedTuple):
    """A keyword that is a regular expression with flags. Its compiled form is in a cache that all indexes share."""

    number: int
    text: str
    expression: str
    flags: str
    pattern: Pattern


HasTime = Callable[[], bool]
"""Returns whether there is time for another search. Once it returns False, it stays so."""


class RegexMatcher:
    """Matches regular expressions. One that timed out is not tried again."""

    def __init__(self, keywords: Iterable[RegexKeyword]) -> None:
        self._keywords = tuple(keywords)
        self.timed_out: dict[int, str] = {}

    def find(self, text: str, has_time: HasTime) -> Iterator[int]:
        """Yield the numbers of the expressions that match a text."""
        for keyword in self._keywords:
            if self.exhausted or not has_time():
                return
            if keyword.number not in self.timed_out and self._matches(keyword, text):
                yield keyword.number

    @property
    def exhausted(self) -> bool:
        """Whether so many timed out that the remaining ones are not tried."""
        return len(self.timed_out) >= MAX_TIMEOUTS

    def _matches(self, keyword: RegexKeyword, text: str) -> bool:
        search = compile_regex(keyword.expression, keyword.flags)
        try:
            return search is not None and search.search(text, timeout=REGEX_TIMEOUT) is not None
        except TimeoutError:
            self.timed_out[keyword.number] = keyword.text
            return False


class Keyword(NamedTuple):
    """A keyword and how it is matched."""

    text: str
    case_sensitive: bool
    whole_words: bool
    regex: bool


class KeywordMatcher:
    """Finds keywords in texts, and caches what it found. Number all keywords, then call `build`, then `find`.

    `refused` are the regular expressions that exceed a limit, alone or together, each with the reason.
    """

    def __init__(self) -> None:
        self._numbers: dict[Keyword, int] = {}
        self._cache: dict[bytes, frozenset[int]] = {}
        self.refused: dict[str, str] = {}

    def number(self, keyword: Keyword) -> int:
        return self._numbers.setdefault(keyword, len(self._numbers))

    def build(self) -> "KeywordMatcher":
        """Prepare the matchers for all keywords."""
        regexes: list[RegexKeyword] = []
        plain: list[tuple[int, Keyword]] = []
        size = 0
        for key, number in self._numbers.items():
            regex = _as_regex(number, key)
            if regex is None:
                plain.append((number, key))
                continue
            size += 0 if regex.pattern.excess else regex.pattern.size
            excess = regex.pattern.excess or (size > MAX_TOTAL_SIZE and _TOTAL_EXCESS)
            if excess:
                self.refused[key.text] = f"{shorten(key.text)} {excess}"
            elif compile_regex(regex.expression, regex.flags) is not None:
                regexes.append(regex)
            elif not key.regex:
                plain.append((number, key))
        self.regexes = RegexMatcher(regexes)
        self._folded = PlainMatcher(_as_plain(number, key) for number, key in plain if not key.case_sensitive)
        self._exact = PlainMatcher(_as_plain(number, key) for number, key in plain if key.case_sensitive)
        return self

    def find(self, text: str, has_time: HasTime = lambda: True) -> frozenset[int]:
        """Return the numbers of all keywords that appear in a text; without the expressions there is no time for."""
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()  # texts may be long
        numbers = self._cache.get(digest)
        if numbers is None:
            numbers = frozenset(self._find_all(text, has_time))
            if has_time():
                if len(self._cache) >= _CACHED_TEXTS:
                    self._cache.clear()
                self._cache[digest] = numbers
        return numbers

    def _find_all(self, text: str, has_time: HasTime) -> Iterator[int]:
        yield from self._folded.find(fold_case(text))
        yield from self._exact.find(normalize(text))
        yield from self.regexes.find(MESSAGE_START + text, has_time)


def _as_regex(number: int, key: Keyword) -> RegexKeyword | None:
    """Return a keyword as a regular expression, if it is one. `/(/` is plain since it is invalid, as in SillyTavern."""
    literal = split_regex_literal(key.text)
    if literal is not None:
        pattern = translate(literal[0])
        if pattern.excess or pattern.text is not None:
            return RegexKeyword(number, key.text, *literal, pattern)
    if not key.regex:
        return None
    return RegexKeyword(number, key.text, key.text, "" if key.case_sensitive else "i", translate(key.text))


def _as_plain(number: int, key: Keyword) -> PlainKeyword:
    text = normalize(key.text) if key.case_sensitive else fold_case(key.text)
    # Only single words must be whole: "the woods" is a phrase, and phrases match anywhere.
    return PlainKeyword(number, text, key.whole_words and len(text.split()) == 1)
