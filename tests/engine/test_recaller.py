"""What an engine recalls, and for whom."""

import msgspec
import pytest

from brimful.errors import ContentErased, InvalidValue, UnknownRecord
from brimful.records import Message, Room, Summary
from brimful.stores import Keys

NOW = 1_794_000_000.0
TRACE = "\n".join(f"  File app.py, line {n}, in step_{n}" for n in range(400))


@pytest.fixture
def story(run, new_engine):
    """Return a function that fills a room of Ada's, builds a context in it, and then tells what a test does with it."""

    def tell(part, **settings):
        async def whole():
            async with new_engine(model="gpt-4o", **settings) as engine:
                await engine.put(Room(id="hall", user="ada", persona="nova"))
                messages = [
                    Message(
                        id=f"msg-{day:026}",
                        room="hall",
                        sender="Ada",
                        content=f"The ladder of day {day} is blue.",
                        at=NOW - 800 + day,
                    )
                    for day in range(40)
                ]
                messages[37] = msgspec.structs.replace(messages[37], id="trace", content=TRACE)
                await engine.post_many(messages)
                await engine.post(room="attic", sender="Bob", text="The secret ladder is red.", id="other", at=NOW)
                await engine.post(room="hall", text="A hidden ladder.", id="hidden", hidden=True, at=NOW - 700)
                await engine.post(room="hall", text="An old ladder.", id="replaced", role="assistant", at=NOW - 700)
                await engine.supersede(["replaced"])
                await engine.remember("Ada keeps bees.", id="bees", user="ada", at=NOW - 10)
                await engine.remember("Bob keeps wasps.", id="wasps", user="bob", at=NOW - 10)
                context = await engine.assemble(
                    room="hall", message="Hello?", window=700, completion=100, now=NOW, policy="window"
                )
                return await part(engine, context)

        return run(whole())

    return tell


def test_dropped_items_are_recalled_from_the_stored_record(story):
    async def part(engine, context):
        assert context.decision("trace").outcome != "kept"
        by_handle = await engine.recall(context.handle("trace"), context=context.id, max_tokens=20_000)
        assert by_handle == context.recall("trace", max_tokens=20_000)
        assert by_handle.text == TRACE
        short = await engine.recall("trace", context=context, query="step_211", max_tokens=100)
        assert "step_211" in short.text
        assert short.tokens <= 100
        return True

    assert story(part)


def test_messages_that_were_no_candidates_are_recalled_from_the_store(story):
    async def part(engine, context):
        assert "bees" not in context.decisions_by_id
        memory = await engine.recall("bees", context=context)
        assert (memory.text, memory.form, memory.outcome) == ("Ada keeps bees.", None, None)
        assert (await engine.recall("replaced", context=context)).text == "An old ladder."
        assert (await engine.recall("memory/bees", room="hall")).text == "Ada keeps bees."
        summary = Summary(id="sum", room="hall", content="Ladders came.", cluster="day")
        await engine.write_summaries([summary])
        assert (await engine.recall("sum", room="hall")).text == "Ladders came."
        return True

    assert story(part)


@pytest.mark.parametrize("handle", ["other", "hidden", "wasps", "nothing"])
def test_nothing_is_recalled_that_room_persona_and_user_may_not_see(story, handle):
    async def part(engine, context):
        with pytest.raises(UnknownRecord, match=f"no handle '{handle}'"):
            await engine.recall(handle, context=context)
        with pytest.raises(UnknownRecord, match=f"no handle '{handle}'"):
            await engine.recall(handle, room="hall")
        found = await engine.recall(query="secret red ladder, wasps, hidden", context=context, max_tokens=5_000)
        texts = [passage.text for passage in found.passages]
        assert texts
        assert not any(word in text for text in texts for word in ("secret", "wasps", "hidden"))
        return True

    assert story(part)


def test_another_tenant_recalls_nothing(story, new_engine):
    async def part(_, context):
        async with new_engine(tenant="rival", model="gpt-4o") as rival:
            with pytest.raises(UnknownRecord, match="no context"):
                await rival.recall("trace", context=context.id)
            with pytest.raises(UnknownRecord, match="no room 'hall'"):
                await rival.recall("trace", room="hall")
        return True

    assert story(part)


def test_a_context_is_searched_on_behalf_of_its_own_user(story):
    async def part(engine, _):
        options = {"room": "hall", "message": "Hi.", "now": NOW, "window": 700, "completion": 100, "policy": "window"}
        bobs = await engine.assemble(**options, user="bob")
        assert (await engine.recall("wasps", context=bobs)).text == "Bob keeps wasps."
        with pytest.raises(UnknownRecord):
            await engine.recall("bees", context=bobs)
        assert (await engine.store.snapshot(bobs.id)).user == (await engine.store.build(bobs.id)).user == "bob"
        return True

    assert story(part)


def test_a_handle_of_an_earlier_context_of_the_room_is_known(story):
    async def part(engine, context):
        long = next(each.id for each in context.decisions if each.id.startswith("msg-"))
        handle = context.handle(long)
        assert handle != long
        assert (await engine.recall(handle, room="hall")).text == context.recall(handle).text
        for other in ({"user": "bob"}, {"persona": "else"}):
            with pytest.raises(UnknownRecord):
                await engine.recall(handle, room="hall", **other)
        return True

    assert story(part)


def test_a_query_searches_what_was_left_out_and_the_store(story):
    async def part(engine, context):
        await engine.wait_indexed()
        found = await engine.recall(query="the ladder of day 3", context=context, max_tokens=300)
        assert found.passages[0].text == "The ladder of day 3 is blue."
        assert found.tokens <= 300
        bees = await engine.recall(query="bees", context=context)
        assert [passage.handle for passage in bees.passages] == ["bees"]
        alone = await engine.recall(query="the ladder of day 39", room="hall", max_tokens=300)
        assert alone.passages[0].text == "The ladder of day 39 is blue."
        shown = {item.package.text for item in context.items.values() if item.is_shown}
        assert not shown & {passage.text for passage in found.passages}
        return True

    assert story(part)


def test_recalling_a_deleted_message_says_so(story):
    async def part(engine, context):
        erased = next(each.id for each in context.decisions if each.id.startswith("msg-"))
        await engine.delete("trace")
        await engine.delete(erased, erase=True)
        for options in ({"context": context}, {"room": "hall"}):
            with pytest.raises(ContentErased, match=r"the content of message\S* 'trace' was deleted"):
                await engine.recall("trace", **options)
        with pytest.raises(ContentErased):
            await engine.recall(erased, context=context)
        found = await engine.recall(query="step_211 ladder", context=context, max_tokens=5_000)
        assert not {"trace", erased} & {passage.id for passage in found.passages}
        assert found.passages
        await engine.forget("bees")
        with pytest.raises(UnknownRecord):
            await engine.recall("bees", context=context)
        return True

    assert story(part)


def test_a_memory_that_was_removed_since_is_not_recalled_from_a_context(run, new_engine):
    async def whole():
        async with new_engine(model="gpt-4o") as engine:
            await engine.remember("Ada keeps bees.", id="bees", pinned=True, at=NOW)
            context = await engine.assemble(room="hall", message="Hello?", now=NOW)
            assert (await engine.recall("bees", context=context)).text == "Ada keeps bees."
            await engine.forget("bees")
            with pytest.raises(ContentErased, match="memory-semantic 'bees'"):
                await engine.recall("bees", context=context)

    run(whole())


def test_a_pruned_context_is_unknown_and_its_room_still_recalls(story, clock):
    async def part(engine, context):
        await engine.store.prune(before=clock.now + 10 * 86_400)
        with pytest.raises(UnknownRecord, match="no context"):
            await engine.recall("trace", context=context)
        assert (await engine.recall("trace", room="hall", max_tokens=20_000)).text == TRACE
        return True

    assert story(part)


@pytest.mark.parametrize(
    ("options", "match"),
    [({"handle": "x"}, "context: pass a context, or a room"), ({"room": "hall"}, "handle: pass a handle, or a query")],
)
def test_bad_arguments_are_named(story, options, match):
    async def part(engine, _):
        with pytest.raises(InvalidValue, match=match):
            await engine.recall(**options)
        return True

    assert story(part)


def test_an_encrypted_record_recalls_the_same(story):
    async def part(engine, context):
        recalled = await engine.recall("trace", context=context, max_tokens=20_000)
        assert recalled.text == TRACE
        assert (await engine.store.snapshot(context.id)).user == "ada"
        return True

    assert story(part, keys=Keys(bytes(range(32))))


def test_candidates_of_the_same_meaning_are_found(run, new_engine):
    """A candidate that shares no word with the query is found if search in the store finds it."""

    async def whole():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="hall", text="The automobile needs a new engine. " * 60, id="car", at=NOW - 9)
            await engine.wait_indexed()
            context = await engine.assemble(room="hall", message="Hello?", now=NOW, window=300, completion=100)
            assert not context.items["car"].is_shown
            found = await engine.recall(query="vehicle repair", context=context)
            assert [passage.id for passage in found.passages] == ["car"]

    run(whole())
