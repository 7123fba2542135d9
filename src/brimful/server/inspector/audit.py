"""Endpoints for the audit of memories: what is not worth having, and archiving what somebody chose of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from brimful.janitor.audit import Finding
from brimful.records import Memory
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import ArchiveBody, AuditQuery
from brimful.server.inspector.record_views import ArchivedMemories, AuditView
from brimful.server.inspector.records import Memories
from brimful.server.tenants import Tenants
from brimful.stores import Store

_PAGE: Final = 500  # memories read at once


class Audits:
    """Endpoints for the audit."""

    def __init__(self, tenants: Tenants, memories: Memories) -> None:
        self._tenants = tenants
        self._memories = memories

    async def show(self, call: Call) -> AuditView:
        """Find memories that are not worth having. Nothing is changed."""
        query: AuditQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        report = await engine.audit_memories(query.user, unused_for=query.unused_for)
        findings = tuple(_first_of_each_kind(report.findings, query.limit))
        ids = sorted({id for each in findings for id in (each.id, each.other) if id})
        memories = await _read(engine.store, ids)
        views = await self._memories.views(memories, query.model, call.tenant)
        return AuditView(
            memories=report.memories,
            counts=dict(Counter(each.kind for each in report.findings)),
            findings=findings,
            records={view.id: view for view in views},
        )

    async def archive(self, call: Call) -> ArchivedMemories:
        """Archive memories, in one run that can be undone."""
        body: ArchiveBody = call.body
        engine = await self._tenants.engine(call.tenant)
        run = await engine.archive_memories(body.ids)
        if run is None:
            return ArchivedMemories(archived=0, run=None)
        return ArchivedMemories(archived=run.facts["memories"], run=run.number)


async def _read(store: Store, ids: Sequence[str]) -> list[Memory]:
    return [
        memory
        for start in range(0, len(ids), _PAGE)
        for memory in await store.memories(ids=ids[start : start + _PAGE], limit=_PAGE)
    ]


def _first_of_each_kind(findings: Sequence[Finding], limit: int) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    for each in findings:
        seen[each.kind] += 1
        if seen[each.kind] <= limit:
            yield each
