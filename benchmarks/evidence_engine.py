"""Evidence through the whole engine: messages in a store, found by the index, filled by the core."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence

from brimful.assembly.assemble import replay
from brimful.core.context import Context
from brimful.engine import Engine
from brimful.records import Message
from evidence_data import Asked, Talk

WINDOW = 32_000  # larger than any budget, so that the budget is the pool's
ROOM = "talk"


def recalled(talk: Talk, model: str, embedder: str, budgets: Sequence[int]) -> list[dict[int, set[str]]]:
    """Return, for each question, the turns that are in the context within each budget."""
    return asyncio.run(_recalled(talk, model, embedder, budgets))


async def _recalled(talk: Talk, model: str, embedder: str, budgets: Sequence[int]) -> list[dict[int, set[str]]]:
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/talk.db", model=model, embedder=embedder) as engine:
            await engine.post_many(list(messages(talk)))
            await engine.index()
            return [await _find_evidence(engine, talk, question, budgets) for question in talk.questions]


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


async def _find_evidence(engine: Engine, talk: Talk, question: Asked, budgets: Sequence[int]) -> dict[int, set[str]]:
    largest, *smaller = sorted(budgets, reverse=True)
    context = await engine.assemble(
        room=ROOM,
        message=question.text,
        sender=talk.asker,
        window=WINDOW,
        now=max((turn.at or 0.0) for turn in talk.turns),
        overrides=_only_related(largest),
        save=False,
    )
    found = {largest: _inside(context)}
    for budget in smaller:
        found[budget] = _inside(await asyncio.to_thread(replay, context, overrides=_only_related(budget)))
    return found


def _only_related(tokens: int) -> Mapping[str, object]:
    """Return the default policy with no place for history, and so many tokens for what was found."""
    return {
        "pools.recent.limit": {"tokens": 0},
        "pools.recent.borrow": False,
        "pools.recent.min_items": 0,
        "pools.related.limit": {"tokens": tokens},
        "pools.related.borrow": False,
    }


def _inside(context: Context) -> set[str]:
    """Return the turns that the model sees."""
    return {id.removesuffix("/recalled") for id in context.kept}
