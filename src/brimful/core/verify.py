"""Verify the finished request: parse it, check its provider's rules, and count it as a whole."""

import msgspec

from brimful.core.content import Media, Part
from brimful.core.prompt import Message, Prompt, Renderer, Request, TokenCounter
from brimful.core.tokens import Basis


def restore_media_sizes(parsed: Prompt, original: Prompt) -> Prompt:
    """Return a prompt parsed from a request, with the media sizes of the original prompt.

    Only sizes are taken from the original, by the URL or data of a media item. Everything else comes from the request.

    >>> def showing(image: Media) -> Prompt:
    ...     return Prompt(model="m", messages=(Message(role="user", parts=(image,)),))
    >>> bare, sized = Media(modality="image", url="u"), Media(modality="image", url="u", width=640, height=480)
    >>> restore_media_sizes(showing(bare), showing(sized)).messages[0].parts[0].width
    640
    """
    known: dict[str, list[Media]] = {}
    for media in [part for message in original.messages for part in message.parts if isinstance(part, Media)]:
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
    """Return the URL or the data, which some wire formats put into a `data:` URL."""
    return media.url.partition(",")[2] if media.url.startswith("data:") else media.url or media.data


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The count of the whole request, the sum of its parts, and the number of rounds that it took.

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
        """The count of the whole minus the sum of its parts."""
        return self.tokens - self.parts


def verify(
    request: Request, prompt: Prompt, renderer: Renderer, counter: TokenCounter, *, limit: int, parts: int, rounds: int
) -> Verification:
    """Parse the request, which checks its provider's rules, and count the result.

    The prompt only tells the sizes of its media.
    """
    count = counter.prompt(restore_media_sizes(renderer.parse(request), prompt))
    return Verification(
        tokens=count.upper, limit=limit, parts=parts, basis=count.basis, rounds=rounds, margin=count.margin
    )
