"""Answers, each linked to the context that it answers."""

from typing import Final

import msgspec

from brimful.records import Response
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session

_INSERT: Final = """
INSERT INTO responses (tenant, id, context, room, at, body) VALUES (:tenant, :id, :context, :room, :at, :body)
ON CONFLICT DO NOTHING
"""
READ: Final = "SELECT id, room, body FROM responses WHERE tenant = :tenant"


def respond(session: Session, response: Response) -> None:
    """Keep an answer; the first of an id stands."""
    session.run(
        _INSERT,
        id=response.id,
        context=response.context,
        room=response.room,
        at=response.at,
        body=seal(session, msgspec.json.encode(response), "responses", response.id, response.room),
    )


def responses(session: Session, room: str | None, context: str | None, limit: int) -> list[Response]:
    """Return answers of a room or to a context, newest first."""
    which = "" if room is None else " AND room = :room"
    which += "" if context is None else " AND context = :context"
    found = session.rows(
        f"{READ}{which} ORDER BY at DESC, id LIMIT :limit",
        room=room,
        context=context,
        limit=limit,
    )
    return [response_of(session, row) for row in found]


def response_of(session: Session, row: Row) -> Response:
    """Return the answer of a row."""
    id, room, body = row
    return msgspec.json.decode(unseal(session, body, "responses", id, room), type=Response)
