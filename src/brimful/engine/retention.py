"""Builds and answers that are older than is wanted go, now and then, in the background."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from brimful.answers import Pruned
from brimful.core.check import finite, shown
from brimful.engine.rounds import Rounds
from brimful.errors import BrimfulError, InvalidValue
from brimful.fields import duration
from brimful.protocols import Store

EVERY: Final = 3_600.0  # seconds between two looks: whole hours go

Stores = Callable[[], Awaitable[Sequence[Store]]]
Tell = Callable[[Pruned], Awaitable[None]]

_log = logging.getLogger("brimful")


def seconds_kept(keep: str | float) -> float:
    """Return for how many seconds builds are kept.

    >>> seconds_kept("30d"), seconds_kept(3600)
    (2592000.0, 3600.0)
    """
    seconds = duration(keep, "keep") if isinstance(keep, str) else finite(keep)
    if seconds is None or seconds <= 0:
        raise InvalidValue("keep", f"must be a time such as '30d', or a positive number of seconds, not {shown(keep)}")
    return seconds


async def _silent(gone: Pruned) -> None:
    """Tell nobody."""
    del gone


class Retention:
    """Looks through stores and lets go what is old. It reads its clock, and whoever tests it says what time it is."""

    def __init__(self, stores: Stores, keep: str | float, *, clock: Callable[[], float], tell: Tell = _silent) -> None:
        """Keep what is younger than `keep`. `tell` is told what went, if anything did."""
        self._stores = stores
        self._keep = seconds_kept(keep)
        self._tell = tell
        self._rounds = Rounds(lambda: self.prune(clock()), EVERY, "nothing is pruned for now")

    async def prune(self, now: float) -> None:
        """Let go what is old by now. A store that fails spoils it for no other, and is looked at again later."""
        for store in await self._stores():
            try:
                gone = await store.prune(before=now - self._keep)
            except BrimfulError as error:
                _log.warning("what is old in the store of %s stays for now: %s", store.tenant, error)
                continue
            if gone.builds or gone.answers or gone.contents:
                await self._tell(gone)

    def start(self) -> None:
        """Begin to look, at once and then every hour."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stop looking; what is being removed at this moment is removed."""
        await self._rounds.stop()
