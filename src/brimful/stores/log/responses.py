"""Responses, linked to the contexts they answer, and the feed of new contexts and responses."""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from brimful.records import Response, Snapshot
from brimful.records.contexts import Build, Feedback, LogPage
from brimful.records.usage import RequestUsage, UsageReport
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.log import event_log
from brimful.stores.log.candidates import clean_name
from brimful.stores.log.contexts import builds_at_positions, get_build, save_snapshot, tally_key
from brimful.stores.log.event_log import LogEvent
from brimful.stores.log.tallies import TallyKey, tally_request, tally_response
from brimful.stores.log.usage import insert_usage
from brimful.stores.session import Row, Session, validate_limit

_INSERT: Final = """
INSERT INTO responses (tenant, id, context, room, at, message, feedback, body)
VALUES (:tenant, :id, :context, :room, :at, :message, :feedback, :body)
ON CONFLICT DO NOTHING
"""
_RATE: Final = "UPDATE responses SET feedback = :feedback, body = :body WHERE tenant = :tenant AND id = :id"
LogRecord = Snapshot | Response | UsageReport | RequestUsage
"""What the log stores: a context, a response to it, the usage reported with it, and that of other requests."""
READ_RESPONSES: Final = "SELECT id, room, body FROM responses WHERE tenant = :tenant"


def save_responses(session: Session, responses: Sequence[Response]) -> None:
    """Save responses. If there is one with the same id, it stays."""
    event_log.append_events(session, [response_event(session, each) for each in responses if _insert(session, each)])


def save_response(session: Session, response: Response) -> None:
    """Save a response, linked to its context. If there is one with this id, it stays."""
    save_responses(session, [response])


def save_context(session: Session, snapshot: Snapshot, response: Response | None = None, *, share: float = 1.0) -> None:
    """Save a context with every decision, and its response if that is known.

    Contents are stored by reference, and every memory in the context counts an access. For requests that the client
    wrote itself, candidates cannot be looked up: they are positions in the request.
    """
    save_records(session, [snapshot] if response is None else [snapshot, response], share=share)


def save_records(session: Session, records: Sequence[LogRecord], *, share: float = 1.0) -> None:
    """Save contexts, responses and usage reports in one transaction. Records whose ids are known are left as they are.

    A response comes after its context. Only this `share` of contexts is saved in full, always the same ones; of the
    others, the line that `Build` describes.
    """
    builds: dict[str, Build] = {}
    events: list[LogEvent] = []
    for record in records:
        match record:
            case Snapshot():
                saved = save_snapshot(session, record, share=share)
                if saved is not None:
                    builds[record.id], event = saved
                    events.append(event)
            case Response():
                if _insert(session, record):
                    build = builds.get(record.context) or get_build(session, record.context)
                    events.append(_make_event(record, build))
            case UsageReport():
                events += insert_usage(session, record)
            case RequestUsage(model=model, user=user, key=key):
                sort = TallyKey("", clean_name(model), "", user, key)
                tally = tally_request(record.usage)
                events.append(LogEvent(kind="request", item=None, room="", at=record.at, key=sort, tally=tally))
            case _:
                assert_never(record)
    event_log.append_events(session, events)


def list_responses(
    session: Session,
    *,
    room: str | None = None,
    context: str | None = None,
    contexts: Sequence[str] | None = None,
    message: str | None = None,
    messages: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    limit: int = 100,
) -> list[Response]:
    """Return the responses that match all filters, newest first.

    `message` is the id of the message that holds the answer, `messages` the ids of several.
    """
    conditions = {
        "room = :room": room,
        "context = :context": context,
        "context IN :contexts": contexts,
        "message = :message": message,
        "message IN :messages": messages,
        "id IN :ids": ids,
    }
    found = session.select(READ_RESPONSES, conditions, "ORDER BY at DESC, id LIMIT :limit", limit=validate_limit(limit))
    return [decode_response(session, row) for row in found]


def decode_response(session: Session, row: Row) -> Response:
    id, room, body = row
    return msgspec.json.decode(decrypt(session, body, "responses", id, room), type=Response)


def rate_response(session: Session, id: str, feedback: Feedback | None) -> Response | None:
    """Replace the feedback on a response, and return it; None if there is no such response."""
    rows = session.lock_rows(f"{READ_RESPONSES} AND id = :id", id=id)
    if not rows:
        return None
    rated = msgspec.structs.replace(decode_response(session, rows[0]), feedback=feedback)
    session.run(_RATE, id=id, feedback=feedback and feedback.rating, body=_encode(session, rated))
    return rated


def response_event(session: Session, response: Response) -> LogEvent:
    """Return the log event of a response. It is counted by the model and policy of its context."""
    return _make_event(response, get_build(session, response.context))


def _make_event(response: Response, build: Build | None) -> LogEvent:
    return LogEvent(
        kind="response",
        item=response.id,
        room=response.room,
        at=response.at,
        key=TallyKey("", clean_name(response.model), "") if build is None else tally_key(build),
        tally=tally_response(response, build),
        run=build.run or None if build else None,
    )


def _insert(session: Session, response: Response) -> bool:
    """Insert a response; False if there is one with this id."""
    return bool(
        session.run(
            _INSERT,
            id=response.id,
            context=response.context,
            room=response.room,
            at=response.at,
            message=response.message,
            feedback=response.feedback and response.feedback.rating,
            body=_encode(session, response),
        )
    )


def _encode(session: Session, response: Response) -> bytes:
    return encrypt(session, msgspec.json.encode(response), "responses", response.id, response.room)


def follow_log(session: Session, cursor: str = "", *, limit: int = 100) -> LogPage:
    """Return the contexts and responses after a position of the log, in order of arrival.

    They may come from any process that shares the store: none is missed, and none comes twice. Without a cursor, the
    page is empty and has the cursor of the current end; `"0"` is the beginning.
    """
    validate_limit(limit)
    if not cursor:
        return LogPage(cursor=str(event_log.log_end(session)[0]))
    rows = event_log.events_after(session, event_log.parse_cursor(cursor), limit)
    if not rows:
        return LogPage(cursor=cursor)
    built = builds_at_positions(session, [position for position, kind, _ in rows if kind == "build"])
    answered = _responses_by_id(session, [item for _, kind, item in rows if kind == "response" and item])
    events: list[Build | Response] = []
    for position, kind, item in rows:
        event = built.get(position) if kind == "build" else answered.get(item or "")
        if event is not None:
            events.append(event)
    return LogPage(cursor=str(rows[-1][0]), events=tuple(events))


def _responses_by_id(session: Session, ids: list[str]) -> dict[str, Response]:
    found = list_responses(session, ids=ids, limit=len(ids)) if ids else []
    return {each.id: each for each in found}
