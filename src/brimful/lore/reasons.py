"""Why an entry was activated, and why a matching entry was excluded."""

from typing import Literal

import msgspec

from brimful.core.decision import format_relevance

ActivationKind = Literal["constant", "keyword", "sticky", "retrieval", "decorator"]
KeywordLocation = Literal["message", "entry", "source"]
ExclusionKind = Literal[
    "delay", "cooldown", "persona", "recursion", "secondary", "group", "probability", "budget", "pattern"
]

CURRENT_MESSAGE = "(current)"  # the id of a message that is not in a room yet


class ActivationReason(msgspec.Struct, frozen=True, kw_only=True):
    """What activated an entry.

    For a keyword, `location` and `where` say in which message, entry or text of the persona it appears, and `secondary`
    what its secondary keywords did. `until` is the message with which a sticky entry ends.
    """

    by: ActivationKind
    keyword: str = ""
    location: KeywordLocation = "message"
    where: str = ""
    secondary: str = ""
    until: int = 0
    relevance: float | None = None

    @property
    def text(self) -> str:
        """The reason in words.

        >>> ActivationReason(by="keyword", keyword="dragon", where="m12").text
        "keyword 'dragon' in message 'm12'"
        """
        match self.by:
            case "constant":
                return "always on"
            case "decorator":
                return "its text contains @@activate"
            case "sticky":
                return f"sticky until message {self.until:,}"
            case "retrieval":
                return f"found by retrieval (relevance {format_relevance(self.relevance or 0.0)})"
            case "keyword":
                return f"keyword {self.keyword!r} in {self._location_text}{self.secondary}"

    @property
    def _location_text(self) -> str:
        if self.location == "message":
            return "the current message" if self.where == CURRENT_MESSAGE else f"message {self.where!r}"
        return f"entry {self.where!r}" if self.location == "entry" else f"the persona's {self.where}"


class LoreExclusion(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that matched but was excluded. `winner` is the entry that was activated instead, in a group."""

    entry: str
    reason: ExclusionKind
    detail: str
    winner: str = ""
    match: ActivationReason | None = None

    @property
    def text(self) -> str:
        """The reason in words."""
        return f"{self.reason}: {self.detail}"
