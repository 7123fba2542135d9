"""What came after a place in the log."""

from brimful.answers import Build, Followed
from brimful.records import Response
from brimful.stores import log
from brimful.stores.builds import builds_at
from brimful.stores.responses import responses
from brimful.stores.session import Session


def follow(session: Session, cursor: str, limit: int) -> Followed:
    """Return what came after a place, in the order of arrival. What is gone by now is passed over."""
    if not cursor:
        return Followed(cursor=str(log.end(session)[0]))
    rows = log.after(session, log.place_of(cursor), limit)
    if not rows:
        return Followed(cursor=cursor)
    built = builds_at(session, [place for place, kind, _ in rows if kind == "build"])
    answered = _answers(session, [item for _, kind, item in rows if kind == "answer" and item])
    events: list[Build | Response] = []
    for place, kind, item in rows:
        event = built.get(place) if kind == "build" else answered.get(item or "")
        if event is not None:
            events.append(event)
    return Followed(cursor=str(rows[-1][0]), events=tuple(events))


def _answers(session: Session, ids: list[str]) -> dict[str, Response]:
    found = responses(session, room=None, context=None, message=None, limit=len(ids), ids=ids) if ids else []
    return {each.id: each for each in found}
