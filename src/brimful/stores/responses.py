"""Answers, each linked to the context that it answers."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Build
from brimful.records import Response, Snapshot
from brimful.stores import log
from brimful.stores.builds import build_named, digest_of
from brimful.stores.log import Entry
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session
from brimful.stores.snapshots import keep, sort_of, storable
from brimful.stores.tallies import Sort
from brimful.stores.tally import tally_of_answer

_INSERT: Final = """
INSERT INTO responses (tenant, id, context, room, at, message, body)
VALUES (:tenant, :id, :context, :room, :at, :message, :body)
ON CONFLICT DO NOTHING
"""
READ: Final = "SELECT id, room, body FROM responses WHERE tenant = :tenant"


def respond(session: Session, given: Sequence[Response]) -> None:
    """Keep answers; the first of an id stands."""
    log.append(session, [answer_entry(session, each) for each in given if _keep(session, each)])


def save_answered(session: Session, snapshot: Snapshot, response: Response) -> None:
    """Keep a build and its answer, and log both at once."""
    built = keep(session, snapshot)
    if built is None:
        respond(session, [response])
        return
    answered = [_entry(response, digest_of(snapshot))] if _keep(session, response) else []
    log.append(session, [built, *answered])


def responses(
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
        f"{READ}{which} ORDER BY at DESC, id LIMIT :limit",
        room=room,
        context=context,
        message=message,
        limit=limit,
        **named,
    )
    return [response_of(session, row) for row in found]


def response_of(session: Session, row: Row) -> Response:
    """Return the answer of a row."""
    id, room, body = row
    return msgspec.json.decode(unseal(session, body, "responses", id, room), type=Response)


def answer_entry(session: Session, response: Response) -> Entry:
    """Return what the log says of an answer. It is counted with its build, by that one's model and policy."""
    return _entry(response, build_named(session, response.context))


def _entry(response: Response, build: Build | None) -> Entry:
    return Entry(
        kind="answer",
        item=response.id,
        room=response.room,
        at=response.at,
        sort=_sort(response, build),
        tally=tally_of_answer(response, build),
    )


def _sort(response: Response, build: Build | None) -> Sort:
    return Sort("", storable(response.model), "") if build is None else sort_of(build)


def _keep(session: Session, response: Response) -> bool:
    """Keep an answer; False if there is one of its id."""
    return bool(
        session.run(
            _INSERT,
            id=response.id,
            context=response.context,
            room=response.room,
            at=response.at,
            message=response.message,
            body=seal(session, msgspec.json.encode(response), "responses", response.id, response.room),
        )
    )
