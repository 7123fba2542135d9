"""Group messages by thread (what they reply to) and by subject (what they mean)."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from brimful.records import Message

if TYPE_CHECKING:
    from brimful.protocols import Vectors


REPLY_KEYS: Final = (
    *("reply_to", "in_reply_to", "replied_to", "parent", "parent_id", "parent_message_uuid", "reference"),
    *("thread", "thread_id", "thread_ts"),
)
"""Keys of metadata under which a message says what it answers, or in which thread it was said."""
MIN_SUBJECT_SIMILARITY: Final = 0.45  # the least cosine of a message and the middle of its subject
MAX_SUBJECTS: Final = 64  # of a day: what is like none of them joins the nearest

Topics = tuple[tuple[Message, ...], ...]


def group_by_thread(messages: Sequence[Message]) -> Topics:
    """Return messages by thread, in order; one that answers nothing and is answered by none is a thread by itself."""
    leader: dict[Hashable, Hashable] = {}

    def find(node: Hashable) -> Hashable:
        while leader.setdefault(node, node) != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for message in messages:
        for name in _replied_ids(message.metadata):
            leader[find(("message", message.id))] = find(("message", name))
    found: dict[Hashable, list[Message]] = {}
    for message in messages:
        found.setdefault(find(("message", message.id)), []).append(message)
    return tuple(map(tuple, found.values()))


def merge_by_subject(groups: Topics, vectors: "Vectors | None") -> Topics:
    """Join groups that speak of the same, by the vector of each: a row for a group, of length 1, or 0 for none."""
    if vectors is None or not groups:
        return groups
    middles: list[Any] = []
    members: list[list[int]] = []
    for at, vector in enumerate(vectors):
        near = np.array([float(vector @ middle) / (float(np.linalg.norm(middle)) or 1.0) for middle in middles])
        best = int(near.argmax()) if len(near) else -1
        if best >= 0 and (near[best] >= MIN_SUBJECT_SIMILARITY or len(middles) >= MAX_SUBJECTS):
            middles[best] = middles[best] + vector
            members[best].append(at)
        else:
            middles.append(np.array(vector))
            members.append([at])
    return tuple(tuple(message for at in each for message in groups[at]) for each in members)


def _replied_ids(metadata: dict[str, Any]) -> list[str]:
    """Return what a message answers, as it may be told: an id, a number, or an object with an id in it."""
    told = [metadata[key] for key in REPLY_KEYS if key in metadata]
    inner = [value for each in told if isinstance(each, dict) for key, value in each.items() if "id" in key.lower()]
    return [str(each) for each in (*told, *inner) if isinstance(each, str | int) and not isinstance(each, bool)]
