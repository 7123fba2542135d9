"""A lorebook entry → a package."""

from typing import Unpack

from brimful.core import check
from brimful.core.content import ContentPackage, clean_text
from brimful.core.tokens import TokenCounter
from brimful.packagers.package import Options, metadata_of, package


def lorebook_entry(
    text: str, *, counter: TokenCounter, book: str = "", constant: bool = False, **options: Unpack[Options]
) -> ContentPackage:
    """Package an entry. A constant one is pinned: it stands in the stable part of the prompt."""
    source = clean_text(check.text("book", book)) or "lorebook"
    metadata = {"source": source, **({"pinned": True} if constant else {}), **metadata_of(options)}
    whole: Options = {**options, "metadata": metadata}
    return package("lorebook", text, counter=counter, **whole)
