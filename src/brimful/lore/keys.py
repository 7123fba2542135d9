r"""Match thousands of keywords against a text at once, plain ones and regular expressions.

Keywords that must be whole words are looked up among the words of the text. Others are found by their first one to
three characters: only where those occur is the keyword compared. So the time depends on the text, not on the number
of keywords. (Aho–Corasick would do as well, but it reports every occurrence, and needs a library that is built for
each platform.)

Regular expressions are JavaScript's (`/dragons?\b/i`). They come from files that anybody may have written, so every
search has a time limit, which the library `regex` enforces. RE2 would need none, but it has neither lookaround nor
back references, and real lorebooks are full of them.
"""

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

_UNSPACED_SCRIPTS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff"
"""Scripts that part no words, or bind particles to them: Thai, Lao, Burmese, Khmer; Chinese, Japanese, Korean."""

_WORD: Final = re.compile(rf"[^\W{_UNSPACED_SCRIPTS}]+")
_GRAM: Final = 3  # characters by which a longer key is looked for
_PROBE: Final = 32  # characters of a key that are compared at a place; the rest of a long one is searched for once


class PlainKeyword(NamedTuple):
    """A key that is looked for as it is. `whole`: it has to stand as a word of its own."""

    number: int
    text: str
    whole: bool


def fold_case(text: str) -> str:
    """Return a text without case, in one form."""
    return unicodedata.normalize("NFC", text).casefold()


def normalize(text: str) -> str:
    """Return a text in one form."""
    return unicodedata.normalize("NFC", text)


class PlainMatcher:
    """Keys in one form, folded or exact. Texts must be in the same one."""

    def __init__(self, keys: Iterable[PlainKeyword]) -> None:
        """Sort keys by how they are looked for."""
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

    def found(self, text: str) -> Iterator[int]:
        """Yield the numbers of the keys that stand in a text."""
        if self._words:
            for word in self._words.keys() & set(_WORD.findall(text)):
                yield from self._words[word]
        for key in self._probed(text):
            if _is_whole_word(text, key.text) if key.whole else len(key.text) <= _PROBE or key.text in text:
                yield key.number

    def _probed(self, text: str) -> Iterator[PlainKeyword]:
        """Yield the keys whose beginnings stand in a text, each once."""
        for size, begins in self._grams.items():
            grams = {text[at : at + size] for at in range(len(text) - size + 1)}
            for gram in begins.keys() & grams:
                yield from _probe_matches(text, gram, begins[gram])


def _probe_matches(text: str, gram: str, by_length: dict[int, dict[str, list[PlainKeyword]]]) -> Iterator[PlainKeyword]:
    seen: set[str] = set()
    place = text.find(gram)
    while place >= 0:
        for length, probes in by_length.items():
            probe = text[place : place + length]
            if probe in probes and probe not in seen:
                seen.add(probe)
                yield from probes[probe]
        place = text.find(gram, place + 1)


def _is_whole_word(text: str, key: str) -> bool:
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


REGEX_TIMEOUT: Final = 0.05  # seconds for one pattern in one text
MAX_TIMEOUTS: Final = 10  # patterns of a book that may take longer; then no further one is tried
MESSAGE_START: Final = (
    "\x01"  # stands before every message, so that a pattern can say where one begins, as SillyTavern's can
)

_REGEX_LITERAL: Final = re.compile(r"/([\w\W]+?)/([dgimsuvy]*)")
_BARE_SLASH: Final = re.compile(r"(?:^|[^\\])/")
_CODE_POINT: Final = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}")


class RegexKeyword(NamedTuple):
    """A key that is a pattern. `search` is the compiled one, or None if it is no pattern at all."""

    number: int
    text: str
    search: Any


def split_regex_literal(key: str) -> tuple[str, str] | None:
    r"""Return what stands between the slashes of a key, and the flags after them; None if it is a plain text.

    >>> split_regex_literal("/elf|elves/i"), split_regex_literal("and/or"), split_regex_literal("/a/b/")
    (('elf|elves', 'i'), None, None)
    """
    found = _REGEX_LITERAL.fullmatch(key)
    if found is None or _BARE_SLASH.search(found[1]):
        return None
    return found[1].replace("\\/", "/"), found[2]


@lru_cache(maxsize=16_384)
def compile_regex(pattern: str, flags: str) -> Any:
    """Return a pattern of JavaScript's as one of ours, or None if it is none."""
    import regex  # noqa: PLC0415 - only where a book has patterns

    told = _CODE_POINT.sub(_code_point, pattern).replace("[^]", r"[\s\S]")
    chosen = regex.VERSION0
    for flag, ours in (("i", regex.IGNORECASE), ("m", regex.MULTILINE), ("s", regex.DOTALL)):
        chosen |= ours if flag in flags else 0
    try:
        return regex.compile(told, chosen)
    except (regex.error, OverflowError, RecursionError, ValueError):
        return None


def _code_point(found: re.Match[str]) -> str:
    return rf"\U{int(found[1], 16):08x}"


class RegexMatcher:
    """The patterns of some books. One that took too long is not tried again."""

    def __init__(self, patterns: Iterable[RegexKeyword]) -> None:
        """Hold patterns that could be compiled."""
        self._patterns = [pattern for pattern in patterns if pattern.search is not None]
        self.hung: dict[int, str] = {}

    def found(self, text: str) -> Iterator[int]:
        """Yield the numbers of the patterns that are found in a text."""
        for pattern in self._patterns:
            if pattern.number not in self.hung and not self.exhausted and self._searched(pattern, text):
                yield pattern.number

    @property
    def exhausted(self) -> bool:
        """Whether so many took too long that the others are not tried."""
        return len(self.hung) >= MAX_TIMEOUTS

    def _searched(self, pattern: RegexKeyword, text: str) -> bool:
        try:
            return pattern.search.search(text, timeout=REGEX_TIMEOUT) is not None
        except TimeoutError:
            self.hung[pattern.number] = pattern.text
            return False


_CACHED_TEXTS: Final = 2_048  # texts: from one turn to the next, nearly all messages are the same


class Keyword(NamedTuple):
    """A key as an entry means it: with or without case, as a whole word, as a pattern."""

    text: str
    case_sensitive: bool
    whole_words: bool
    regex: bool


class KeywordMatcher:
    """Finds keys in texts; what it found in a text, it remembers."""

    def __init__(self) -> None:
        """Begin without any key."""
        self._numbers: dict[Keyword, int] = {}
        self._known: dict[bytes, frozenset[int]] = {}

    def number(self, key: Keyword) -> int:
        """Return the number of a key. All keys must be numbered before the first text is looked through."""
        return self._numbers.setdefault(key, len(self._numbers))

    def ready(self) -> "KeywordMatcher":
        """Sort all keys by how they are looked for."""
        sorted_keys = [(number, key, _as_regex(number, key)) for key, number in self._numbers.items()]
        self.patterns = RegexMatcher(pattern for _, _, pattern in sorted_keys if pattern is not None)
        plain = [(number, key) for number, key, pattern in sorted_keys if pattern is None]
        self._folded = PlainMatcher(_as_plain(number, key) for number, key in plain if not key.case_sensitive)
        self._exact = PlainMatcher(_as_plain(number, key) for number, key in plain if key.case_sensitive)
        return self

    def found(self, text: str) -> frozenset[int]:
        """Return the numbers of all keys that stand in a text."""
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()  # texts may be long
        found = self._known.get(digest)
        if found is None:
            if len(self._known) >= _CACHED_TEXTS:
                self._known.clear()
            found = self._known[digest] = frozenset(self._all(text))
        return found

    def _all(self, text: str) -> Iterator[int]:
        yield from self._folded.found(fold_case(text))
        yield from self._exact.found(normalize(text))
        yield from self.patterns.found(MESSAGE_START + text)


def _as_regex(number: int, key: Keyword) -> RegexKeyword | None:
    """Return a key as a pattern, if it is one. What only looks like one is a text, as in SillyTavern."""
    between = split_regex_literal(key.text)
    if between is not None and (search := compile_regex(*between)) is not None:
        return RegexKeyword(number, key.text, search)
    if not key.regex:
        return None
    return RegexKeyword(number, key.text, compile_regex(key.text, "" if key.case_sensitive else "i"))


def _as_plain(number: int, key: Keyword) -> PlainKeyword:
    text = normalize(key.text) if key.case_sensitive else fold_case(key.text)
    # Of several words only one need be whole: "the woods" is a phrase, and phrases are found wherever they stand.
    return PlainKeyword(number, text, key.whole_words and len(text.split()) == 1)
