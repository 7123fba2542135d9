"""Where memories come from, what replaced what, and what was true at a time."""

from collections.abc import Iterable, Sequence
from functools import cache
from math import inf
from typing import Final, Literal

from brimful.formats import format_names
from brimful.records import Memory
from brimful.records.memory import LEARNED
from brimful.records.runs import RunKind
from brimful.server.inspector.views import View
from brimful.sessions.files import PROGRAMS
from brimful.stores import Store
from brimful.stores.admin.runs import JanitorStore

Origin = Literal["message", "session", "import", "tool", "other", "direct"]
"""Where a memory comes from.

A message in a room or in the session of an agent, an import of a file, a tool of a model or a framework, something
else that `source` names, or nothing that is named.
"""
_TOOLS: Final = frozenset({"mcp", "langgraph", "adk"})  # what calls of tools name as their source
_MAX_CHAIN: Final = 100  # memories that replaced each other


class ArchivedView(View, frozen=True, kw_only=True):
    """How a memory was archived: the run, its kind, and the memory that replaced it, if one did.

    `at` is when it stopped being true: the time of the memory that replaced it, or else when it was archived.
    """

    run: int
    kind: RunKind
    at: float
    replaced_by: str | None = None


class MemoryHistory:
    """What replaced what among the memories of a tenant."""

    def __init__(self, store: Store, housekeeping: JanitorStore) -> None:
        self._store = store
        self._housekeeping = housekeeping

    async def archived(self, memories: Iterable[Memory]) -> dict[str, ArchivedView]:
        """Return how these memories were archived, by id, without those that are not."""
        archivals = await self._housekeeping.archivals([memory.id for memory in memories])
        added = {id for each in archivals.values() for id in each.added}
        replacements: dict[str, Memory] = {}
        for memory in await self._read(sorted(added)):
            if (replaced := memory.supersedes) is not None:
                replacements[replaced] = memory
        views = {}
        for id, each in archivals.items():
            by = replacements.get(id)
            ended = each.at if by is None else by.at
            views[id] = ArchivedView(run=each.run, kind=each.kind, at=ended, replaced_by=None if by is None else by.id)
        return views

    async def select_valid(self, memories: Sequence[Memory], at: float) -> list[Memory]:
        """Return the memories that were true at a time."""
        archived = await self.archived(memories)
        return [memory for memory in memories if memory.at <= at < _find_end(memory, archived.get(memory.id))]

    async def chain(self, memory: Memory) -> list[Memory]:
        """Return a memory with those that it replaced and those that replaced it, oldest first."""
        chain = [memory]
        seen = {memory.id}
        while len(chain) < _MAX_CHAIN and (id := chain[0].supersedes) is not None and id not in seen:
            before = await self._read([id])
            chain[:0] = before
            seen.add(id)
            if not before:
                break
        while len(chain) < _MAX_CHAIN:
            archived = (await self.archived([chain[-1]])).get(chain[-1].id)
            if archived is None or archived.replaced_by is None or archived.replaced_by in seen:
                break
            seen.add(archived.replaced_by)
            chain += await self._read([archived.replaced_by])
        return chain

    async def _read(self, ids: list[str]) -> list[Memory]:
        return await self._store.memories(ids=ids, limit=len(ids)) if ids else []


def _find_end(memory: Memory, archived: ArchivedView | None) -> float:
    """Return when a memory stopped being true. Of one that was imported as archived, nobody may know."""
    if memory.ended is not None:
        return memory.ended
    if archived is not None:
        return archived.at
    return memory.at if memory.archived else inf


def find_origin(memory: Memory) -> tuple[Origin, str]:
    """Return where a memory comes from, and the name of the program or source.

    >>> find_origin(Memory(id="m1", content="Tea.", source_message="codex/c0de/7"))
    ('session', 'codex')
    >>> find_origin(Memory(id="m2", content="Tea.", source="mcp"))
    ('tool', 'mcp')
    >>> find_origin(Memory(id="m3", content="Tea."))
    ('direct', '')
    """
    if memory.source_message is not None or LEARNED in memory.metadata:
        program = _find_prefix(memory.source_message or memory.room or "", PROGRAMS)
        return ("session", program) if program else ("message", memory.source)
    if memory.source in _TOOLS:
        return "tool", memory.source
    if program := _find_prefix(memory.id, _formats()):
        return "import", program
    return ("other", memory.source) if memory.source else ("direct", "")


@cache
def _formats() -> frozenset[str]:
    return frozenset(format_names())


def _find_prefix(id: str, names: Iterable[str]) -> str:
    prefix, separator, _ = id.partition("/")
    return prefix if separator and prefix in names else ""
