"""Texts made of lines: tables, logs, code and diffs."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import log2
from typing import Final

from brimful.shorten.detect import line_shape
from brimful.shorten.matching import word_set
from brimful.shorten.segments import GAP_MARK, Segment

_ERROR: Final = re.compile(
    r"\b(?:error|exception|fatal|critical|fail(?:ed|ure)?|panic|traceback|denied|refused)\b", re.IGNORECASE
)
_WARNING: Final = re.compile(r"\bwarn(?:ing)?\b", re.IGNORECASE)
_SIGNATURE: Final = re.compile(
    r"^\s*(?:(?:export|pub(?:\([^)]*\))?|public|private|protected|internal|static|abstract|final|async|default|open"
    r"|override|virtual|inline|const|unsafe|extern|readonly|get|set)\s+)*"
    r"(?:(?:def|class|fn|func|function|struct|enum|interface|trait|impl|type|module|namespace|record|object)\b"
    r"|(?:const|let|var)\s+\w+\s*(?::[^=]{1,80})?=\s*(?:async\s*)?(?:function\b|\([^;]{0,200}=>|\w+\s*=>)"
    r"|(?!(?:if|for|while|switch|catch|return|else|do|throw|new|await|with)\b)"
    r"\w+\s*\([^;]{0,400}\)\s*+(?::[^;={]{1,80})?\{\s*+$)"
    r"|^\s*(?:[\w<>\[\],*&:]+\s+)+\w+\s*\([^;]*\)\s*+(?:(?:const|throws [\w, ]++)\s*+)?\{\s*+$"
    r"|^(?!(?:if|for|while|switch|return|else)\b)[A-Za-z_][\w*&<>: ]{0,120}\([^;{}]{0,400}\)\s*+$"  # a brace follows
    r"|^\s*(?:#{1,6} |@\w+)"
)
_IMPORT: Final = re.compile(r"^\s*(?:import|from \S+ import|#include|using|use|package|require)\b")
_RARE: Final = 50  # a word is rare if at most one of so many lines has it
_BLOCK: Final = 8  # lines of a body that are kept or left out together
_NO_NUMBERS: Final = str.maketrans("", "", "0123456789abcdefABCDEF")  # decimal and hexadecimal
_UNLIKE_SHARE: Final = 0.1  # of a text that is too long, for lines from its middle that differ from all others


def _line_slices(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield start, end
        start = end


def crop_lines(text: str, size: int) -> str:
    r"""Return the beginning and the end of a long text, and from between them the lines that no other line is like.

    If these are many, none of them stands out, and they are left out as well.

    >>> crop_lines("poll 1\n" * 20 + "lost\n" + "poll 2\n" * 20, 56)
    'poll 1\npoll 1\npoll 1\npoll 1\n\n[…]\nlost\n[…]\npoll 2\npoll 2\npoll 2\npoll 2\n'
    """
    head, middle, tail = text[: size // 2], text[size // 2 : -size // 2], text[-size // 2 :]
    lines = middle.split("\n")[1:-1]  # the others may have been cut
    shapes = middle.translate(_NO_NUMBERS).split("\n")[1:-1]  # much faster than the shape of each line
    counts = Counter(shapes)
    unlike = [line for line, shape in zip(lines, shapes, strict=True) if counts[shape] == 1]
    if not unlike or sum(map(len, unlike)) > size * _UNLIKE_SHARE:
        return f"{head}\n{GAP_MARK}\n{tail}"
    return "\n".join([head, GAP_MARK, *unlike, GAP_MARK, tail])


def _rate_rarity(shapes: Sequence[str]) -> list[float]:
    """Return how much each line stands out: the bits that it takes to name the lines that are as rare as it is.

    >>> _rate_rarity(["poll"] * 7 + ["lost order"])
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]
    """
    counts, lines = Counter(shapes), Counter[int]()
    for times in counts.values():
        lines[times] += times
    rarity, up_to = dict[int, float](), 0
    for times in sorted(lines):
        up_to += lines[times]
        rarity[times] = log2(len(shapes) / up_to)
    return [rarity[counts[shape]] for shape in shapes]


def split_table(text: str) -> list[Segment]:
    """One segment for each row. The header (with the line below it in Markdown) stays as long as anything does.

    Rows that differ from all others, other than in numbers, weigh more.
    """
    rows = list(_line_slices(text))
    header = 2 if len(rows) > 1 and not text[rows[1][0] : rows[1][1]].strip("|:-+= \t\r\n") else 1
    rarity = _rate_rarity([line_shape(text[start:end]) for start, end in rows[header:]])
    return [
        *(Segment(start, end, 1000.0) for start, end in rows[:header]),
        *(
            Segment(start, end, rare + (1.5 if i in (0, len(rarity) - 1) else 1.0))
            for i, ((start, end), rare) in enumerate(zip(rows[header:], rarity, strict=True))
        ),
    ]


def fold_log(text: str, query: str = "") -> str:
    r"""Replace lines that repeat except for numbers by the first of them and how often they came.

    A line with a rare word of the query begins a new group, so that it stays visible.

    >>> print(fold_log("start\npoll 1\npoll 2\npoll 3\nend\n"))
    start
    poll 1  [3 similar lines]
    end
    """
    folded: list[tuple[str, str, int]] = []
    lines = text.splitlines()
    wanted = _find_rare_lines(lines, query) if query else set()
    for index, line in enumerate(lines):
        shape = line_shape(line)
        if folded and folded[-1][1] == shape and index not in wanted:
            folded[-1] = (folded[-1][0], shape, folded[-1][2] + 1)
        else:
            folded.append((line, shape, 1))
    return "\n".join(line if times == 1 else f"{line}  [{times:,} similar lines]" for line, _, times in folded)


def _find_rare_lines(lines: list[str], query: str) -> set[int]:
    """Return the indices of lines with a word of the query that few lines have."""
    found: dict[str, list[int]] = {word: [] for word in word_set(query)}
    for i, line in enumerate(lines):
        for word in word_set(line) & found.keys():
            found[word].append(i)
    return {i for places in found.values() if len(places) <= max(1, len(lines) // _RARE) for i in places}


def split_log(text: str) -> list[Segment]:
    """One segment for each line. Errors, what follows them indented, warnings, the first and last lines weigh more.

    So do lines that differ from all others, other than in numbers.
    """
    slices, segments, after_error = list(_line_slices(text)), list[Segment](), False
    shapes = [line_shape(text[start:end]) for start, end in slices]
    seen: set[str] = set()
    for index, ((start, end), shape, rare) in enumerate(zip(slices, shapes, _rate_rarity(shapes), strict=True)):
        line = text[start:end]
        is_error = _ERROR.search(line) is not None
        after_error = is_error or (after_error and line[:1] in " \t")
        weight = 8.0 if is_error else 4.0 if after_error or _WARNING.search(line) else 1.0
        if index in (0, len(slices) - 1):
            weight = max(weight, 6.0)
        segments.append(Segment(start, end, rare + (weight if shape not in seen else weight / 2)))
        seen.add(shape)
    return segments


def split_code(text: str) -> list[Segment]:
    """Signatures, decorators and headings are segments of their own and weigh more than the blocks between them."""
    segments: list[Segment] = []
    open_block = False
    lines = 0
    for start, end in _line_slices(text):
        line = text[start:end]
        signature, import_ = _SIGNATURE.match(line), _IMPORT.match(line)
        if signature or import_ or not open_block or lines >= _BLOCK:
            segments.append(Segment(start, end, 6.0 if signature else 0.5 if import_ else 1.0))
            open_block, lines = not signature and not import_, 1
        else:
            segments[-1] = Segment(segments[-1].start, end, 1.0)
            lines += 1
    return segments


def split_diff(text: str) -> list[Segment]:
    """Each hunk is kept or left out as a whole. Headers of files weigh more, but less than a hunk that matches."""
    segments: list[Segment] = []
    in_hunk = False
    for start, end in _line_slices(text):
        line = text[start:end]
        begins_file = line.startswith(("diff ", "Index: ")) or (line.startswith("--- ") and in_hunk)
        begins_hunk = line.startswith("@@")
        if not segments or begins_file or begins_hunk:
            segments.append(Segment(start, end, 1.0 if begins_hunk else 3.0))
        else:
            segments[-1] = Segment(segments[-1].start, end, segments[-1].weight)
        in_hunk = begins_hunk or (in_hunk and not begins_file)
    return segments
