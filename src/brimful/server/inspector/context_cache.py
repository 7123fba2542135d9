"""A short-lived cache of recently viewed contexts."""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Final

from brimful.assembly.assemble import prepare_candidates
from brimful.assembly.whatif import window_for
from brimful.cache import LRU
from brimful.core.context import Inputs
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.stages import Candidates
from brimful.protocols import Store
from brimful.records import Snapshot
from brimful.server.errors import ApiError

MAX_PER_TENANT: Final = 8  # contexts of one tenant, so that nobody takes the place of all others
MAX_CANDIDATES: Final = 50_000  # of all contexts at hand together; each takes some kilobytes
MAX_PREPARED: Final = 4  # of one context
CACHE_SECONDS: Final = 30.0  # seconds; what was erased elsewhere in the meantime is shown no longer than that

_Key = tuple[str, str]


class CachedContext:
    """A context at hand, and what was worked out of it: it takes a while the first time."""

    def __init__(self, snapshot: Snapshot, at: float) -> None:
        """Begin with the context alone; `at` is when it was read."""
        self.snapshot = snapshot
        self.at = at
        self._piles: LRU[tuple[ModelInfo, Policy], Candidates] = LRU(max_entries=MAX_PREPARED)
        self._windows: dict[str, int | None] = {}
        self._working = Lock()

    @property
    def candidates(self) -> int:
        """How large it is."""
        return len(self.snapshot.context.inputs.packages)

    def pile(self, inputs: Inputs) -> Candidates:
        """Return the candidates, ready for the model and the policy of these inputs."""
        key = (inputs.model, inputs.policy)
        with self._working:
            return self._piles.setdefault(key, lambda: prepare_candidates(inputs))

    def window_for(self, item: str) -> int | None:
        """Return the window in which a candidate would be in."""
        if item not in self._windows:
            self._windows[item] = window_for(self.snapshot.context, item)
        return self._windows[item]


class ContextCache:
    """Reads contexts, and keeps the last ones for some seconds."""

    def __init__(
        self, clock: Callable[[], float], *, of_tenant: int = MAX_PER_TENANT, candidates: int = MAX_CANDIDATES
    ) -> None:
        """Keep so many."""
        self._clock = clock
        self._of_tenant = of_tenant
        self._held: LRU[_Key, CachedContext] = LRU(
            max_size=candidates, size=lambda _, held: held.candidates, keep_last=True
        )
        self._dropped: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many are at hand."""
        return len(self._held)

    async def snapshot(self, store: Store, id: str) -> Snapshot:
        """Return a context; refuse an id that is not known."""
        return (await self.held(store, id)).snapshot

    async def held(self, store: Store, id: str) -> CachedContext:
        """Return a context with what is at hand of it."""
        self._let_go_of_the_old()
        key = (store.tenant, id)
        if (known := self._held.get(key)) is not None:
            return known
        began, dropped = self._clock(), self._dropped[store.tenant]
        snapshot = await store.snapshot(id)
        if snapshot is None:
            raise ApiError("unknown", f"no context {id[:80]!r}", code="context_not_found", param="id")
        held = CachedContext(snapshot, began)
        if dropped == self._dropped[store.tenant]:  # else it may have been read before something in it was erased
            self._keep(key, held)
        return held

    def drop(self, tenant: str) -> None:
        """Let go of a tenant's contexts: something was erased that may be in them."""
        self._dropped[tenant] += 1
        for key in self._held:
            if key[0] == tenant:
                self._held.pop(key)

    def _keep(self, key: _Key, held: CachedContext) -> None:
        self._held[key] = held
        own = [each for each in self._held if each[0] == key[0]]
        for each in own[: -self._of_tenant]:
            self._held.pop(each)

    def _let_go_of_the_old(self) -> None:
        now = self._clock()
        for key, held in self._held.items():
            if not 0 <= now - held.at < CACHE_SECONDS:
                self._held.pop(key)
