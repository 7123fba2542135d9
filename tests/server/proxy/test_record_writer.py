"""Records of `fit` mode: a context waits briefly for its answer, and records are written together."""

import asyncio

import pytest

from brimful.errors import InvalidValue, StoreUnavailable
from brimful.server.background import BackgroundTasks
from brimful.server.proxy.fit_mode import RecordWriter
from stores.test_log import answer
from stores.test_snapshots import pile, snapshot
from support import build


class RecordingStore:
    """A store that notes what it is told to write, at once or when it may. `failures` are raised by id."""

    record_share = 0.5

    def __init__(self, **failures):
        self.told = []
        self.begun = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._failures = failures

    def store(self, tenant):
        assert tenant == "acme"
        return self

    async def save_records(self, records, *, share):
        assert share == self.record_share
        self.told.append([record.id for record in records])
        self.begun.set()
        await self.may_write.wait()
        for record in records:
            if record.id in self._failures:
                raise self._failures[record.id]


def writer(kept, tasks, wait=60.0):
    return RecordWriter(kept, tasks, wait=wait, pause=0.0)


def test_an_early_answer_is_written_with_its_context():
    async def report():
        kept, tasks = RecordingStore(), BackgroundTasks()
        records = writer(kept, tasks)
        records.write("acme", snapshot(build(pile())))
        await asyncio.sleep(0)
        assert kept.told == []
        await records.add_response("acme", answer("a1"))
        await tasks.drain()
        return kept.told

    assert asyncio.run(report()) == [["s1", "a1"]]


def test_a_late_answer_is_written_after_its_context():
    async def report():
        kept, tasks = RecordingStore(), BackgroundTasks()
        kept.may_write.clear()
        records = writer(kept, tasks, wait=0.0)
        records.write("acme", snapshot(build(pile())))
        await kept.begun.wait()
        late = asyncio.create_task(records.add_response("acme", answer("a1")))
        await asyncio.sleep(0)
        assert kept.told == [["s1"]]
        kept.may_write.set()
        await late
        await records.add_response("acme", answer("a2"))
        return kept.told

    assert asyncio.run(report()) == [["s1"], ["a1"], ["a2"]]


@pytest.mark.parametrize("turns", range(8))
def test_an_answer_never_comes_before_its_context(turns):
    """It may come in any turn of the event loop while the wait for it ends."""

    async def report():
        stored, tasks = RecordingStore(), BackgroundTasks()
        records = writer(stored, tasks, wait=0.0)
        records.write("acme", snapshot(build(pile())))
        for _ in range(turns):
            await asyncio.sleep(0)
        for name in ("a1", "a2"):
            await records.add_response("acme", answer(name))
        await tasks.drain()
        return [id for ids in stored.told for id in ids]

    assert asyncio.run(report()) == ["s1", "a1", "a2"]


def test_the_first_of_two_contexts_with_one_id_is_written():
    async def report():
        kept, tasks = RecordingStore(), BackgroundTasks()
        records = writer(kept, tasks)
        for _ in range(2):
            records.write("acme", snapshot(build(pile())))
        await records.add_response("acme", answer("a1"))
        await tasks.drain()
        await records.add_response("acme", answer("a2"))
        return kept.told

    assert asyncio.run(report()) == [["s1", "a1"], ["a2"]]


def test_records_that_come_while_others_are_written_go_together():
    async def report():
        kept, tasks = RecordingStore(), BackgroundTasks()
        kept.may_write.clear()
        records = writer(kept, tasks)
        added = [asyncio.create_task(records.add("acme", answer("a0")))]
        await kept.begun.wait()
        added += [asyncio.create_task(records.add("acme", answer(f"a{number}"))) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        kept.may_write.set()
        await asyncio.gather(*added)
        return kept.told

    assert asyncio.run(report()) == [["a0"], ["a1", "a2", "a3"]]


@pytest.mark.parametrize(
    ("failure", "written"),
    [
        (InvalidValue("id", "is odd"), [["a1", "a2"], ["a1"], ["a2"]]),
        (StoreUnavailable("acme.db", "the disk is full"), [["a1", "a2"]]),
    ],
)
def test_a_record_that_cannot_be_saved_does_not_keep_others_from_being_saved(failure, written, caplog):
    async def report():
        kept, tasks = RecordingStore(a1=failure), BackgroundTasks()
        await writer(kept, tasks).add("acme", answer("a1"), answer("a2"))
        return kept.told

    assert asyncio.run(report()) == written
    assert caplog.text.count("recording a context failed") == 1
