"""Protocol of a summarizer."""

from typing import Protocol

import msgspec


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said, or that a shorter summary tells."""

    text: str
    speaker: str = ""
    at: float = 0.0


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be summed up: passages by topic, told in about so many tokens.

    `title` says of when they are and how many, and stands before whatever is told of them. `previous` is what was told
    before, where `topics` are only what came since.
    """

    title: str
    topics: tuple[tuple[Passage, ...], ...]
    tokens: int
    previous: str = ""


class Summarizer(Protocol):
    """Tells in few words what was said.

    One that is `incremental` goes on from what it told before, and need not read again what it has read.
    """

    @property
    def incremental(self) -> bool:
        """Whether it can go on from what it told before."""
        ...

    async def summarize(self, digest: Digest) -> str:
        """Return what the passages say, without the title."""
        ...
