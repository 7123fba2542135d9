"""A memory → a package. Facts (semantic) outrank habits (procedural), and those outrank events (episodic)."""

from typing import Literal, Unpack

from brimful.core.content import ContentPackage
from brimful.core.tokens import TokenCounter
from brimful.packagers.package import Options, metadata_of, package

MemoryType = Literal["episodic", "semantic", "procedural"]


def memory(
    text: str, *, counter: TokenCounter, type: MemoryType = "semantic", pinned: bool = False, **options: Unpack[Options]
) -> ContentPackage:
    """Package a memory. A pinned one stands in the stable part of the prompt."""
    metadata = {"source": "memory", **metadata_of(options), **({"pinned": True} if pinned else {})}
    whole: Options = {**options, "metadata": metadata}
    return package(f"memory-{type}", text, counter=counter, **whole)
