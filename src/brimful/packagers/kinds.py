"""What a kind implies where the caller says nothing: priority, importance, and whether it may be dropped."""

from typing import Final

import msgspec


class Defaults(msgspec.Struct, frozen=True):
    """The implied values of a kind."""

    priority: int
    importance: float
    can_drop: bool = True


OTHER: Final = Defaults(5, 0.5)

KINDS: Final = {
    "system-prompt": Defaults(10, 1.0, can_drop=False),
    "system-note": Defaults(10, 1.0, can_drop=False),
    "message-current": Defaults(10, 1.0, can_drop=False),
    "message-recent": Defaults(9, 0.5),
    "message-older": Defaults(5, 0.5),
    "tool-call": Defaults(9, 0.5),
    "tool-result": Defaults(9, 0.5),
    "memory-semantic": Defaults(8, 0.5),  # facts hold longest
    "memory-procedural": Defaults(7, 0.5),
    "memory-episodic": Defaults(6, 0.5),  # events fade first
    "lorebook": Defaults(7, 0.5),
    "summary": Defaults(7, 0.5),
    "code-snippet": Defaults(7, 0.5),
    "media-image": Defaults(3, 0.3),
    "media-audio": Defaults(3, 0.3),
    "media-video": Defaults(3, 0.3),
}
"""By the founding documents where they speak of a kind; ours for the others."""


def defaults_of(kind: str) -> Defaults:
    """Return what a kind implies.

    >>> defaults_of("memory-semantic").priority, defaults_of("something-new").priority
    (8, 5)
    """
    return KINDS.get(kind, OTHER)
