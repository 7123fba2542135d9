"""Memories as a text beside a prompt, for programs and frameworks that write their requests themselves."""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN, labeled_text
from brimful.core.prompt import TokenCounter
from brimful.packagers.records import package_memory
from brimful.records import Memory
from brimful.shorten import shorten

_MIN_MEMORY: Final = 20  # tokens; a shorter part of a memory says too little


def render_memories(memories: Sequence[Memory], query: str, budget: int, counter: TokenCounter) -> tuple[str, set[str]]:
    """Return as many memories as the budget allows, in a label, and their ids. One that is too long is shortened."""
    body, added = "", set[str]()

    def size(more: str) -> int:
        return counter.text(f"{RELATED_OPEN}{body}{more}{RELATED_CLOSE}").upper

    for memory in memories:
        package = package_memory(memory, counter=counter)
        text = labeled_text(package)
        if size(text) > budget:
            left = budget - size(labeled_text(msgspec.structs.replace(package, content="")))
            shorter = shorten(package.text, left, lambda part: counter.text(part).upper, query)
            if left < _MIN_MEMORY or shorter is None:
                continue
            text = labeled_text(msgspec.structs.replace(package, content=shorter.text))
            if size(text) > budget:
                continue
        body += text
        added.add(memory.id)
    return f"{RELATED_OPEN}{body}{RELATED_CLOSE}", added
