"""A short-lived cache of recently viewed contexts."""

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Final

import msgspec

from brimful.assembly.assemble import prepare_candidates
from brimful.assembly.whatif import find_window
from brimful.cache import LRU, SHARED_BUDGET, CacheBudget, content_bytes
from brimful.core.content import ContentPackage
from brimful.core.context import Context, Inputs
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.stages import Attempt, Candidates, assemble_candidates, choose
from brimful.records import Snapshot
from brimful.server.errors import ApiError
from brimful.stores import Store

MAX_PER_TENANT: Final = 8  # contexts, so that no tenant evicts all others
_CANDIDATE_BYTES: Final = 4_000  # memory of a candidate without its content, and of its decision
MAX_PREPARED: Final = 4  # per context
CACHE_SECONDS: Final = 30.0  # content erased by another process is shown no longer than that

_Key = tuple[str, str]
_PreparedKey = tuple[ModelInfo, Policy, frozenset[tuple[str, str]]]  # with the ids and hashes of pins
Pins = Mapping[str, ContentPackage]
"""Packages to pin, by id."""
NO_PINS: Final[Pins] = MappingProxyType({})


class CachedContext:
    """A context with results derived from it that are slow to compute."""

    def __init__(self, snapshot: Snapshot, at: float) -> None:
        self.snapshot = snapshot
        self.at = at
        self._prepared: LRU[_PreparedKey, Candidates] = LRU(max_entries=MAX_PREPARED)
        self._windows: dict[str, int | None] = {}
        self._chosen: Attempt | None = None
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """An estimate of its memory."""
        return sum(_CANDIDATE_BYTES + content_bytes(each.content) for each in self.snapshot.context.inputs.packages)

    def prepare(self, inputs: Inputs, pins: Pins = NO_PINS) -> Candidates:
        """Return the candidates prepared for the model and the policy of these inputs.

        What is pinned replaces the candidate with its id, or is added.
        """
        key = (inputs.model, inputs.policy, frozenset((id, pin.hash) for id, pin in pins.items()))
        others = (package for package in inputs.packages if package.id not in pins)
        with self._lock:
            return self._prepared.setdefault(
                key, lambda: prepare_candidates(msgspec.structs.replace(inputs, packages=(*others, *pins.values())))
            )

    def rebuild(self, inputs: Inputs, pins: Pins = NO_PINS) -> Context:
        """Build the context with other settings. If only numbers differ, only the fill is repeated."""
        prepared = self.prepare(inputs, pins)
        sized = msgspec.structs.replace(prepared.inputs, window=inputs.window, completion=inputs.completion)
        return assemble_candidates(msgspec.structs.replace(prepared, inputs=sized))

    def required_window(self, item: str) -> int | None:
        """Return the window in which a candidate would be included."""
        if item not in self._windows:
            context = self.snapshot.context
            self._windows[item] = find_window(context, item, lambda: self.prepare(context.inputs))
        return self._windows[item]

    @property
    def chosen(self) -> Attempt:
        """What was chosen for the context, by choosing again: the record has only the decisions and the request."""
        if self._chosen is None:
            self._chosen = choose(self.prepare(self.snapshot.context.inputs))
        return self._chosen

    def included(self, item: str) -> ContentPackage | None:
        """Return a candidate in the form that the model saw; None if it was not included."""
        packages = (package for unit in self.chosen.selection.units for package in unit.packages)
        return next((package for package in packages if package.id == item), None)


class ContextCache:
    """Loads contexts and caches recent ones for some seconds."""

    def __init__(
        self, clock: Callable[[], float], *, per_tenant: int = MAX_PER_TENANT, budget: CacheBudget = SHARED_BUDGET
    ) -> None:
        self._clock = clock
        self._per_tenant = per_tenant
        self._cached: LRU[_Key, CachedContext] = LRU(
            name="contexts", size=lambda _, cached: cached.nbytes, keep_last=True, budget=budget
        )
        self._dropped: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._cached)

    async def snapshot(self, store: Store, id: str) -> Snapshot:
        """Return a context; raise an API error if the id is unknown."""
        return (await self.get(store, id)).snapshot

    async def get(self, store: Store, id: str) -> CachedContext:
        """Return a context with its derived results."""
        self._expire()
        key = (store.tenant, id)
        if (cached := self._cached.get(key)) is not None:
            return cached
        started, dropped = self._clock(), self._dropped[store.tenant]
        snapshot = await store.snapshot(id)
        if snapshot is None:
            raise ApiError("not_found", f"context {id[:80]!r} not found", code="context_not_found", param="id")
        cached = CachedContext(snapshot, started)
        if dropped == self._dropped[store.tenant]:  # otherwise it may contain something that was erased meanwhile
            self._add(key, cached)
        return cached

    def drop(self, tenant: str) -> None:
        """Remove a tenant's contexts from the cache, since something in them may have been erased."""
        self._dropped[tenant] += 1
        for key in self._cached:
            if key[0] == tenant:
                self._cached.pop(key)

    def _add(self, key: _Key, cached: CachedContext) -> None:
        self._cached[key] = cached
        own = [each for each in self._cached if each[0] == key[0]]
        for each in own[: -self._per_tenant]:
            self._cached.pop(each)

    def _expire(self) -> None:
        now = self._clock()
        for key, cached in self._cached.items():
            if not 0 <= now - cached.at < CACHE_SECONDS:
                self._cached.pop(key)
