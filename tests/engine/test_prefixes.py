"""Where the last context began: told by its line in the log, and by its record where the line does not say."""

import asyncio

import msgspec
import pytest

from brimful.engine.engine import Engine
from brimful.engine.prompt_cache import PrefixTracker, make_conversation


class Watched:
    """A store whose records are not to be read, or whose lines are of an older version."""

    def __init__(self, store, *, older):
        self._store = store
        self._older = older
        self.read = 0

    async def builds(self, **asked):
        found = await self._store.builds(**asked)
        return [msgspec.structs.replace(each, rules="") for each in found] if self._older else found

    async def snapshot(self, id):
        self.read += 1
        return await self._store.snapshot(id)


@pytest.mark.parametrize(("older", "read"), [(False, 0), (True, 1)])
def test_the_line_of_a_build_tells_where_it_began_and_no_record_is_read_for_it(tmp_path, older, read):
    async def story():
        async with Engine(f"sqlite:///{tmp_path}/x.db", model="gpt-4o", embedder="none") as engine:
            for number in range(30):
                await engine.post(room="den", text=f"Turn {number}: the kettle sings.", at=number)
            context = await engine.assemble(room="den", message="Tea?", window=600, completion=100, now=99.0)
            watched = Watched(engine.store, older=older)
            meant = make_conversation("den", None, context.inputs.policy, context.budget)
            found = await PrefixTracker(watched).last(meant)
            other = msgspec.structs.replace(meant, rules="another policy of that name")
            return context.history, found, await PrefixTracker(watched).last(other), watched.read

    began, found, other, times = asyncio.run(story())
    assert found == began
    assert began is not None
    assert other is None
    assert times == 2 * read
