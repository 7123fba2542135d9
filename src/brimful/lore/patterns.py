r"""JavaScript regular expressions from lorebooks, translated for the library `regex` and limited in size.

Anybody may have written them, so neither compiling nor searching one may take much time or memory. `regex` unrolls
counted repeats when it compiles: `a{1000000}` takes 260 MB. So the size of an expression is computed first, and a
larger one is refused. At the limits below, an expression compiles in 0.1 seconds and takes 8 MB. A search has a time
limit, which `regex` enforces; in that time it allocates less than 40 MB.

RE2 (`google-re2` 1.1, with wheels for all our platforms) searches in linear time and limits its memory itself. Measured
on 300 expressions and 990 characters, it compiles in 24 µs instead of 250 and searches in 10 µs, as `regex` does. But
it has neither lookaround nor back references, and its `\b` knows only ASCII: `\bкот\b` is never found. A second engine
for what it can express would protect nobody, since the author of an expression would choose the engine.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from brimful.cache import LRU

MAX_LENGTH: Final = 4_000  # characters
MAX_ALTERNATIVES: Final = 1_000  # 60,000 take 4 seconds to compile
MAX_KEYWORDS: Final = 1_000  # of an entry
MAX_SIZE: Final = 20_000  # elements after counted repeats are unrolled; about 300 bytes each
_CACHED_SIZE: Final = 200_000  # elements of all compiled expressions of the process: about 60 MB
_MAX_SHOWN: Final = 60  # characters of an expression in a message

_LITERAL: Final = re.compile(r"/([\w\W]+?)/([dgimsuvy]*)")
_BARE_SLASH: Final = re.compile(r"(?:^|[^\\])/")
_TOKEN: Final = re.compile(
    r"""
    (?P<escape> \\(?: u\{[0-9a-fA-F]{1,6}\} | [pP]\{[^{}]*\} | k<\w+> | . ))
    | (?P<set> \[\^? (?: \\. | [^\]\\] )*+ \] )
    | (?P<flags> \(\?[imsu]+\) )
    | (?P<open> \( (?: \?(?: [:=!>] | <[=!] | P?<\w+> | [ims]*(?:-[ims]+)?: ) | (?!\?) ) )
    | (?P<close> \) )
    | (?P<or> \| )
    | (?P<repeat> (?: [*+?] | \{ (?P<min>[0-9]+) (?:,[0-9]*)? \} ) [?+]? )
    | (?P<invalid> [\[(\\] .*+ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SET_MEMBER: Final = re.compile(r"\\u\{[0-9a-fA-F]{1,6}\}|\\.|.", re.DOTALL)


class Pattern(NamedTuple):
    """An expression in the syntax of `regex`, or None if it is invalid; its unrolled size; the limit it exceeds."""

    text: str | None
    size: int
    excess: str = ""


def split_regex_literal(key: str) -> tuple[str, str] | None:
    r"""Return the expression between slashes and its flags; None if the keyword is plain.

    >>> split_regex_literal("/elf|elves/i"), split_regex_literal("and/or"), split_regex_literal("/a/b/")
    (('elf|elves', 'i'), None, None)
    """
    match = _LITERAL.fullmatch(key)
    if match is None or _BARE_SLASH.search(match[1]):
        return None
    return match[1].replace("\\/", "/"), match[2]


def translate(expression: str) -> Pattern:
    r"""Translate a JavaScript expression into the syntax of `regex`, and compute its size.

    Syntax that only `regex` has is escaped or refused: nested sets, fuzzy matching, recursion, verbose mode. So the
    size that is computed here is the one that `regex` builds.

    >>> translate(r"\u{1F409}[^]x{e<=3}|a{20}")
    Pattern(text='\\U0001f409[\\s\\S]x\\{e<=3}|a{20}', size=31, excess='')
    >>> translate("(unclosed").text, translate("(?:a{1000}){100000}").excess
    (None, 'unrolls to 100,100,000 elements; the limit is 20,000')
    """
    if len(expression) > MAX_LENGTH:
        excess = f"is {len(expression):,} characters long; the limit is {MAX_LENGTH:,}"
        return Pattern(None, len(expression), excess)
    tokens = list(_TOKEN.finditer(expression))
    size = _unrolled_size(tokens)
    if size is None:
        return Pattern(None, len(expression))
    alternatives = 1 + sum(token.lastgroup == "or" for token in tokens)
    if alternatives > MAX_ALTERNATIVES:
        return Pattern(None, size, f"has {alternatives:,} alternatives; the limit is {MAX_ALTERNATIVES:,}")
    if size > MAX_SIZE:
        return Pattern(None, size, f"unrolls to {size:,} elements; the limit is {MAX_SIZE:,}")
    return Pattern("".join(map(_translate_token, tokens)), size)


def _unrolled_size(tokens: Iterable[re.Match[str]]) -> int | None:
    """Return the number of elements that `regex` builds; None if the expression is invalid."""
    sizes: list[list[int]] = [[]]  # of the elements of each open group
    for token in tokens:
        match token.lastgroup:
            case "open":
                sizes.append([])
            case "invalid":
                return None
            case "close" if len(sizes) == 1:
                return None
            case "close":
                group = 1 + sum(sizes.pop())
                sizes[-1].append(group)
            case "repeat" if sizes[-1]:
                sizes[-1][-1] *= max(1, int(token["min"] or 1))
            case "set":
                sizes[-1].append(len(token[0]))
            case "escape" | "other":
                sizes[-1].append(1)
    return sum(sizes[0]) if len(sizes) == 1 else None


def _translate_token(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "set":
            members = [_escape(member) for member in _SET_MEMBER.findall(token[0][1:-1])]
            return _join_set(members)
        case "escape" | "other":
            return _escape(token[0])
        case _:
            return token[0]


def _escape(element: str) -> str:
    if element.startswith("\\u{"):
        return rf"\U{int(element[3:-1], 16):08x}"
    if element.startswith("\\k<"):
        return f"(?P={element[3:-1]})"
    return "\\" + element if element in ("{", "[") else element


def _join_set(members: list[str]) -> str:
    if not members:
        return "(?!)"
    return r"[\s\S]" if members == ["^"] else f"[{''.join(members)}]"


_compiled: Final[LRU[tuple[str, str], tuple[Any, int]]] = LRU(max_size=_CACHED_SIZE, size=lambda _, value: value[1])


def compile_regex(expression: str, flags: str) -> Any:
    """Return a compiled JavaScript expression, or None if it is invalid or exceeds a limit."""
    cached = _compiled.get((expression, flags))
    if cached is None:
        cached = _compiled[expression, flags] = _compile(expression, flags)
    return cached[0]


def _compile(expression: str, flags: str) -> tuple[Any, int]:
    """Return the compiled expression and its size for the cache."""
    import regex  # noqa: PLC0415 - only where a book has patterns

    pattern = translate(expression)
    if pattern.text is None:
        return None, len(expression)
    options = regex.VERSION0
    for flag, option in (("i", regex.IGNORECASE), ("m", regex.MULTILINE), ("s", regex.DOTALL)):
        options |= option if flag in flags else 0
    try:  # the library's own cache would hold 500 expressions of any size
        return regex.compile(pattern.text, options, cache_pattern=False), pattern.size
    except (regex.error, OverflowError, RecursionError, ValueError):
        return None, len(expression)


def find_refusals(keys: Iterable[str], *, regex: bool) -> Iterator[str]:
    """Yield a sentence for each keyword over a limit, and for too many; with `regex`, all of them are expressions."""
    listed = list(keys)
    for key in listed:
        literal = split_regex_literal(key)
        if literal is None and not regex:
            if len(key) > MAX_LENGTH:
                yield f"the keyword {shorten(key)} is {len(key):,} characters long; the limit is {MAX_LENGTH:,}"
        elif excess := translate(literal[0] if literal else key).excess:
            yield f"the regular expression {shorten(key)} {excess}"
    if len(listed) > MAX_KEYWORDS:
        yield f"there are {len(listed):,} keywords; the limit is {MAX_KEYWORDS:,}"


def shorten(key: str) -> str:
    """Return a keyword for a message."""
    return repr(key if len(key) <= _MAX_SHOWN else key[:_MAX_SHOWN] + "…")
