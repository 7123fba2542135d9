"""Verify the finished request: parse it, check its provider's rules, and count it as a whole."""

from typing import Protocol

import msgspec

from brimful.core.content import Media, Part
from brimful.core.counter import TokenCounter
from brimful.core.prompt import Message, Prompt, Request, Role, Text
from brimful.core.tokens import Basis


def restore_media_sizes(parsed: Prompt, original: Prompt) -> Prompt:
    """Return the prompt that was read from a request, its media as large and as long as they are in the original.

    What is looked up is only the size of the same medium, by its URL or data; what is in the request, and how often, is
    taken from the request alone.

    >>> def showing(image: Media) -> Prompt:
    ...     return Prompt(model="m", messages=(Message(role="user", parts=(image,)),))
    >>> bare, sized = Media(modality="image", url="u"), Media(modality="image", url="u", width=640, height=480)
    >>> restore_media_sizes(showing(bare), showing(sized)).messages[0].parts[0].width
    640
    """
    known: dict[str, list[Media]] = {}
    for media in (part for message in original.messages for part in message.parts if isinstance(part, Media)):
        known.setdefault(_media_key(media), []).append(media)
    if not known:
        return parsed

    def restored(part: Part) -> Part:
        same = known.get(_media_key(part)) if isinstance(part, Media) else None
        if not same:
            return part
        found = same.pop(0) if len(same) > 1 else same[0]
        return msgspec.structs.replace(part, width=found.width, height=found.height, seconds=found.seconds)

    def with_sizes(message: Message) -> Message:
        return msgspec.structs.replace(message, parts=tuple(restored(part) for part in message.parts))

    return msgspec.structs.replace(parsed, messages=tuple(with_sizes(message) for message in parsed.messages))


def _media_key(media: Media) -> str:
    """Return the address, or the data, which some wires want inside a `data:` address."""
    return media.url.partition(",")[2] if media.url.startswith("data:") else media.url or media.data


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
    count = counter.prompt(restore_media_sizes(renderer.parse(request), prompt))
    return Verification(
        tokens=count.upper, limit=limit, parts=parts, basis=count.basis, rounds=rounds, margin=count.margin
    )
