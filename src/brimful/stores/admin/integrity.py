"""Check that the rows of a tenant are consistent."""

from typing import Final

from brimful.stores.backends.driver import Finding, Severity
from brimful.stores.log.contexts import find_unreferenced
from brimful.stores.session import Session

_USES: Final = """
SELECT count(*) FROM (
  SELECT c.hash FROM contents c LEFT JOIN (
    SELECT hash, count(*) AS times FROM (
      SELECT hash FROM messages WHERE tenant = :tenant AND deleted = 0
      UNION ALL SELECT hash FROM memories WHERE tenant = :tenant
      UNION ALL SELECT hash FROM lore_entries WHERE tenant = :tenant
      UNION ALL SELECT hash FROM summaries WHERE tenant = :tenant
    ) records GROUP BY hash
  ) used ON used.hash = c.hash WHERE c.tenant = :tenant AND c.uses <> coalesce(used.times, 0)
) wrong
"""
_MISSING: Final = """
SELECT count(*) FROM (
  SELECT hash FROM messages WHERE tenant = :tenant AND deleted = 0
  UNION ALL SELECT hash FROM memories WHERE tenant = :tenant
  UNION ALL SELECT hash FROM lore_entries WHERE tenant = :tenant
  UNION ALL SELECT hash FROM summaries WHERE tenant = :tenant
) records WHERE NOT EXISTS (SELECT 1 FROM contents c WHERE c.tenant = :tenant AND c.hash = records.hash)
"""
_ROOMLESS: Final = """
SELECT count(*) FROM messages m
WHERE m.tenant = :tenant AND NOT EXISTS (SELECT 1 FROM rooms r WHERE r.tenant = :tenant AND r.number = m.room)
"""
_TOTALS: Final = """
SELECT count(*) FROM scopes s LEFT JOIN (
  SELECT scope, count(*) AS documents, sum(length) AS words FROM documents WHERE tenant = :tenant GROUP BY scope
) d ON d.scope = s.number
WHERE s.tenant = :tenant AND (s.documents <> coalesce(d.documents, 0) OR s.words <> coalesce(d.words, 0))
"""
_POSITIONS: Final = """
SELECT count(*) FROM (
  SELECT room, max(seq) AS last, count(*) AS times FROM messages WHERE tenant = :tenant GROUP BY room
) m JOIN rooms r ON r.tenant = :tenant AND r.number = m.room WHERE m.last <> r.last OR m.times <> r.last
"""
_LOST: Final = """
SELECT count(*) FROM documents d WHERE d.tenant = :tenant AND (
  (d.kind = 'message' AND NOT EXISTS (
    SELECT 1 FROM messages m WHERE m.tenant = :tenant AND m.id = d.item AND m.deleted = 0))
  OR (d.kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.tenant = :tenant AND m.id = d.item))
  OR (d.kind = 'lore' AND NOT EXISTS (SELECT 1 FROM lore_entries e WHERE e.tenant = :tenant AND e.id = d.item))
  OR (d.kind = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.tenant = :tenant AND s.id = d.item)))
"""
_PASSAGES: Final = """
SELECT count(*) FROM (
  SELECT kind, item FROM documents WHERE tenant = :tenant AND part >= 0 GROUP BY kind, item
  HAVING count(*) <> max(part) - min(part) + 1 AND count(*) <> max(part) + 1 OR min(part) > 0
) incomplete
"""
_WAITING: Final = """
SELECT count(*) FROM embedding_queue p WHERE p.tenant = :tenant
  AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.tenant = :tenant AND d.doc = p.doc)
"""
_UNLOGGED: Final = """
SELECT count(*) FROM (
  SELECT 'build' AS kind, id FROM snapshots WHERE tenant = :tenant
  UNION ALL SELECT 'response', id FROM responses WHERE tenant = :tenant
) events WHERE NOT EXISTS (SELECT 1 FROM log l WHERE l.tenant = :tenant AND l.kind = events.kind AND l.item = events.id)
"""
_CHECKS: Final[tuple[tuple[str, Severity, str], ...]] = (
    (_MISSING, "error", "records whose content is gone"),
    (_USES, "error", "contents whose number of uses is wrong"),
    (_ROOMLESS, "error", "messages that belong to no room"),
    (_TOTALS, "error", "scopes whose totals are wrong"),
    (_LOST, "error", "documents of the index that lead to no record"),
    (_PASSAGES, "error", "records with missing passages in the index"),
    (_WAITING, "error", "documents wait for a vector, and are gone"),
    (_UNLOGGED, "error", "builds and answers that are not in the log"),
    (_POSITIONS, "warning", "rooms whose messages are not numbered without gaps"),
)


def check_tenant(session: Session) -> list[Finding]:
    """Return problems with the rows of a tenant."""
    found = [Finding(level, f"{count} {what}") for sql, level, what in _CHECKS if (count := _count(session, sql))]
    if miscounted := session.dialect.text_index.count_mismatches(session):
        found.append(Finding("error", f"{miscounted} terms whose documents are wrong"))
    orphans = _count_orphans(session)
    return [*found, Finding("warning", f"{orphans} contents that nothing refers to")] if orphans else found


def _count(session: Session, sql: str) -> int:
    row = session.row(sql)
    return int(row[0]) if row else 0


def _count_orphans(session: Session) -> int:
    """Return the number of contents that no record and no context references."""
    unused = session.rows("SELECT hash FROM contents WHERE tenant = :tenant AND uses <= 0")
    return len(find_unreferenced(session, [hash for (hash,) in unused]))
