"""The inspector: all that answers its questions, put together once."""

import asyncio
from collections.abc import Callable

from brimful.models.registry import Registry
from brimful.server.access import Access
from brimful.server.inspector.catalogue import Catalogue
from brimful.server.inspector.contexts import Contexts
from brimful.server.inspector.costs import Costs
from brimful.server.inspector.events import Events
from brimful.server.inspector.figures import Figures
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.lore import Entries, lorebooks
from brimful.server.inspector.memories import Memories
from brimful.server.inspector.messages import Messages
from brimful.server.inspector.newest import Newest
from brimful.server.inspector.people import personas, rooms
from brimful.server.inspector.supposing import Supposing
from brimful.server.inspector.tokens import Tokens
from brimful.server.tasks import Tasks
from brimful.server.tenants import Tenants


class Inspector:
    """What answers questions, by what they are about."""

    def __init__(
        self,
        tenants: Tenants,
        registry: Registry,
        *,
        tokens: Tokens,
        access: Access,
        tasks: Tasks,
        stopping: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        """Put it together. `stopping` ends all streams of events."""
        loaded, costs, self._newest = Loaded(clock), Costs(registry), Newest()
        self.contexts = Contexts(tenants, tasks, loaded=loaded, costs=costs, newest=self._newest)
        self.events = Events(tenants, costs, access=access, stopping=stopping)
        self.supposing = Supposing(tenants, registry, loaded=loaded, newest=self._newest)
        self.figures = Figures(tenants, clock=clock)
        self.catalogue = Catalogue(registry, tokens)
        self.rooms = rooms(tenants, tokens, loaded, clock=clock)
        self.messages = Messages(tenants, tokens, loaded)
        self.personas = personas(tenants, tokens, loaded)
        self.memories = Memories(tenants, tokens, loaded, clock=clock)
        self.lorebooks = lorebooks(tenants, tokens, loaded)
        self.entries = Entries(tenants, tokens)

    async def close(self) -> None:
        """Wait for what is being worked out."""
        await self._newest.close()
