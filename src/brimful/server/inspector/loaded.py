"""Contexts that were looked at a moment ago: kept at hand, for who looks at one asks again."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

from brimful.assembly import piled
from brimful.core.context import Inputs
from brimful.core.model import ModelInfo
from brimful.core.pile import Pile
from brimful.core.policy import Policy
from brimful.protocols import Store
from brimful.records import Snapshot
from brimful.server.errors import Refusal

KEPT: Final = 8  # contexts of each tenant
TENANTS: Final = 64
PILES: Final = 4  # of one context
FRESH: Final = 30.0  # seconds; what was erased elsewhere in the meantime is shown no longer than that


_NONE: Final["OrderedDict[str, Held]"] = OrderedDict()


class Held:
    """A context at hand, and its candidates made ready for the models and policies that were asked about."""

    def __init__(self, snapshot: Snapshot, at: float) -> None:
        """Begin with the context alone; `at` is when it was read."""
        self.snapshot = snapshot
        self.at = at
        self._piles: OrderedDict[tuple[ModelInfo, Policy], Pile] = OrderedDict()
        self._making = Lock()

    def pile(self, inputs: Inputs) -> Pile:
        """Return the candidates, ready for the model and the policy of these inputs. Takes a while the first time."""
        key = (inputs.model, inputs.policy)
        with self._making:
            pile = self._piles.pop(key, None) or piled(inputs)
            self._piles[key] = pile
            if len(self._piles) > PILES:
                self._piles.popitem(last=False)
            return pile


class Loaded:
    """Reads contexts, and keeps the last ones of each tenant for some seconds."""

    def __init__(self, clock: Callable[[], float], *, kept: int = KEPT, tenants: int = TENANTS) -> None:
        """Keep so many."""
        self._clock = clock
        self._kept = kept
        self._most = tenants
        self._tenants: OrderedDict[str, OrderedDict[str, Held]] = OrderedDict()

    async def snapshot(self, store: Store, id: str) -> Snapshot:
        """Return a context; refuse an id that is not known."""
        return (await self.held(store, id)).snapshot

    async def held(self, store: Store, id: str) -> Held:
        """Return a context with what is at hand of it."""
        held = self._tenants.get(store.tenant, _NONE).get(id)
        if held is not None and 0 <= self._clock() - held.at < FRESH:
            self._keep(store.tenant, held)
            return held
        snapshot = await store.snapshot(id)
        if snapshot is None:
            raise Refusal("unknown", f"no context {id[:80]!r}", code="context_not_found", param="id")
        held = Held(snapshot, self._clock())
        self._keep(store.tenant, held)
        return held

    def drop(self, tenant: str) -> None:
        """Let go of a tenant's contexts: something was erased that may be in them."""
        self._tenants.pop(tenant, None)

    def __len__(self) -> int:
        """Return how many are at hand."""
        return sum(map(len, self._tenants.values()))

    def _keep(self, tenant: str, held: Held) -> None:
        contexts = self._tenants.setdefault(tenant, OrderedDict())
        self._tenants.move_to_end(tenant)
        contexts[held.snapshot.id] = held
        contexts.move_to_end(held.snapshot.id)
        if len(contexts) > self._kept:
            contexts.popitem(last=False)
        if len(self._tenants) > self._most:
            self._tenants.popitem(last=False)
