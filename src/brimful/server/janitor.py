"""The rooms of all tenants, put in order every so often while the server runs."""

import logging
from collections.abc import Awaitable, Callable

from brimful.engine.retention import seconds_kept
from brimful.engine.rounds import Rounds
from brimful.errors import BrimfulError
from brimful.server.tenants import Tenants

_log = logging.getLogger("brimful.server")


class Janitor:
    """Goes through all tenants, waits, and begins again."""

    def __init__(self, tenants: Tenants, names: Callable[[], Awaitable[list[str]]], every: str) -> None:
        """Begin a new round when the last one has ended for a time such as `6h`."""
        self._tenants = tenants
        self._names = names
        self._rounds = Rounds(self.tidy, seconds_kept(every), "no room is put in order for now")

    async def tidy(self) -> None:
        """Put everything in order once. What fails for one tenant is told, and done in the next round."""
        for name in await self._names():
            try:
                engine = await self._tenants.engine(name)
                await engine.tidy()
            except BrimfulError as error:
                _log.warning("the rooms of %s stay as they are for now: %s", name, error)

    def start(self) -> None:
        """Begin, at once."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stop. What is half done is whole, and goes on the next time."""
        await self._rounds.stop()
