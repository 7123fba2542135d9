"""What stands between content and the disk. Every body that holds content is sealed before it is written.

A body is sealed for its place: its table, the id of its row, and whatever that row refers to.
"""

from brimful.stores.session import Session


def seal(session: Session, body: bytes, *place: str | bytes) -> bytes:
    """Return a body as it is kept at its place."""
    del session, place
    return body


def unseal(session: Session, body: bytes, *place: str | bytes) -> bytes:
    """Return the body that was sealed for this place."""
    del session, place
    return body


def address(session: Session, hash: str) -> str:
    """Return the name under which a content of that hash is kept, counted and embedded."""
    del session
    return hash
