"""What kind of text it is, from its beginning."""

import re
from collections import Counter
from typing import Final

from brimful.shorten.segments import Kind

_SAMPLE: Final = 20_000  # characters that decide
_MIN_LINES: Final = 6
_HTML: Final = re.compile(r"<(?:!doctype html|html|head|body|div|table|p|ul|ol|section|article)\b[^>]*>", re.IGNORECASE)
_HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_LOG_LINE: Final = re.compile(
    r"^\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\d{10}\b)"
    r"|\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
)
_CODE_LINE: Final = re.compile(
    r"^\s*(?:def|class|import|from \S+ import|fn|func|function|pub|public|private|protected|static|const|let|var|return"
    r"|if\s*\(|for\s*\(|while\s*\(|#include|package|using|namespace|struct|enum|impl|interface|export|async|@\w+)\b"
    r"|[{};]\s*$|^\s*[\w.\[\]\"']+ [-+*/|]?= |^\s+[\w.]+\(.*\)$|^\s*(?:if|for|while|elif|else|try|except|with)\b.*:\s*$|^\s*(?://|/\*|\*/)"
)
_VARYING: Final = re.compile(r"\b(?:0x)?(?=[a-f]*+\d)[0-9a-f]++\b")
_DELIMITERS: Final = (",", "\t", ";", "|")


def detect(text: str) -> Kind:
    r"""Return the kind of the text.

    >>> detect('{"a": 1}'), detect("a,b,c\n" + "1,2,3\n" * 9), detect("Just a sentence.")
    ('json', 'table', 'prose')
    """
    sample = text[:_SAMPLE].lstrip("\ufeff \t\r\n")
    if sample[:1] in ("{", "["):
        return "json"
    if sample.startswith("diff --git ") or _HUNK.search(sample):
        return "diff"
    if sample[:1] == "<" and _HTML.search(sample[:1000]):
        return "html"
    return _detect_by_lines([line for line in sample.splitlines() if line.strip()])


def _detect_by_lines(lines: list[str]) -> Kind:
    if len(lines) < _MIN_LINES:
        return "prose"
    if _is_table(lines):
        return "table"
    if _share(_LOG_LINE, lines) > 0.5:  # noqa: PLR2004 - most lines
        return "log"
    if _share(_CODE_LINE, lines) > 0.5:  # noqa: PLR2004 - most lines
        return "code"
    return "log" if _repeats(lines) else "prose"


def _share(pattern: re.Pattern[str], lines: list[str]) -> float:
    return sum(pattern.search(line[:500]) is not None for line in lines) / len(lines)


def _is_table(lines: list[str]) -> bool:
    """Whether nearly all lines have the same number of some delimiter, as in CSV and Markdown tables."""
    for delimiter in _DELIMITERS:
        usual, times = Counter(line.count(delimiter) for line in lines).most_common(1)[0]
        if usual >= 2 - (delimiter in "\t|") and times >= 0.9 * len(lines):
            return True
    return False


def _repeats(lines: list[str]) -> bool:
    """Whether many lines are the same except for numbers."""
    shapes = Counter(line_shape(line) for line in lines)
    return sum(times for times in shapes.values() if times > 2) > len(lines) / 2  # noqa: PLR2004 - more than a pair


def line_shape(line: str) -> str:
    """Return the line without what varies from line to line: numbers, and ids in hexadecimal."""
    return _VARYING.sub("#", line.casefold())
