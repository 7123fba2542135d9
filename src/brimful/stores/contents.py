"""Content, kept once: whoever says the same refers to the same."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.core.content import content_hash
from brimful.records import Content
from brimful.stores.sealing import address, seal, unseal
from brimful.stores.session import Session

_DECODER: Final = msgspec.json.Decoder(Content)
_PARTS: Final = "p:"  # a text that reads like written parts is another content than those parts

_PUT: Final = """
INSERT INTO contents (tenant, hash, body, uses) VALUES (:tenant, :hash, :body, :uses)
ON CONFLICT (tenant, hash) DO UPDATE SET uses = contents.uses + excluded.uses
"""
_MOVE: Final = """
INSERT INTO contents (tenant, hash, body, uses, seen) VALUES (:tenant, :hash, :body, :uses, :seen)
ON CONFLICT (tenant, hash) DO UPDATE SET uses = contents.uses + excluded.uses,
    seen = CASE WHEN contents.seen < excluded.seen THEN excluded.seen ELSE contents.seen END
"""
_KEEP: Final = """
INSERT INTO contents (tenant, hash, body, uses, seen) VALUES (:tenant, :hash, :body, :uses, :seen)
ON CONFLICT (tenant, hash) DO UPDATE SET seen = excluded.seen WHERE contents.seen < excluded.seen
"""
_SEE: Final = """
UPDATE contents SET seen = :day WHERE tenant = :tenant AND hash IN :addresses AND seen < :day RETURNING hash
"""
_RELEASE: Final = "UPDATE contents SET uses = uses - :uses WHERE tenant = :tenant AND hash = :hash"


def address_of(session: Session, content: Content) -> str:
    """Return the address of a content."""
    hash = content_hash(content)
    return address(session, hash if isinstance(content, str) else _PARTS + hash)


def put_contents(session: Session, contents: Sequence[Content]) -> list[str]:
    """Keep contents that records refer to, and return their addresses."""
    addresses = [address_of(session, content) for content in contents]
    times = Counter(addresses)
    bodies = dict(zip(addresses, contents, strict=True))
    session.many(_PUT, (_row(session, hash, bodies[hash], times[hash]) for hash in _in_order(bodies)))
    return addresses


def keep_contents(session: Session, contents: Sequence[Content], *, day: int) -> list[str]:
    """Keep contents that no record refers to, only a past context, built on that day; return their addresses."""
    addresses = [address_of(session, content) for content in contents]
    found = session.rows(
        "SELECT hash, seen FROM contents WHERE tenant = :tenant AND hash IN :addresses",
        addresses=list(dict.fromkeys(addresses)),
    )
    known = {hash for hash, seen in found if seen >= day}
    # One that somebody prunes at this moment is either held by this, or known to be gone.
    known.update(see_contents(session, [hash for hash, seen in found if seen < day], day=day))
    missing = {hash: content for hash, content in zip(addresses, contents, strict=True) if hash not in known}
    session.many(_KEEP, (_row(session, hash, missing[hash], 0) | {"seen": day} for hash in _in_order(missing)))
    return addresses


def see_contents(session: Session, addresses: Sequence[str], *, day: int) -> list[str]:
    """Note that a context of that day refers to contents, where no later one does; return where that was so."""
    found = session.rows(_SEE, addresses=list(dict.fromkeys(addresses)), day=day) if addresses else []
    return [hash for (hash,) in found]


def move_contents(session: Session, uses: Mapping[str, int]) -> dict[str, str]:
    """Move so many uses of contents from plain addresses to keyed ones, and return these."""
    moved = {hash: address(session, hash) for hash in uses}
    found = session.rows(
        "SELECT hash, body, seen FROM contents WHERE tenant = :tenant AND hash IN :addresses", addresses=list(moved)
    )
    rows = {
        moved[hash]: {
            "hash": moved[hash],
            "body": seal(session, unseal(session, body, "contents", hash), "contents", moved[hash]),
            "uses": uses[hash],
            "seen": seen,
        }
        for hash, body, seen in found
    }
    session.many(_MOVE, (rows[hash] for hash in _in_order(rows)))
    session.many(_RELEASE, ({"hash": hash, "uses": uses[hash]} for hash in _in_order(uses)))
    return moved


def open_content(session: Session, body: bytes | None, hash: str) -> Content:
    """Return the content of a row; one that was erased is empty."""
    return "" if body is None else _DECODER.decode(unseal(session, body, "contents", hash))


def open_text(session: Session, body: bytes | None, hash: str) -> str:
    """Return the content of a record that holds nothing but text."""
    content = open_content(session, body, hash)
    return content if isinstance(content, str) else ""


def contents_at(session: Session, addresses: Iterable[str]) -> dict[str, Content]:
    """Return contents by their addresses, those that are there."""
    found = session.rows(
        "SELECT hash, body FROM contents WHERE tenant = :tenant AND hash IN :addresses",
        addresses=list(dict.fromkeys(addresses)),
    )
    return {hash: open_content(session, body, hash) for hash, body in found}


def release(session: Session, addresses: Sequence[str], *, erase: bool) -> None:
    """Take back one use of each; with `erase`, what is no longer used by any record is gone from past contexts, too."""
    times = sorted(Counter(addresses).items())
    session.many(_RELEASE, ({"hash": hash, "uses": uses} for hash, uses in times))
    if erase:
        erase_unused(session, [hash for hash, _ in times])


def erase_unused(session: Session, addresses: Sequence[str]) -> None:
    """Erase contents that no record uses."""
    session.run(
        "DELETE FROM contents WHERE tenant = :tenant AND uses <= 0 AND hash IN :addresses",
        addresses=list(addresses),
    )


def erase_unseen(session: Session, addresses: Sequence[str]) -> None:
    """Erase contents that no record uses and no context saw, from whomever it had them."""
    session.run(
        "DELETE FROM contents WHERE tenant = :tenant AND uses <= 0 AND seen = 0 AND hash IN :addresses",
        addresses=list(addresses),
    )


def _row(session: Session, hash: str, content: Content, uses: int) -> dict[str, Any]:
    body = seal(session, msgspec.json.encode(content), "contents", hash)
    return {"hash": hash, "body": body, "uses": uses}


def _in_order(addresses: Iterable[str]) -> list[str]:
    """Return addresses in one order for all writers, so that none waits for another in a circle."""
    return sorted(addresses)
