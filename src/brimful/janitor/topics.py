"""Group messages by thread (what they reply to) and by subject (what they mean)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from brimful.core.units import find_leaders
from brimful.records import Message

if TYPE_CHECKING:
    from brimful.protocols import Vectors


REPLY_KEYS: Final = (
    *("reply_to", "in_reply_to", "replied_to", "parent", "parent_id", "parent_message_uuid", "reference"),
    *("thread", "thread_id", "thread_ts"),
)
"""Metadata keys with the message that a message replies to, or its thread."""
MIN_SUBJECT_SIMILARITY: Final = 0.45  # cosine similarity of a message and the centroid of its subject
MAX_SUBJECTS: Final = 64  # of a day; further messages join the nearest one

Topics = tuple[tuple[Message, ...], ...]


def group_by_thread(messages: Sequence[Message]) -> Topics:
    """Return messages by thread, in order. A message without replies is a thread of its own."""
    leaders = find_leaders((message.id, name) for message in messages for name in _replied_ids(message.metadata))
    threads: dict[str, list[Message]] = {}
    for message in messages:
        threads.setdefault(leaders.get(message.id, message.id), []).append(message)
    return tuple(map(tuple, threads.values()))


def merge_by_subject(groups: Topics, vectors: "Vectors | None") -> Topics:
    """Merge groups on the same subject. `vectors` has a row per group, of length 1, or 0 if it has none."""
    if vectors is None or not groups:
        return groups
    centroids: list[Any] = []
    members: list[list[int]] = []
    for index, vector in enumerate(vectors):
        near = np.array([float(vector @ centroid) / (float(np.linalg.norm(centroid)) or 1.0) for centroid in centroids])
        best = int(near.argmax()) if len(near) else -1
        if best >= 0 and (near[best] >= MIN_SUBJECT_SIMILARITY or len(centroids) >= MAX_SUBJECTS):
            centroids[best] = centroids[best] + vector
            members[best].append(index)
        else:
            centroids.append(np.array(vector))
            members.append([index])
    return tuple(tuple(message for i in each for message in groups[i]) for each in members)


def _replied_ids(metadata: dict[str, Any]) -> list[str]:
    """Return what a message replies to: an id, a number, or an object that contains an id."""
    values = [metadata[key] for key in REPLY_KEYS if key in metadata]
    inner = [value for each in values if isinstance(each, dict) for key, value in each.items() if "id" in key.lower()]
    return [str(each) for each in (*values, *inner) if isinstance(each, str | int) and not isinstance(each, bool)]
