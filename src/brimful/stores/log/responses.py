"""Responses, linked to the contexts they answer, and the feed of new contexts and responses."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.records import Response, Snapshot
from brimful.records.search import Build, LogPage
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.log import event_log
from brimful.stores.log.contexts import builds_at_positions, clean_name, get_build, make_build, save_snapshot, tally_key
from brimful.stores.log.event_log import LogEvent
from brimful.stores.log.tallies import TallyKey, tally_response
from brimful.stores.session import Row, Session

_INSERT: Final = """
INSERT INTO responses (tenant, id, context, room, at, message, body)
VALUES (:tenant, :id, :context, :room, :at, :message, :body)
ON CONFLICT DO NOTHING
"""
READ_RESPONSES: Final = "SELECT id, room, body FROM responses WHERE tenant = :tenant"


def save_responses(session: Session, given: Sequence[Response]) -> None:
    """Keep answers; the first of an id stands."""
    event_log.append_events(session, [response_event(session, each) for each in given if _insert(session, each)])


def save_with_response(session: Session, snapshot: Snapshot, response: Response) -> None:
    """Keep a build and its answer, and log both at once."""
    built = save_snapshot(session, snapshot)
    if built is None:
        save_responses(session, [response])
        return
    answered = [_make_event(response, make_build(snapshot))] if _insert(session, response) else []
    event_log.append_events(session, [built, *answered])


def list_responses(
    session: Session,
    *,
    room: str | None,
    context: str | None,
    message: str | None,
    limit: int,
    ids: Sequence[str] | None = None,
) -> list[Response]:
    """Return answers that meet all that is said, newest first."""
    which = "" if room is None else " AND room = :room"
    which += "" if context is None else " AND context = :context"
    which += "" if message is None else " AND message = :message"
    which += "" if ids is None else " AND id IN :ids"
    named: dict[str, Any] = {} if ids is None else {"ids": list(ids)}
    found = session.rows(
        f"{READ_RESPONSES}{which} ORDER BY at DESC, id LIMIT :limit",
        room=room,
        context=context,
        message=message,
        limit=limit,
        **named,
    )
    return [decode_response(session, row) for row in found]


def decode_response(session: Session, row: Row) -> Response:
    """Return the answer of a row."""
    id, room, body = row
    return msgspec.json.decode(decrypt(session, body, "responses", id, room), type=Response)


def response_event(session: Session, response: Response) -> LogEvent:
    """Return what the log says of an answer. It is counted with its build, by that one's model and policy."""
    return _make_event(response, get_build(session, response.context))


def _make_event(response: Response, build: Build | None) -> LogEvent:
    return LogEvent(
        kind="response",
        item=response.id,
        room=response.room,
        at=response.at,
        key=_tally_key(response, build),
        tally=tally_response(response, build),
    )


def _tally_key(response: Response, build: Build | None) -> TallyKey:
    return TallyKey("", clean_name(response.model), "") if build is None else tally_key(build)


def _insert(session: Session, response: Response) -> bool:
    """Keep an answer; False if there is one of its id."""
    return bool(
        session.run(
            _INSERT,
            id=response.id,
            context=response.context,
            room=response.room,
            at=response.at,
            message=response.message,
            body=encrypt(session, msgspec.json.encode(response), "responses", response.id, response.room),
        )
    )


def follow_log(session: Session, cursor: str, limit: int) -> LogPage:
    """Return what came after a place, in the order of arrival. What is gone by now is passed over."""
    if not cursor:
        return LogPage(cursor=str(event_log.log_end(session)[0]))
    rows = event_log.events_after(session, event_log.parse_cursor(cursor), limit)
    if not rows:
        return LogPage(cursor=cursor)
    built = builds_at_positions(session, [place for place, kind, _ in rows if kind == "build"])
    answered = _responses_by_id(session, [item for _, kind, item in rows if kind == "response" and item])
    events: list[Build | Response] = []
    for place, kind, item in rows:
        event = built.get(place) if kind == "build" else answered.get(item or "")
        if event is not None:
            events.append(event)
    return LogPage(cursor=str(rows[-1][0]), events=tuple(events))


def _responses_by_id(session: Session, ids: list[str]) -> dict[str, Response]:
    found = list_responses(session, room=None, context=None, message=None, limit=len(ids), ids=ids) if ids else []
    return {each.id: each for each in found}
