"""A lorebook entry → a package."""

from typing import Unpack

from brimful.core.content import ContentPackage
from brimful.core.tokens import TokenCounter
from brimful.packagers.package import Options, package


def lorebook_entry(
    text: str, *, counter: TokenCounter, book: str = "", constant: bool = False, **options: Unpack[Options]
) -> ContentPackage:
    """Package an entry. A constant one is pinned: it stands in the stable part of the prompt."""
    metadata = {"source": book or "lorebook", **({"pinned": True} if constant else {}), **options.get("metadata", {})}
    whole: Options = {**options, "metadata": metadata}
    return package("lorebook", text, counter=counter, **whole)
