"""Conversations for the telemetry tests."""

import asyncio
import itertools

from brimful.engine import Engine
from brimful.errors import ContextOverflow, ProviderUnavailable
from brimful.records import Message, Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider

WORDS = "She is allergic to hazelnut."
NOW = 1_794_000_000.0


class Ticking:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self):
        self._ticks = itertools.count()

    def __call__(self):
        return NOW + next(self._ticks)


def answer(**usage):
    return Reply(parts=(), model="gpt-4o-2024-08-06", usage=Usage(**usage), finish="stop")


def talk(url, hook, *script, times=None):
    """Ask as often as the script has lines, in a room with more history than fits; return what came of the last."""
    scripted = ScriptedProvider(script)

    async def story():
        async with Engine(
            url, model="gpt-4o", provider=scripted, hooks=[hook], embedder="none", clock=Ticking()
        ) as engine:
            await engine.post_many(
                [Message(id=f"m{n}", room="r", content=f"{WORDS} {n} " * 30, at=NOW + n) for n in range(40)]
            )
            for _ in range(times or len(script)):
                try:
                    last = await engine.respond("r", "Well?", completion=100, window=3_000)
                except ProviderUnavailable as error:
                    last = error
            return last

    return asyncio.run(story())


DOWN = ProviderUnavailable("scripted", "down", status=503)
TOO_LONG = ContextOverflow("scripted", "too long", status=400, window=2_000)
