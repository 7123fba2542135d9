"""Evidence through the whole engine: messages in a store, found by the index, filled by the core."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brimful import counter
from brimful.core.context import Context
from brimful.core.decision import RETRIEVED_KINDS
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from brimful.engine import Engine
from brimful.engine.options import Retrieval
from brimful.records import Message
from evidence_data import Asked, Talk

WINDOW = 32_000  # larger than any budget, so that the budget is the pool's
WINDOWS = (2_048, 4_096, 8_192)  # in which noise is measured
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
    """The builds of a conversation by budget, its noise by window, and the bytes of its text and of the store.

    Noise is the share of a prompt that a question to another conversation brought into it.
    """

    builds: dict[int, list[Build]]
    noise: dict[int, list[float]]
    turns: int
    text: int
    stored: int


def measure(talk: Talk, others: Sequence[Asked], model: str, embedder: str, budgets: Sequence[int]) -> Measured:
    """Ask every question within every budget of tokens, which includes all that is around the turns.

    `others` are questions that the conversation cannot answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        builds, noise = asyncio.run(_builds(f"sqlite:///{folder}/talk.db", talk, others, model, embedder, budgets))
        stored = sum(file.stat().st_size for file in Path(folder).iterdir())
    return Measured(builds, noise, len(talk.turns), sum(len(turn.text.encode()) for turn in talk.turns), stored)


async def _builds(
    store: str, talk: Talk, others: Sequence[Asked], model: str, embedder: str, budgets: Sequence[int]
) -> tuple[dict[int, list[Build]], dict[int, list[float]]]:
    envelope = counter(model).texts([RELATED_OPEN + RELATED_CLOSE])[0].tokens + MESSAGE
    async with Engine(store, model=model, embedder=embedder, retrieval=UNCACHED) as engine:
        await engine.post_many(list(messages(talk)))
        if embedder != "none":
            await engine.index()
        builds = {
            budget: [await _build(engine, talk, asked, budget - envelope) for asked in talk.questions]
            for budget in budgets
        }
        return builds, {window: [await _noise(engine, talk, each, window) for each in others] for window in WINDOWS}


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


async def _noise(engine: Engine, talk: Talk, question: Asked, window: int) -> float:
    """Return the share of the prompt that was found. The policy is the default one, history included."""
    now = max((turn.at or 0.0) for turn in talk.turns)
    context = await engine.assemble(
        room=ROOM, message=question.text, sender=talk.asker, window=window, now=now, save=False
    )
    included = (each for each in context.decisions if each.included and each.kind.startswith(RETRIEVED_KINDS))
    return sum(each.cost for each in included) / context.tokens


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
