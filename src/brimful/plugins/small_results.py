"""Recognize the small result of a tool, which needs no answer, before anything is imported."""

from typing import Final

LIMIT_VARIABLE: Final = "BRIMFUL_HOOK_LIMIT"
"""Environment variable with the number of tokens from which results are shortened."""
DEFAULT_LIMIT: Final = 2_000
BYTES_PER_TOKEN: Final = 3  # at least, of nearly all texts in UTF-8: what is shorter is not counted

_EVENT: Final = b'"PostToolUse"'  # quotes in texts are escaped, so that no text contains this


def is_small_result(event: bytes, limit: str = "") -> bool:
    """Return whether an event is a tool's result of certainly fewer tokens than the limit.

    >>> is_small_result(b'{"hook_event_name": "PostToolUse", "tool_response": "ok"}')
    True
    >>> is_small_result(b'{"hook_event_name": "SessionStart"}')
    False
    """
    most = int(limit) if limit.isdecimal() else DEFAULT_LIMIT
    return len(event) <= BYTES_PER_TOKEN * most and _EVENT in event
