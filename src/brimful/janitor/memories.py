"""Memories that say again what another one says."""

from collections.abc import Iterable, Sequence

from brimful.core.content import content_hashes
from brimful.records import Memory


def doubles(memories: Sequence[Memory], unread: Iterable[str]) -> list[Memory]:
    """Return those of the `unread` (by id) that say what another memory of the same scope says.

    The one that stays is pinned, or was used most, or is the most important, or the newest. Case, form and spacing do
    not count; numbers do.
    """
    spare = set(unread)
    same: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        same.setdefault((memory.scope, content_hashes(memory.content)[1]), []).append(memory)
    found = []
    for alike in same.values():
        best = max(alike, key=lambda each: (each.pinned, each.accesses, each.importance, each.at, each.id))
        found += [memory for memory in alike if memory.id != best.id and memory.id in spare]
    return found
