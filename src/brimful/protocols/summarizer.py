"""Protocol of a summarizer."""

from typing import Protocol

import msgspec


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a summary of a shorter time."""

    text: str
    speaker: str = ""
    at: float = 0.0


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What to summarize: passages by topic, in about `tokens` tokens.

    `title` says when they were posted and how many they are; it precedes the summary. `previous` is the summary so far,
    if `topics` contain only what came since. `room` is where they were posted, and `focus` what matters most in them.
    """

    title: str
    topics: tuple[tuple[Passage, ...], ...]
    tokens: int
    previous: str = ""
    room: str = ""
    focus: str = ""


class Summarizer(Protocol):
    """Summarizes messages. An `incremental` one extends its previous summary without reading its messages again."""

    @property
    def incremental(self) -> bool:
        """Whether it can extend a previous summary."""
        ...

    async def summarize(self, digest: Digest) -> str:
        """Return a summary of the passages, without the title."""
        ...
