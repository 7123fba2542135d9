"""Images, sounds and videos → packages: optional, the first to go, and only where the turn is about them."""

import re
from collections.abc import Callable, Iterable
from typing import Unpack

from brimful.core import check
from brimful.core.content import ContentPackage, Media
from brimful.core.tokens import TokenCounter
from brimful.errors import InvalidPackage, InvalidValue
from brimful.packagers.package import Options, metadata_of, package

_VISION = re.compile(
    r"look at|see|image|screenshot|picture|describe (the|this)|what('?s| is) (in|shown)", re.IGNORECASE
)


def needs_vision(message: str) -> bool:
    """Say whether a message speaks of something to look at, by the founding documents' pattern.

    >>> needs_vision("What's in this screenshot?"), needs_vision("Thanks!")
    (True, False)
    """
    return _VISION.search(check.text("message", message, InvalidValue)) is not None


def media(part: Media, *, counter: TokenCounter, **options: Unpack[Options]) -> ContentPackage:
    """Package one image, sound or video, counted by the model's rule for its size."""
    if not isinstance(part, Media):
        raise InvalidPackage("content", f"must be a Media, not {check.shown(part)}")
    metadata = {"source": "media", **({"url": part.url} if part.url else {}), **metadata_of(options)}
    whole: Options = {**options, "metadata": metadata}
    return package(f"media-{part.modality}", (part,), counter=counter, **whole)


def media_if_needed(
    parts: Iterable[Media], message: str, *, counter: TokenCounter, needed: Callable[[str], bool] = needs_vision
) -> list[ContentPackage]:
    """Package media only if the message needs them; `needed` decides."""
    if not isinstance(parts, Iterable):
        raise InvalidValue("parts", f"must be a list of Media, not {check.shown(parts)}")
    return [media(part, counter=counter) for part in parts] if needed(message) else []
