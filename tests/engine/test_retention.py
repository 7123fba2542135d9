"""Retention: an engine deletes old contexts by itself."""

import asyncio

import pytest

from brimful.engine import Engine
from brimful.engine.retention import Retention
from brimful.errors import InvalidValue, StoreUnavailable

DAY = 86_400.0


async def built(engine, *moments):
    for moment in moments:
        await engine.assemble(room="general", message="Tea at five?", model="gpt-4o", now=moment)


def test_old_records_are_deleted_when_an_engine_is_opened(run, new_engine, clock):
    removed = asyncio.Event()
    reports = []

    def hear(event):
        if event.name == "pruned":
            reports.append(event.facts)
            removed.set()

    async def story():
        async with new_engine(embedder="none") as engine:
            await built(engine, clock.now - 40 * DAY, clock.now - 31 * DAY, clock.now - DAY)
        async with new_engine(embedder="none", retention="30d", hooks=[hear]) as engine:
            await asyncio.wait_for(removed.wait(), 30)
            return await engine.store.builds(), await engine.store.statistics()

    kept, (figures,) = run(story())
    assert [each.at for each in kept] == [clock.now - DAY]
    assert figures.contexts == 3
    assert [each["builds"] for each in reports] == [2]


def test_without_retention_everything_is_kept(run, new_engine, clock):
    async def story():
        async with new_engine(embedder="none") as engine:
            await built(engine, 0.0, clock.now)
            return len(await engine.store.builds())

    assert run(story()) == 2


def test_pruning_depends_on_the_current_time(run, new_engine, clock):
    async def story():
        async with new_engine(embedder="none") as engine:
            await built(engine, clock.now, clock.now + DAY)

            async def stores():
                yield engine.store

            retention = Retention(stores, 10 * DAY, clock=clock)
            left = []
            for later in (0.0, 10 * DAY, 10.5 * DAY, 12 * DAY):
                await retention.prune(clock.now + later)
                left.append(len(await engine.store.builds()))
            return left

    assert run(story()) == [2, 2, 1, 0]


def test_a_failing_store_does_not_stop_the_others(run, new_engine, clock, caplog):
    class Gone:
        tenant = "gone"

        async def prune(self, before):
            del before
            raise StoreUnavailable("gone.db", "is locked")

    async def story():
        async with new_engine(embedder="none") as engine:
            await built(engine, 0.0)

            async def stores():
                yield Gone()
                yield engine.store

            await Retention(stores, "1d", clock=clock).prune(clock.now)
            return await engine.store.builds()

    assert run(story()) == []
    assert "pruning the store of gone failed and will be retried" in caplog.text


@pytest.mark.parametrize("keep", ["soon", "0d", "59m", 0, 60, -1.0, float("nan"), True])
def test_an_invalid_retention_is_rejected(keep):
    with pytest.raises(InvalidValue, match="retention"):
        Engine("sqlite://", embedder="none", retention=keep)
