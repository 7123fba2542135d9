"""Where history started in the last context, as recorded in the log."""

import asyncio

import msgspec

from brimful.engine.engine import Engine
from brimful.engine.prompt_cache import PrefixTracker, make_conversation


class BuildsOnly:
    """A store that lists builds and reads no snapshots."""

    def __init__(self, store):
        self.builds = store.builds


def test_the_start_of_history_is_read_without_the_full_record(tmp_path):
    async def story():
        async with Engine(f"sqlite:///{tmp_path}/x.db", model="gpt-4o", embedder="none") as engine:
            for number in range(30):
                await engine.post(room="den", text=f"Turn {number}: the kettle sings.", at=number)
            context = await engine.assemble(room="den", message="Tea?", window=600, completion=100, now=99.0)
            store = BuildsOnly(engine.store)
            expected = make_conversation("den", None, context.inputs.policy, context.budget)
            found = await PrefixTracker(store).last(expected)
            other = msgspec.structs.replace(expected, rules="another policy of that name")
            return context.history, found, await PrefixTracker(store).last(other)

    began, found, other = asyncio.run(story())
    assert found == began
    assert began is not None
    assert other is None
