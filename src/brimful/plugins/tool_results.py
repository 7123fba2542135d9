"""The forms of tool results in Claude Code and Codex, and their texts.

A result keeps its form: only the texts in it are replaced. A form that is not known here stays as it is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Shorten = Callable[[str], str]
"""Returns a shorter text; one that is small enough is returned unchanged."""

_GAP: Final = re.compile(r"\[… ([\d,]+) lines?\]")


def shorten_result(  # noqa: PLR0911 - one for each form
    tool: str, arguments: Mapping[str, Any], result: Any, shorten: Shorten, shorten_file: Shorten
) -> Any:
    """Return a result of Claude Code with its texts shortened. `shorten_file` keeps whole lines.

    >>> shorten_result("Bash", {}, {"stdout": "long", "stderr": ""}, lambda text: text[:2], str)
    {'stdout': 'lo', 'stderr': ''}
    """
    match tool, result:
        case (("Bash" | "PowerShell"), {"stdout": str(out), "stderr": str(err)}) if not _is_elsewhere(result):
            return {**result, "stdout": shorten(out), "stderr": shorten(err)}
        case "Read", {"type": "text", "file": {"content": str(text)} as file} if not _is_part(arguments):
            return {**result, "file": {**file, "content": shorten_file(text)}}
        case "Grep", {"content": str(text)}:
            return {**result, "content": shorten(text)}
        case "WebFetch", {"result": str(text)}:
            return {**result, "result": shorten(text)}
        case _, list() if is_foreign(tool):
            return [{**block, "text": shorten(block["text"])} if _is_text(block) else block for block in result]
        case _, str() if is_foreign(tool):
            return shorten(result)
        case _:
            return result


def plain_result(result: Any) -> str:
    r"""Return the text of a result of Codex; empty if it is not only text.

    >>> plain_result({"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]})
    'one\ntwo'
    """
    match result:
        case str():
            return result
        case {"content": list(blocks)} if all(map(_is_text, blocks)):
            return "\n".join(block["text"] for block in blocks)
        case _:
            return ""


def is_foreign(tool: str) -> bool:
    """Whether a tool belongs to an MCP server other than ours, whose results have the size that was asked for."""
    return tool.startswith("mcp__") and "brimful" not in tool


def name_gaps(text: str, original: str) -> str:
    r"""Return a shortened file with the numbers of the lines that each gap stands for.

    Claude Code numbers the lines that it shows, so that the numbers after a gap are wrong.

    >>> print(name_gaps("a\n[… 2 lines]\nd", "a\nb\nc\nd"))
    a
    [… lines 2-3]
    d
    """
    lines, named, index = original.split("\n"), list[str](), 0
    gap, blank = -1, 0  # where the gap before a line begins, and the blank lines shown after it
    for line in [*text.split("\n"), None]:
        mark = _GAP.fullmatch(line) if line else None
        if mark:
            gap, blank = index if gap < 0 else gap, 0
            index = _next_text(lines, index) + int(mark[1].replace(",", ""))  # blank lines around a gap are not counted
        elif gap >= 0 and line == "":
            blank += 1
        elif gap >= 0:
            index = _next_text(lines, index)
            named += [f"[… lines {gap + 1}-{index - blank}]", *[""] * blank]
            gap, blank = -1, 0
        if gap < 0 and line is not None:
            index = _next_text(lines, index) if line else index  # those at the beginning are not shown
            if index >= len(lines) or lines[index] != line:
                return text
            named.append(line)
            index += 1
    return "\n".join(named)


def _next_text(lines: Sequence[str], start: int) -> int:
    """Return the index of the first line from `start` on that is not blank, or the number of lines."""
    return next((index for index in range(start, len(lines)) if lines[index]), len(lines))


def _is_elsewhere(result: Mapping[str, Any]) -> bool:
    """Whether a result is a picture, or too large for Claude Code, which then shows the beginning of a file with it."""
    return bool(result.get("isImage") or result.get("persistedOutputPath"))


def _is_part(arguments: Mapping[str, Any]) -> bool:
    """Whether a certain part of a file was asked for: then that is what the model needs."""
    return bool(arguments.get("offset") or arguments.get("limit"))


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
