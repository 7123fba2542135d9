"""Summaries of what was erased or hidden: they may tell of it, so they go, too. The janitor tells what is left."""

from collections.abc import Sequence

import msgspec

from brimful.records import Summary
from brimful.stores.erasing import erase
from brimful.stores.rewriting import take_out
from brimful.stores.sealing import unseal
from brimful.stores.session import Session
from brimful.stores.summaries import summaries


def uncover(session: Session, room: str, places: Sequence[int], *, forever: bool) -> None:
    """Remove the summaries whose spans hold a place, and what is kept of older ones; `forever`, from past contexts."""
    for summary in summaries(session, room, None):
        if _holds(summary, places):
            address = take_out(session, "summaries", "summary", summary.id)
            if address is not None and forever:
                erase(session, summary.id, address)
    kept = session.rows(
        "SELECT number, item, room, body FROM tidied WHERE tenant = :tenant AND room = :room", room=room
    )
    for number, item, place, body in kept:
        before = msgspec.json.decode(unseal(session, body, "tidied", item, place), type=Summary | None)
        if before is not None and _holds(before, places):
            session.run("DELETE FROM tidied WHERE tenant = :tenant AND number = :number", number=number)


def _holds(summary: Summary, places: Sequence[int]) -> bool:
    return any(first <= place <= last for first, last in summary.spans for place in places)
