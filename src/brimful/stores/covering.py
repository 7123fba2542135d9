"""Summaries of what was erased: they may tell of it, so they go, too. The janitor makes them anew of what is left."""

import msgspec

from brimful.records import Message, Summary
from brimful.stores.erasing import erase
from brimful.stores.rewriting import take_out
from brimful.stores.sealing import unseal
from brimful.stores.session import Session
from brimful.stores.summaries import summaries


def uncover(session: Session, message: Message) -> None:
    """Remove the summaries whose spans hold a message, and what is kept of older ones, from past contexts as well."""
    for summary in summaries(session, message.room, None):
        if _holds(summary, message):
            address = take_out(session, "summaries", "summary", summary.id)
            if address is not None:
                erase(session, summary.id, address)
    kept = session.rows(
        "SELECT number, item, room, body FROM tidied WHERE tenant = :tenant AND room = :room", room=message.room
    )
    for number, item, room, body in kept:
        before = msgspec.json.decode(unseal(session, body, "tidied", item, room), type=Summary | None)
        if before is not None and _holds(before, message):
            session.run("DELETE FROM tidied WHERE tenant = :tenant AND number = :number", number=number)


def _holds(summary: Summary, message: Message) -> bool:
    return any(first <= message.seq <= last for first, last in summary.spans)
