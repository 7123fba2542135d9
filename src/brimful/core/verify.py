"""The finished request, counted again as a whole and checked against its provider's rules."""

from typing import Protocol

import msgspec

from brimful.core.prompt import Media, Prompt, Request, Role, Text
from brimful.core.sizes import restore_sizes
from brimful.core.tokens import Basis, TokenCounter


class Renderer(Protocol):
    """Writes a prompt as a provider's request, reads one back, and knows the provider's rules."""

    @property
    def names_in_text(self) -> bool:
        """Whether the provider has no field for a speaker's name, so that it stands in the text."""
        ...

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request."""
        ...

    def stand_in(self, media: Media, role: Role) -> Text | None:
        """Return the text that will stand for a medium, or nothing if the medium itself is sent."""
        ...

    def parse(self, request: Request) -> Prompt:
        """Read a request back: what is counted is what will be sent. Raise `InvalidRequest` if a rule is broken."""
        ...


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The count of the request as a whole beside the sum of its parts, and how often the fill was repeated for it.

    `limit` is the window without the completion reserve. `basis` says how sure the count is, and `margin` how much of
    `tokens` is there for what it may have missed.
    """

    tokens: int
    limit: int
    parts: int
    basis: Basis
    rounds: int
    margin: int = 0

    @property
    def difference(self) -> int:
        """The whole minus the sum of its parts."""
        return self.tokens - self.parts


def verify(
    request: Request, prompt: Prompt, renderer: Renderer, counter: TokenCounter, *, limit: int, parts: int, rounds: int
) -> Verification:
    """Read the request back, which checks its provider's rules, and count what will be sent from the request itself.

    The prompt only tells the sizes of its media.
    """
    count = counter.prompt(restore_sizes(renderer.parse(request), prompt))
    return Verification(
        tokens=count.upper, limit=limit, parts=parts, basis=count.basis, rounds=rounds, margin=count.margin
    )
