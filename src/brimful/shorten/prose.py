"""Prose: sentences and paragraphs. HTML becomes prose first."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from html import unescape
from typing import Final

from brimful.shorten.segments import GAP_MARK, Segment

_SENTENCE_OR_LINE: Final = re.compile(r"""(?<![.!?…])[.!?…]++["'»”’)\]]*+(?=\s)|[。！？]+[」』”’）]*|(?=\n)""")
_WORD: Final = re.compile(r"\S(?=\s)")
_JOINER: Final = "\u200d"  # joins two emoji into one
_MAX_JOINED: Final = 32  # code points of a character; UAX #15 allows 30 marks on one, longer emoji do not exist
_PASSAGE: Final = 120  # characters of a segment, unless a sentence is longer
_MAX_PASSAGE: Final = 600  # characters; longer sentences are divided at words
_HEADING: Final = re.compile(r"\s*(?:#{1,6} |[^\n]{1,80}:\s*$)")


def split_prose(text: str, size: int = _PASSAGE) -> list[Segment]:
    """Divide a text into passages of one or a few sentences, `size` characters or a little more.

    The beginning, the end and headings weigh more.
    """
    ends = sorted({*_passage_ends(text, size), len(text)})
    starts = [0, *ends[:-1]]
    last = len(ends) - 1
    return [
        Segment(start, end, _prose_weight(text[start:end], i, last))
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
        if end > start
    ]


def _passage_ends(text: str, size: int) -> list[int]:
    ends, start, end = list[int](), 0, 0
    for match in _SENTENCE_OR_LINE.finditer(text):
        if match.end() < end:
            continue  # within the same space, which is skipped only once: there may be a lot of it
        end = _skip_spaces(text, match.end())
        if end - start >= size or "\n\n" in text[match.end() : end]:
            ends += _divide(text, start, end)
            start = end
    return [*ends, *_divide(text, start, len(text))]


def _skip_spaces(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _divide(text: str, start: int, end: int) -> list[int]:
    """Return the ends of pieces of at most `_MAX_PASSAGE` characters, at words if there are any."""
    ends = []
    while end - start > _MAX_PASSAGE:
        space = text.rfind(" ", start + 1, start + _MAX_PASSAGE)
        start = space + 1 if space > 0 else whole_character(text, start + _MAX_PASSAGE)
        ends.append(start)
    return [*ends, end]


def _prose_weight(passage: str, index: int, last: int) -> float:
    if index == 0:
        return 4.0
    if index == last or _HEADING.match(passage):
        return 2.5
    return 1.0 + 1.0 / (index + 1)  # earlier passages weigh a little more, so that equal ones are taken in order


def cut_text(text: str, limit: int, count: Callable[[str], int]) -> str | None:
    """Return the longest prefix of the text that counts at most `limit` tokens, including the mark after it.

    It ends at a sentence or a line; if not even the first one fits, at a word; if not even that fits, at a character.
    A text that fits is returned unchanged; None means that nothing fits. The time depends on the length of the result.

    >>> cut_text("One two. Three four. Five six.", 24, len)
    'One two. Three four. […]'
    >>> cut_text("One two. Three four. Five six.", 9, len)
    'One […]'
    >>> cut_text("One two. Three four. Five six.", 6, len)
    'On […]'
    >>> cut_text("One two. Three four. Five six.", 4, len) is None
    True
    """
    if count(text) <= limit:
        return text
    blank = len(text) - len(text.lstrip())

    def cut(end: int) -> str:
        whole = whole_character(text, end)
        return f"{text[: whole if whole > blank else end].rstrip()} {GAP_MARK}"

    for ends in (
        [match.end() for match in _SENTENCE_OR_LINE.finditer(text, blank) if match.end() > blank],
        [match.end() for match in _WORD.finditer(text, blank)],
        range(blank + 1, len(text)),
    ):
        end = _last_fitting(ends, lambda end: count(cut(end)) <= limit)
        if end is not None:
            return cut(end)
    return None


def _last_fitting(ends: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Find the last end that fits by galloping search, so that no long prefix is counted needlessly."""
    low, high = -1, 0
    while high < len(ends) and fits(ends[high]):
        low, high = high, high * 2 + 1
    high = min(high, len(ends))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(ends[middle]) else (low, middle)
    return ends[low] if low >= 0 else None


def whole_character(text: str, end: int) -> int:
    """Step back so that no accent, joiner or skin tone is separated from its character.

    A character that is longer than real ones are is divided, so that a text of marks alone has an end.
    """
    for start in range(end, max(0, end - _MAX_JOINED), -1):
        if start == len(text) or not (_joins_previous(text[start]) or text[start - 1] == _JOINER):
            return start
    return end


def _joins_previous(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or character == _JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


# -- HTML ------------------------------------------------------------------------------------------------------------

# Every alternative that begins to match goes on to its end or to that of the page, so that no text is read twice.
_TAG: Final = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<code>script|style)(?=[\s/>]).*?(?:</(?P=code)(?=[\s/>])[^>]*+>?+|\Z)"
    r"""|<(?P<end>/?)(?P<name>[a-z][^\s/>]*+)(?:[^>=]++|=\s*+(?:"[^"]*+"?+|'[^']*+'?+)?+)*+>?+"""
    r"|<[!?/][^>]*+>?+",
    re.IGNORECASE | re.DOTALL,
)
_REFERENCE: Final = re.compile(r"&#?\w{1,32}+(?!\w);?", re.ASCII)  # no name is longer
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_HIDDEN: Final = frozenset({"head", "noscript", "template", "svg", "nav", "iframe"})
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset"),
        *("figure", "footer", "form", *_HEADINGS, "header"),
        *("hr", "li", "main", "ol", "p", "pre", "section", "table", "tr", "ul"),
    }
)


def extract_html(page: str) -> str:
    r"""Return the visible text of a page: one line for each block, `# ` before headings, `- ` before list items.

    >>> extract_html("<html><head><title>x</title></head><body><h1>News</h1><p>It <b>rains</b>.</p></body></html>")
    '# News\nIt rains.'
    """
    pieces: list[str] = []
    end, hidden, depth = 0, "", 0
    for tag in _TAG.finditer(page):
        name, opens = (tag["name"] or "").lower(), not tag["end"]
        if depth:
            depth += 0 if name != hidden or tag[0].endswith("/>") else 1 if opens else -1
        else:
            pieces += (_read_text(page[end : tag.start()]), _separator(name, opens=opens))
            if name in _HIDDEN and opens and not tag[0].endswith("/>"):
                hidden, depth = name, 1
        end = tag.end()
    pieces.append("" if depth else _read_text(page[end:]))
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _read_text(text: str) -> str:
    return _REFERENCE.sub(lambda reference: unescape(reference[0]), text.replace("\n", " "))


def _separator(tag: str, *, opens: bool) -> str:
    """Return what stands for a tag in the text."""
    if tag in _BLOCKS:
        return "\n" + ("# " if opens and tag in _HEADINGS else "- " if opens and tag == "li" else "")
    return " | " if opens and tag in ("td", "th") else ""
