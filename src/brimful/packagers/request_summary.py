"""A summary that stands for messages of a client's request, as one of its packages."""

import hashlib
from collections.abc import Collection
from typing import Any, Final

import msgspec

from brimful.core.compaction import Compaction
from brimful.core.content import ContentPackage, Flex
from brimful.core.context import Inputs
from brimful.core.frame import is_message_id, message_index, summary_id
from brimful.core.prompt import TokenCounter
from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.wires.registry import find_wire

WRITTEN_BY: Final = "compaction"
"""In the metadata of a summary: whether rules or a model wrote it."""


def find_summary(inputs: Inputs) -> ContentPackage | None:
    """Return the summary in the inputs of a fitted request."""
    return next((each for each in inputs.packages if WRITTEN_BY in each.metadata), None)


def list_messages(inputs: Inputs) -> list[ContentPackage]:
    return [each for each in inputs.packages if is_message_id(each.id)]


def content_digest(inputs: Inputs, positions: Collection[int]) -> str:
    """Return a hash of the contents of messages."""
    chosen = set(positions)
    hashes = sorted((each.id, each.hash) for each in list_messages(inputs) if message_index(each.id) in chosen)
    return hashlib.blake2b(msgspec.json.encode(hashes), digest_size=12).hexdigest()


def takes_summary(inputs: Inputs) -> bool:
    """Whether a request may have another user message: not if the model's chat template needs alternating roles."""
    frame = inputs.frame
    return frame is not None and not (frame.user_first and find_wire(frame.wire).keeps_body)


def summary_digest(inputs: Inputs) -> str:
    """Return the hash of the messages that the summary in a request stands for, or an empty string."""
    summary = find_summary(inputs)
    return "" if summary is None else content_digest(inputs, [message_index(id) for id in summary.covers])


def with_compaction(inputs: Inputs, compaction: Compaction, counter: TokenCounter) -> Inputs:
    """Return the inputs of a request in which a summary stands for its messages. Required ones stay as they are."""
    if not isinstance(compaction, Compaction):
        raise InvalidValue("compaction", f"must come from brimful.compact, not be {preview(compaction)}")
    if compaction.digest != content_digest(inputs, compaction.positions):
        reason = f"stands for {len(compaction.positions):,} messages that this request does not have: compact it again"
        raise InvalidValue("compaction", reason)
    chosen = set(compaction.positions)
    messages = list_messages(inputs)
    going = {each.id for each in messages if message_index(each.id) in chosen and each.flex.can_drop}
    staying = {each.group for each in messages if each.group and each.id not in going}
    covered = [each for each in messages if each.id in going and each.group not in staying]
    if not covered or inputs.frame is None or not takes_summary(inputs):
        return inputs
    index, ids = min(message_index(each.id) for each in covered), {each.id for each in covered}
    summary = ContentPackage(
        id=summary_id(index),
        kind="message-recent",
        content=compaction.text,
        tokens=counter.text(compaction.text),
        role="user",
        position=index,
        flex=Flex(can_drop=False, can_shrink=False),
        covers=tuple(sorted(ids)),
        metadata={WRITTEN_BY: compaction.by},
        why=f"it stands for {len(covered):,} earlier messages",
    )
    others = (
        msgspec.structs.replace(each, excluded="it is part of the request") if each.id in ids else each
        for each in inputs.packages
    )
    frames = inputs.frame.messages
    return msgspec.structs.replace(
        inputs,
        packages=(*others, summary),
        frame=msgspec.structs.replace(inputs.frame, messages=(*frames[:index], None, *frames[index + 1 :])),
        degraded=(*inputs.degraded, *compaction.notices),
    )


def is_opaque(inputs: Inputs, message: ContentPackage) -> bool:
    """Whether a message holds a summary that only its provider can read."""
    return inputs.frame is not None and _holds_compaction(inputs.frame.messages[message_index(message.id)])


def _holds_compaction(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("type") == "compaction" or any(map(_holds_compaction, value.values()))
    return isinstance(value, list) and any(map(_holds_compaction, value))
