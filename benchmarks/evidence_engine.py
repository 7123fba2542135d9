"""Evidence through the whole engine: messages in a store, found by the index, filled by the core."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brimful import counter
from brimful.core.context import Context
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from brimful.engine import Engine
from brimful.engine.options import Retrieval
from brimful.records import Message
from evidence_data import Asked, Talk

WINDOW = 32_000  # larger than any budget, so that the budget is the pool's
ROOM = "talk"
MESSAGE = 4  # tokens around the message that the turns are in
UNCACHED = Retrieval(cache_ttl=0.0)  # every build searches


@dataclass(frozen=True, slots=True)
class Build:
    """A build: the share of the evidence that is in, how much of that is shortened, and what the build took."""

    recall: float
    shortened: float
    seconds: float
    processor: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The builds of a conversation by budget, and the bytes of its text and of the store."""

    builds: dict[int, list[Build]]
    turns: int
    text: int
    stored: int


def measure(talk: Talk, model: str, embedder: str, budgets: Sequence[int]) -> Measured:
    """Ask every question within every budget of tokens, which includes all that is around the turns."""
    with tempfile.TemporaryDirectory() as folder:
        builds = asyncio.run(_builds(f"sqlite:///{folder}/talk.db", talk, model, embedder, budgets))
        stored = sum(file.stat().st_size for file in Path(folder).iterdir())
    return Measured(builds, len(talk.turns), sum(len(turn.text.encode()) for turn in talk.turns), stored)


async def _builds(store: str, talk: Talk, model: str, embedder: str, budgets: Sequence[int]) -> dict[int, list[Build]]:
    envelope = counter(model).texts([RELATED_OPEN + RELATED_CLOSE])[0].tokens + MESSAGE
    async with Engine(store, model=model, embedder=embedder, retrieval=UNCACHED) as engine:
        await engine.post_many(list(messages(talk)))
        if embedder != "none":
            await engine.index()
        return {
            budget: [await _build(engine, talk, asked, budget - envelope) for asked in talk.questions]
            for budget in budgets
        }


def messages(talk: Talk) -> Sequence[Message]:
    """Return a conversation as a store takes it."""
    return [
        Message(
            id=turn.id,
            room=ROOM,
            sender=turn.speaker,
            role="user" if turn.speaker == talk.asker or not talk.asker else "assistant",
            content=turn.text,
            at=turn.at or 0.0,
        )
        for turn in talk.turns
    ]


async def _build(engine: Engine, talk: Talk, question: Asked, tokens: int) -> Build:
    began, worked = time.perf_counter(), time.process_time()
    context = await engine.assemble(
        room=ROOM,
        message=question.text,
        sender=talk.asker,
        window=WINDOW,
        now=max((turn.at or 0.0) for turn in talk.turns),
        overrides={"price": "full", **only_related(tokens)},
        save=False,
    )
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    whole, shortened = (len(_inside(context, full=full) & question.evidence) for full in (True, False))
    asked = len(question.evidence)
    return Build((whole + shortened) / asked, shortened / asked, seconds, processor)


def only_related(tokens: int) -> dict[str, object]:
    """Return the default policy with no place for history, and so many tokens for what was found."""
    return {
        "pools.recent.need": None,
        "pools.recent.limit": {"tokens": 0},
        "pools.recent.borrow": False,
        "pools.recent.min_items": 0,
        "pools.related.limit": {"tokens": tokens},
        "pools.related.borrow": False,
    }


def _inside(context: Context, *, full: bool) -> set[str]:
    """Return the turns that the model sees, in full or shortened."""
    decisions = (each for each in context.decisions if each.included and (each.form == "full") == full)
    return {decision.id.removesuffix("/recalled") for decision in decisions}
