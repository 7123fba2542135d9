"""Convert a plain-text store to keyed content addresses and hashed terms, in batches, while it is in use.

Each batch takes the next rows with plain addresses, so an interrupted run can be continued.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from brimful.stores.admin.limits import rekey_limits
from brimful.stores.admin.rotate_keys import BATCH_ROWS, OWNERS, BatchJob
from brimful.stores.encryption.cipher import decrypt, encrypt, is_keyed_address, storage_address
from brimful.stores.encryption.tenant_keys import KEYED_PREFIX
from brimful.stores.index.documents import decode_indexed, list_embedders
from brimful.stores.index.terms import passage_address, rekey_tokens
from brimful.stores.log.context_codec import decode_addresses, replace_addresses
from brimful.stores.session import IndexedDocument, Row, Session
from brimful.stores.tables.contents import rekey_contents, rekey_counts

# A range, so that an index can be used: ";" follows ":".
_PLAIN: Final = f"(hash < '{KEYED_PREFIX}' OR hash >= '{KEYED_PREFIX[:-1]};')"
_COUNTS: Final = f"""
SELECT tokenizer, hash, tokens FROM token_counts
WHERE tenant = :tenant AND (tokenizer, hash) > (:tokenizer, :hash) AND {_PLAIN} ORDER BY tokenizer, hash LIMIT :limit
"""  # noqa: S608 - our own
_OLD_COUNTS: Final = f"""
DELETE FROM token_counts WHERE tenant = :tenant AND hash IN
  (SELECT hash FROM token_counts WHERE tenant = :tenant AND {_PLAIN} LIMIT :limit)
"""  # noqa: S608 - our own
_UNUSED: Final = f"""
DELETE FROM contents WHERE tenant = :tenant AND hash IN
  (SELECT hash FROM contents WHERE tenant = :tenant AND uses <= 0 AND {_PLAIN} LIMIT :limit)
"""  # noqa: S608 - our own


def _copy_counts(session: Session, after: tuple[str, str]) -> tuple[tuple[str, str] | None, int]:
    """Copy token counts to keyed addresses. Records still refer to the plain ones."""
    found = session.rows(_COUNTS, tokenizer=after[0], hash=after[1], limit=BATCH_ROWS)
    rekey_counts(session, found)
    return (found[-1][:2] if len(found) == BATCH_ROWS else None), len(found)


def _rekey_records(table: str, session: Session, after: str) -> tuple[str | None, int]:
    """Change records and their contents to keyed addresses."""
    locked = session.rows(
        f"UPDATE {table} SET hash = hash WHERE tenant = :tenant AND id IN "  # noqa: S608 - our own
        f"(SELECT id FROM {table} WHERE tenant = :tenant AND id > :after AND {_PLAIN} ORDER BY id LIMIT :limit) "
        "RETURNING id",  # not the owner: Citus allows no subquery there
        after=after,
        limit=BATCH_ROWS,
    )
    found = session.rows(
        f"SELECT id, {OWNERS[table]}, hash, detail, {'deleted' if table == 'messages' else '0'} FROM {table} "  # noqa: S608
        "WHERE tenant = :tenant AND id IN :ids",
        ids=[id for (id,) in locked],
    )
    uses = Counter({hash: 0 for _, _, hash, _, _ in found})
    uses.update(hash for _, _, hash, _, erased in found if not erased)
    moved = rekey_contents(session, uses)
    session.many(
        f"UPDATE {table} SET hash = :hash, detail = :detail WHERE tenant = :tenant AND id = :id",  # noqa: S608
        (_rekeyed_row(session, table, row, moved) for row in found),
    )
    return (max(row[0] for row in found) if len(found) == BATCH_ROWS else None), len(found)


def _rekey_snapshots(session: Session, after: str) -> tuple[str | None, int]:
    """Change snapshots to keyed addresses."""
    found = session.rows(
        "SELECT id, room, task, refs, body FROM snapshots WHERE tenant = :tenant AND id > :after "
        "ORDER BY id LIMIT :limit",
        after=after,
        limit=BATCH_ROWS,
    )
    plain = [(id, task) for id, _, task, _, _ in found if task is not None and not is_keyed_address(task)]
    session.many(
        "UPDATE snapshots SET task = :keyed WHERE tenant = :tenant AND id = :id",
        ({"id": id, "keyed": storage_address(session, task)} for id, task in plain),
    )
    changed = sum(_rekey_snapshot(session, id, room, refs, body) for id, room, _, refs, body in found)
    return (found[-1][0] if len(found) == BATCH_ROWS else None), changed


def _rekey_learned(session: Session, after: tuple[str, str]) -> tuple[tuple[str, str] | None, int]:
    """Change the hashes of messages from which memories were learned to keyed ones."""
    found = session.rows(
        "SELECT scope, message FROM learned_messages WHERE tenant = :tenant AND (scope, message) > (:scope, :message) "
        "ORDER BY scope, message LIMIT :limit",
        scope=after[0],
        message=after[1],
        limit=BATCH_ROWS,
    )
    plain = [row for row in found if not is_keyed_address(row[1])]
    session.many(
        "UPDATE learned_messages SET message = :keyed WHERE tenant = :tenant AND scope = :scope AND message = :message",
        ({"scope": scope, "message": hash, "keyed": storage_address(session, hash)} for scope, hash in plain),
    )
    return (found[-1][:2] if len(found) == BATCH_ROWS else None), len(plain)


def _rekey_documents(session: Session, after: int) -> tuple[int | None, int]:
    """Hash terms, and change passages and their vectors to keyed addresses."""
    found = session.rows(
        "SELECT doc, scope, seq, length, terms, passage FROM documents WHERE tenant = :tenant AND doc > :after "
        "ORDER BY doc LIMIT :limit",
        after=after,
        limit=BATCH_ROWS,
    )
    changed = [document for row in found if (document := _RekeyedDocument.of(session, row)) is not None]
    session.dialect.text_index.remove(session, [each.old for each in changed])
    session.dialect.text_index.add(session, [msgspec.structs.replace(each.old, tokens=each.terms) for each in changed])
    session.many(
        "UPDATE documents SET passage = :passage, terms = :terms WHERE tenant = :tenant AND doc = :doc",
        (
            {"doc": each.old.doc, "passage": each.passage, "terms": session.dialect.encode_terms(each.terms)}
            for each in changed
        ),
    )
    _rekey_vectors(session, [each for each in changed if each.old_passage != each.passage])
    return (found[-1][0] if len(found) == BATCH_ROWS else None), len(changed)


def _drop_plain_contents(session: Session, after: int) -> tuple[int | None, int]:
    """Remove contents at plain addresses. Everything in use was copied before."""
    return _next_batch(after, session.run(_UNUSED, limit=BATCH_ROWS))


def _drop_plain_counts(session: Session, after: int) -> tuple[int | None, int]:
    """Remove token counts at plain addresses."""
    return _next_batch(after, session.run(_OLD_COUNTS, limit=BATCH_ROWS))


def _next_batch(after: int, changed: int) -> tuple[int | None, int]:
    """Continue while a batch was full. Changed rows are not selected again."""
    return (after if changed >= BATCH_ROWS else None), changed


class _RekeyedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document with plain terms, or with a plain passage address."""

    old: IndexedDocument
    old_passage: str
    passage: str
    terms: list[str]

    @classmethod
    def of(cls, session: Session, row: Row) -> "_RekeyedDocument | None":
        *indexed, old_passage = row
        old = decode_indexed(session, indexed)
        moved = cls(
            old=old,
            old_passage=old_passage,
            passage=passage_address(session, old_passage),
            terms=rekey_tokens(session, old.tokens),
        )
        return None if (moved.passage, moved.terms) == (old_passage, old.tokens) else moved


def _rekeyed_row(session: Session, table: str, row: Row, moved: Mapping[str, str]) -> dict[str, Any]:
    id, owner, hash, detail, _ = row
    body = decrypt(session, detail, table, id, owner, hash)
    return {"id": id, "hash": moved[hash], "detail": encrypt(session, body, table, id, owner, moved[hash])}


def _rekey_snapshot(session: Session, id: str, room: str, refs: bytes, body: bytes) -> int:
    plain = sorted({each for each in decode_addresses(refs) if not is_keyed_address(each)})
    if not plain:
        return 0
    moved = rekey_contents(session, dict.fromkeys(plain, 0))
    named = replace_addresses(refs, moved)
    return session.run(
        "UPDATE snapshots SET refs = :named, body = :encrypted WHERE tenant = :tenant AND id = :id AND body = :body",
        id=id,
        named=named,
        body=body,
        encrypted=encrypt(session, decrypt(session, body, "snapshots", id, room, refs), "snapshots", id, room, named),
    )


def _rekey_vectors(session: Session, moved: Sequence[_RekeyedDocument]) -> None:
    for embedder in list_embedders(session):
        session.dialect.vector_index.rename(session, embedder, {each.old_passage: each.passage for each in moved})
        session.run(
            "DELETE FROM embedding_queue WHERE tenant = :tenant AND embedder = :embedder AND doc IN :docs",
            embedder=embedder,
            docs=[each.old.doc for each in moved if not each.passage],
        )


REKEY_JOBS: Final = (
    BatchJob("counts", ("", ""), _copy_counts),
    *(BatchJob(table, "", partial(_rekey_records, table)) for table in OWNERS),
    BatchJob("snapshots", "", _rekey_snapshots),
    BatchJob("documents", 0, _rekey_documents),
    BatchJob("learned messages", ("", ""), _rekey_learned),
    BatchJob("limits", "", rekey_limits),
    BatchJob("contents", 0, _drop_plain_contents),
    BatchJob("counts", 0, _drop_plain_counts),
)
