"""Records of `fit` mode: a context waits briefly for its answer."""

import asyncio

from brimful.records import Response
from brimful.server.background import BackgroundTasks
from brimful.server.proxy.fit_mode import RecordWriter
from stores.test_log import answer
from stores.test_snapshots import pile, snapshot
from support import build


class Kept:
    """A store that notes what it is told to write, at once or when it may."""

    def __init__(self):
        self.told = []
        self.begun = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()

    def store(self, tenant):
        assert tenant == "acme"
        return self

    async def save_context(self, snapshot, response=None):
        self.told.append((snapshot.id, response and response.id))
        self.begun.set()
        await self.may_write.wait()

    async def save_response(self, response: Response):
        self.told.append(response.id)


def test_an_early_answer_is_written_with_its_context():
    async def told():
        kept, tasks = Kept(), BackgroundTasks()
        records = RecordWriter(kept, tasks, wait=60.0)
        records.write("acme", snapshot(build(pile())))
        await asyncio.sleep(0)
        assert kept.told == []
        await records.add_response("acme", answer("a1"))
        await tasks.drain()
        return kept.told

    assert asyncio.run(told()) == [("s1", "a1")]


def test_a_late_answer_is_written_after_its_context():
    async def told():
        kept, tasks = Kept(), BackgroundTasks()
        kept.may_write.clear()
        records = RecordWriter(kept, tasks, wait=0.0)
        records.write("acme", snapshot(build(pile())))
        await kept.begun.wait()
        late = asyncio.create_task(records.add_response("acme", answer("a1")))
        await asyncio.sleep(0)
        assert kept.told == [("s1", None)]
        kept.may_write.set()
        await late
        await records.add_response("acme", answer("a2"))
        return kept.told

    assert asyncio.run(told()) == [("s1", None), "a1", "a2"]


def test_of_two_contexts_with_one_id_the_first_is_written():
    async def told():
        kept, tasks = Kept(), BackgroundTasks()
        records = RecordWriter(kept, tasks, wait=60.0)
        for _ in range(2):
            records.write("acme", snapshot(build(pile())))
        await records.add_response("acme", answer("a1"))
        await records.add_response("acme", answer("a2"))
        await tasks.drain()
        return kept.told

    assert asyncio.run(told()) == [("s1", "a1"), "a2"]
