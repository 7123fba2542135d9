"""No wire carries the size of an image or the length of a sound, but their price depends on it."""

import msgspec

from brimful.core.content import Media, Part
from brimful.core.prompt import Message, Prompt


def restore_sizes(parsed: Prompt, original: Prompt) -> Prompt:
    """Return the prompt that was read from a request, its media as large and as long as they are in the original.

    What is looked up is only the size of the same medium, by its URL or data; what is in the request, and how often, is
    taken from the request alone.

    >>> def showing(image: Media) -> Prompt:
    ...     return Prompt(model="m", messages=(Message(role="user", parts=(image,)),))
    >>> bare, sized = Media(modality="image", url="u"), Media(modality="image", url="u", width=640, height=480)
    >>> restore_sizes(showing(bare), showing(sized)).messages[0].parts[0].width
    640
    """
    known: dict[str, list[Media]] = {}
    for media in (part for message in original.messages for part in message.parts if isinstance(part, Media)):
        known.setdefault(_key(media), []).append(media)
    if not known:
        return parsed

    def restored(part: Part) -> Part:
        same = known.get(_key(part)) if isinstance(part, Media) else None
        if not same:
            return part
        found = same.pop(0) if len(same) > 1 else same[0]
        return msgspec.structs.replace(part, width=found.width, height=found.height, seconds=found.seconds)

    def with_sizes(message: Message) -> Message:
        return msgspec.structs.replace(message, parts=tuple(restored(part) for part in message.parts))

    return msgspec.structs.replace(parsed, messages=tuple(with_sizes(message) for message in parsed.messages))


def _key(media: Media) -> str:
    """Return the address, or the data, which some wires want inside a `data:` address."""
    return media.url.partition(",")[2] if media.url.startswith("data:") else media.url or media.data
