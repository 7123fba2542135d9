"""A note → a package."""

from typing import Unpack

from brimful.core.content import ContentPackage
from brimful.core.depth import DEPTH, NOTE
from brimful.core.tokens import TokenCounter
from brimful.errors import InvalidPackage
from brimful.packagers.package import Options, metadata_of, package


def note(text: str, *, counter: TokenCounter, depth: int = 0, **options: Unpack[Options]) -> ContentPackage:
    """Package a note: as many messages as its `depth` says stand behind it; with 0 it comes last. It is required."""
    if type(depth) is not int or depth < 0:
        raise InvalidPackage("depth", f"must be a whole number of messages, not {depth!r}")
    whole: Options = {**options, "metadata": {DEPTH: depth, **metadata_of(options)}}
    return package(NOTE, text, counter=counter, **whole)
