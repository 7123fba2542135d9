"""Why an entry was activated, and why a matching entry was excluded."""

from typing import Literal

import msgspec

ActivationKind = Literal["constant", "key", "sticky", "found", "decorator"]
KeywordPlace = Literal["message", "entry", "source"]
ExclusionKind = Literal[
    "delay", "cooldown", "persona", "recursion", "secondary", "group", "probability", "budget", "pattern"
]

CURRENT_MESSAGE = "(current)"  # the id of a message that stands in no room yet


class ActivationReason(msgspec.Struct, frozen=True, kw_only=True):
    """What brought an entry in: `by` a key, and `where` it stands (a message, another entry, a text of the persona).

    `secondary` is what its secondary keys had to say. `until` is the message with which a sticky entry ends.
    """

    by: ActivationKind
    key: str = ""
    place: KeywordPlace = "message"
    where: str = ""
    secondary: str = ""
    until: int = 0
    relevance: float | None = None

    @property
    def line(self) -> str:
        """Say it in words.

        >>> ActivationReason(by="key", key="dragon", where="m12").line
        "its key 'dragon' stands in message 'm12'"
        """
        match self.by:
            case "constant":
                return "it is always told"
            case "decorator":
                return "its text says @@activate"
            case "sticky":
                return f"it was told before, and stays until message {self.until:,}"
            case "found":
                return f"retrieval found it (relevance {self.relevance or 0.0:.2f})"
            case "key":
                return f"its key {self.key!r} stands in {self._shown_place}{self.secondary}"

    @property
    def _shown_place(self) -> str:
        if self.place == "message":
            return "the message to be answered" if self.where == CURRENT_MESSAGE else f"message {self.where!r}"
        return f"entry {self.where!r}" if self.place == "entry" else f"the persona's {self.where}"


class LoreExclusion(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that was spoken of and is not told: the reason, with its numbers, and the entry that was told for it."""

    entry: str
    reason: ExclusionKind
    detail: str
    by: str = ""
    why: ActivationReason | None = None

    @property
    def line(self) -> str:
        """Say it in words."""
        return f"{self.reason}: {self.detail}"
