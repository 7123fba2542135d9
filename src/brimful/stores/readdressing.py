"""From the clear to keyed addresses and terms: a store that was in the clear, step by step, while it is in use.

Each step takes the next rows that are still addressed by a plain hash; what was done is done, whoever goes on with it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from brimful.stores.contents import move_contents
from brimful.stores.counts import keep_counts
from brimful.stores.pending import embedders
from brimful.stores.resealing import BATCH, OWNERS
from brimful.stores.sealing import is_keyed, seal, unseal
from brimful.stores.searching import passage_kept, tokens_moved
from brimful.stores.session import Row, Session
from brimful.stores.tenant_keys import ADDRESS
from brimful.stores.walking import Walk

_PLAIN: Final = f"(hash < '{ADDRESS}' OR hash >= '{ADDRESS[:-1]};')"  # the sign after the colon: an index finds it
_COUNTS: Final = f"""
SELECT tokenizer, hash, tokens FROM counts
WHERE tenant = :tenant AND (tokenizer, hash) > (:tokenizer, :hash) AND {_PLAIN} ORDER BY tokenizer, hash LIMIT :limit
"""  # noqa: S608 - our own
_OLD_COUNTS: Final = f"""
DELETE FROM counts WHERE tenant = :tenant AND (tokenizer, hash) IN
  (SELECT tokenizer, hash FROM counts WHERE tenant = :tenant AND {_PLAIN} LIMIT :limit)
"""  # noqa: S608 - our own
_UNUSED: Final = f"""
DELETE FROM contents WHERE tenant = :tenant AND hash IN
  (SELECT hash FROM contents WHERE tenant = :tenant AND uses <= 0 AND {_PLAIN} LIMIT :limit)
"""  # noqa: S608 - our own


def _copy_counts(session: Session, after: tuple[str, str]) -> tuple[tuple[str, str] | None, int]:
    """Copy counts to keyed addresses; records still refer to the plain ones."""
    found = session.rows(_COUNTS, tokenizer=after[0], hash=after[1], limit=BATCH)
    for tokenizer, hash, tokens in found:
        keep_counts(session, tokenizer, {hash: tokens})
    return (found[-1][:2] if len(found) == BATCH else None), len(found)


def _move_records(table: str, session: Session, after: str) -> tuple[str | None, int]:
    """Let records refer to keyed addresses, and move what they refer to."""
    found = session.rows(
        f"UPDATE {table} SET hash = hash WHERE tenant = :tenant AND id IN "  # noqa: S608 - our own
        f"(SELECT id FROM {table} WHERE tenant = :tenant AND id > :after AND {_PLAIN} ORDER BY id LIMIT :limit) "
        f"RETURNING id, {OWNERS[table]}, hash, detail, {'deleted' if table == 'messages' else '0'}",
        after=after,
        limit=BATCH,
    )
    uses = Counter({hash: 0 for _, _, hash, _, _ in found})
    uses.update(hash for _, _, hash, _, gone in found if not gone)
    moved = move_contents(session, uses)
    session.many(
        f"UPDATE {table} SET hash = :hash, detail = :detail WHERE tenant = :tenant AND id = :id",  # noqa: S608
        (_record(session, table, row, moved) for row in found),
    )
    return (max(row[0] for row in found) if len(found) == BATCH else None), len(found)


def _move_snapshots(session: Session, after: str) -> tuple[str | None, int]:
    """Let builds refer to keyed addresses."""
    found = session.rows(
        "SELECT id, room, refs, body FROM snapshots WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit",
        after=after,
        limit=BATCH,
    )
    changed = sum(_move_snapshot(session, *row) for row in found)
    return (found[-1][0] if len(found) == BATCH else None), changed


def _move_documents(session: Session, after: int) -> tuple[int | None, int]:
    """Blind terms, and move passages with their vectors."""
    found = session.rows(
        "SELECT doc, passage, terms FROM documents WHERE tenant = :tenant AND doc > :after ORDER BY doc LIMIT :limit",
        after=after,
        limit=BATCH,
    )
    changed = [document for row in found if (document := _Moved.of(session, row)) is not None]
    session.dialect.lexicon.remove(session, [(each.doc, each.old_terms) for each in changed])
    session.dialect.lexicon.add(session, [(each.doc, each.terms) for each in changed])
    session.many(
        "UPDATE documents SET passage = :passage, terms = :terms WHERE tenant = :tenant AND doc = :doc",
        ({"doc": each.doc, "passage": each.passage, "terms": each.terms} for each in changed),
    )
    _move_vectors(session, {each.old_passage: each.passage for each in changed if each.old_passage != each.passage})
    return (found[-1][0] if len(found) == BATCH else None), len(changed)


def _drop_plain_contents(session: Session, after: int) -> tuple[int | None, int]:
    """Remove contents at plain addresses; all that is still referred to was moved before."""
    return _on(after, session.run(_UNUSED, limit=BATCH))


def _drop_plain_counts(session: Session, after: int) -> tuple[int | None, int]:
    """Remove counts at plain addresses, to which nothing refers any more."""
    return _on(after, session.run(_OLD_COUNTS, limit=BATCH))


def _on(after: int, changed: int) -> tuple[int | None, int]:
    """Go on while there is more: rows that were changed are not found again."""
    return (after if changed == BATCH else None), changed


class _Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A document whose terms were in the clear, or whose passage had a plain address."""

    doc: int
    old_passage: str
    passage: str
    old_terms: list[str]
    terms: list[str]

    @classmethod
    def of(cls, session: Session, row: Row) -> "_Moved | None":
        doc, old_passage, stored = row
        old_terms = session.dialect.listed(stored)
        moved = cls(
            doc=doc,
            old_passage=old_passage,
            passage=passage_kept(session, old_passage),
            old_terms=old_terms,
            terms=tokens_moved(session, old_terms),
        )
        return None if (moved.passage, moved.terms) == (old_passage, old_terms) else moved


def _record(session: Session, table: str, row: Row, moved: Mapping[str, str]) -> dict[str, Any]:
    id, owner, hash, detail, _ = row
    body = unseal(session, detail, table, id, owner, hash)
    return {"id": id, "hash": moved[hash], "detail": seal(session, body, table, id, owner, moved[hash])}


def _move_snapshot(session: Session, id: str, room: str, refs: bytes, body: bytes) -> int:
    addresses = msgspec.json.decode(refs, type=list[str])
    plain = _plain(addresses)
    if not plain:
        return 0
    moved = move_contents(session, dict.fromkeys(plain, 0))
    named = msgspec.json.encode([moved.get(each, each) for each in addresses])
    return session.run(
        "UPDATE snapshots SET refs = :named, body = :sealed WHERE tenant = :tenant AND id = :id AND body = :body",
        id=id,
        named=named,
        body=body,
        sealed=seal(session, unseal(session, body, "snapshots", id, room, refs), "snapshots", id, room, named),
    )


def _move_vectors(session: Session, passages: Mapping[str, str]) -> None:
    for embedder in embedders(session):
        session.dialect.nearness.rename(session, embedder, passages)
        session.many(
            "UPDATE pending SET passage = :new WHERE tenant = :tenant AND embedder = :embedder AND passage = :old",
            ({"embedder": embedder, "old": old, "new": new} for old, new in passages.items()),
        )
        session.run(
            "DELETE FROM pending WHERE tenant = :tenant AND embedder = :embedder AND passage = ''", embedder=embedder
        )


def _plain(addresses: Iterable[str]) -> list[str]:
    return sorted({each for each in addresses if not is_keyed(each)})


WALKS: Final = (
    Walk("counts", ("", ""), _copy_counts),
    *(Walk(table, "", partial(_move_records, table)) for table in OWNERS),
    Walk("snapshots", "", _move_snapshots),
    Walk("documents", 0, _move_documents),
    Walk("contents", 0, _drop_plain_contents),
    Walk("counts", 0, _drop_plain_counts),
)
