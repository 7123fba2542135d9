"""Explain why a stored record was not a candidate for a context."""

import msgspec

from brimful.core.context import Context
from brimful.packagers.records import plain_text
from brimful.records import LoreEntry, Memory, Message, Room, Snapshot
from brimful.stores import Store
from brimful.views.explain import format_score


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a context knew nothing of: what it says, and why it was no candidate."""

    id: str
    kind: str
    text: str
    why: str


async def find_absence(store: Store, snapshot: Snapshot, id: str) -> Absence | None:
    """Say why a memory, a message or an entry was no candidate of a build; None if the store holds nothing of that id.

    It is told from the records as they are now: what was changed since the build may have been otherwise then.
    """
    for memory in await store.memories(ids=[id], limit=1):
        place = await store.get(Room, snapshot.room)
        return Absence(
            id=id, kind=f"memory-{memory.type}", text=memory.content, why=_explain_memory(memory, snapshot, place)
        )
    for message in await store.messages([id]):
        return Absence(id=id, kind="message", text=plain_text(message.content), why=_explain_message(message, snapshot))
    for entry in await store.lore(ids=[id]):
        return Absence(id=id, kind="lorebook", text=entry.content, why=_explain_entry(entry))
    return None


def _explain_memory(memory: Memory, snapshot: Snapshot, place: Room | None) -> str:
    if memory.at > snapshot.at:
        return "it was written after this context was built"
    owners = (
        ("persona", memory.persona, snapshot.persona, "this context has"),
        ("room", memory.room, snapshot.room, "this context has"),
        # Who asked is not kept with a context.
        ("user", memory.user, place.user if place else None, "unless somebody else asked, this context has"),
    )
    for what, owner, here, has in owners:
        if owner is not None and owner != here:
            other = f"no {what}" if here is None else f"the {what} {here!r}"
            return f"it belongs to the {what} {owner!r}; {has} {other}"
    unknown = "" if memory.at else "when it was written is not known, and it may have come later; else "
    return unknown + _explain_search(snapshot.context, "memory-", "pin it to have it in every context")


def _explain_message(message: Message, snapshot: Snapshot) -> str:
    if message.hidden:
        return "it is hidden, and stands in no context"
    if message.room != snapshot.room:
        return f"it was said in the room {message.room!r}, which was not searched or gave nothing better"
    if message.at > snapshot.at:
        return "it was said after this context was built"
    return _explain_search(snapshot.context, "message-older", "it is older than the history that was loaded")


def _explain_entry(entry: LoreEntry) -> str:
    if not entry.enabled:
        return "it is switched off"
    return "none of its keys was spoken of, and search did not bring it"


def _explain_search(context: Context, kind: str, more: str) -> str:
    """Say what search brought instead, or why it could not search."""
    if context.inputs.degraded:
        return f"search did not bring it, and something failed: {'; '.join(map(str, context.inputs.degraded))}"
    found = [
        package.relevance
        for package in context.inputs.packages
        if package.kind.startswith(kind) and package.relevance is not None
    ]
    if not found:
        return f"search brought nothing of this kind; {more}"
    brought = f"{len(found):,} that are nearer to the question (relevance {format_score(min(found))} and more)"
    return f"search brought {brought}; {more}"
