"""Users, personas, rooms and lorebooks, and what belongs to them."""

import asyncio

import psycopg
import pytest

from brimful.errors import InvalidValue
from brimful.packagers import message
from brimful.records import Lorebook, Memory, Persona, Response, Room, Snapshot, User
from brimful.records.search import IndexEntry, TermQuery
from brimful.stores import connect
from brimful.stores.tables.messages import post_messages
from stores.samples import known, make_entry, make_message, occurring, summed, words
from strategies import COUNTER
from support import build

RECORDS = [
    User(id="ada", name="Ada \x00", metadata={"since": 1843}),
    Persona(id="helper", prompt="Be kind.", overrides={"pools.recent.max_items": 7}, lorebooks=("world",)),
    Room(id="general", user="ada", goal="Ship it.", headers=("one", "two"), created=1.5),
    Lorebook(id="world", name="World", settings={"depth": 4}),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_put(store, run, record):
    assert run(store.get(type(record), record.id)) is None
    run(store.put(record))
    assert run(store.get(type(record), record.id)) == record
    run(store.put(type(record)(id=record.id, name="new")))
    assert run(store.get(type(record), record.id)) == type(record)(id=record.id, name="new")
    assert sum(run(store.remove(type(record), record.id)).counts.values()) == 1
    assert not run(store.remove(type(record), record.id))
    assert run(store.get(type(record), record.id)) is None


def test_a_room_is_read_with_its_persona_and_user_or_with_others(store, run):
    assert run(store.participants("general", persona=None, user=None)) == (None, None, None)
    room = Room(id="general", user="ada", persona="helper")
    others = User(id="bo"), Persona(id="critic")
    for record in (room, *RECORDS[:2], *others):
        run(store.put(record))
    assert run(store.participants("general", persona=None, user=None)) == (room, RECORDS[1], RECORDS[0])
    assert run(store.participants("general", persona="critic", user="bo")) == (room, *reversed(others))
    assert run(store.participants("den", persona="critic", user="gone")) == (None, others[1], None)


def test_many_records_are_read_at_once(store, run):
    run(store.load_records([Room(id="a"), Room(id="b", user="ada"), Room(id="a", name="new")], make_entry))
    found = run(store.get_many(Room, ["b", "c", "a"]))
    assert sorted(found, key=lambda room: room.id) == [Room(id="a", name="new"), Room(id="b", user="ada")]
    assert run(store.get_many(User, ["a"])) == []


def test_records_are_listed_by_id(store, run):
    for id in ("b", "C", "a", "ä", "Z", "_"):
        run(store.put(User(id=id)))
    assert [user.id for user in run(store.list_records(User))] == ["C", "Z", "_", "a", "b", "ä"]
    assert [user.id for user in run(store.list_records(User, after="_", limit=2))] == ["a", "b"]
    assert run(store.list_records(Room)) == []


def test_a_user_goes_with_rooms_and_memories(store, run):
    run(store.put(User(id="ada")))
    run(store.put(Room(id="general", user="ada")))
    run(store.post([make_message("m1", "Secret tea"), make_message("m2", "Other talk", room="other")]))
    run(store.save_memories([known("k1", user="ada"), known("k2", "Bob drinks milk", user="bob")]))
    run(store.save_summaries([summed("s1")]))
    report = run(store.remove(User, "ada"))
    assert report.counts == {"users": 1, "rooms": 1, "messages": 1, "memories": 1, "summaries": 1}
    assert run(store.get(Room, "general")) is None
    assert run(store.messages(["m1", "m2"]))[0].id == "m2"
    assert [memory.id for memory in run(store.memories())] == ["k2"]
    assert run(store.summaries("general")) == []
    found = run(occurring(store, ["room:general", "memory::ada:"], ["tea", "drinks"]))
    assert (found.document_frequency, found.documents, found.words) == ((0, 0), 0, 0)


def asked_by(id, user, room, text, **more):
    """Return a context of a user, as the proxy records it in a room of all."""
    turn = message(text, counter=COUNTER, id=f"turn-{id}")
    shared = message("You are helpful.", counter=COUNTER, id="system")
    return Snapshot(id=id, room=room, user=user, context=build([shared, turn]), **more)


def test_a_user_goes_with_their_contexts_and_keys_but_not_with_those_of_others(store, database, run):
    keys = database.api_keys(store.tenant)
    contexts = [asked_by("c1", "ada", "proxy", "ada asks", key="k1"), asked_by("c2", "bob", "proxy", "bob asks")]
    run(store.save_records(contexts))
    run(store.save_response(Response(id="a1", context="c1", room="proxy")))
    run(store.save_response(Response(id="a2", context="c2", room="proxy")))
    for user in ("ada", "bob", None):
        run(keys.create(name="x", scopes=["chat"], at=1.0, user=user))
    run(store.save_memories([known("k1", user="ada", room="den"), known("k2", user="a:da")]))
    totals, by_key = run(store.statistics()), run(store.statistics(by="key"))
    report = run(store.remove(User, "ada"))  # there is no record of her
    assert report.counts == {"memories": 1, "contexts": 1, "answers": 1, "api_keys": 1}
    assert [each.id for each in run(store.builds())] == ["c2"]
    assert [each.id for each in run(store.responses())] == ["a2"]
    assert run(store.snapshot("c2")) == contexts[1]  # also what it shares with the other one
    assert {each.user for each in run(keys.list_keys())} == {"bob", None}
    assert [memory.id for memory in run(store.memories())] == ["k2"]
    assert (run(store.statistics()), run(store.statistics(by="key"))) == (totals, by_key)
    assert [each.key for each in run(store.statistics(by="user"))] == ["bob"]
    assert [each.contexts for each in run(store.statistics(user="ada", since=-1.0, until=1.0))] == [0]
    assert run(database.check()) == []
    assert not run(store.remove(User, "ada"))


@pytest.mark.parametrize("kind", [Room, Persona, Lorebook, User])
def test_without_a_record_nothing_is_removed(store, run, kind):
    report = run(store.remove(kind, "nobody"))
    assert (bool(report), report.counts) == (False, {})


def test_a_removed_room_starts_empty(store, run):
    run(store.post([make_message("m1"), make_message("m2")]))
    before = run(store.scope_version(["room:general"]))
    run(store.remove(Room, "general"))
    assert run(store.post([make_message("m1", "Again")]))[0].seq == 1
    assert run(store.scope_version(["room:general"])) != before
    assert run(occurring(store, ["room:general"], ["hello", "again"])).document_frequency == (0, 1)


def test_a_room_that_is_removed_while_a_message_is_posted_takes_the_message_along(postgres_url, directly, run):
    if not directly(postgres_url).rpartition("host=")[2].startswith("/"):
        pytest.skip("only a server of its own shows who waits for a lock")

    async def story():
        async with connect(directly(postgres_url)) as database:
            store, loop = database.tenant("acme"), asyncio.get_running_loop()
            await store.post([make_message("first")])
            posted, go = asyncio.Event(), asyncio.Event()

            def post_slowly(session):
                post_messages(session, [make_message("last")])
                loop.call_soon_threadsafe(posted.set)
                asyncio.run_coroutine_threadsafe(go.wait(), loop).result(120)

            posting = asyncio.create_task(database.driver.write("acme", post_slowly))
            await posted.wait()
            removing = asyncio.create_task(store.remove(Room, "general"))
            with psycopg.connect(directly(postgres_url), autocommit=True) as other:
                while not other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0)
            go.set()
            await asyncio.gather(posting, removing)
            return await store.messages(["first", "last"]), await database.check()

    assert run(story()) == ([], [])


def test_a_removed_room_takes_what_only_its_contexts_saw_along(store, database, run):
    """A message that was deleted before, and a question that was asked and never posted."""
    run(store.post([make_message("m1", "a secret that was deleted"), make_message("m2", "and one that stands")]))
    turn = message("a question that nobody posted", counter=COUNTER, id="now")
    seen = message("a secret that was deleted", counter=COUNTER, id="m1")
    run(store.save_context(Snapshot(id="c1", room="general", context=build([turn, seen]))))
    run(store.delete("m1"))
    assert run(store.remove(Room, "general")).counts == {"rooms": 1, "messages": 2, "contexts": 1}
    assert run(database.check()) == []


def test_a_persona_and_a_lorebook_go_with_what_is_theirs(store, run):
    run(store.put(Persona(id="helper")))
    run(store.save_memories([known("k1", persona="helper"), known("k2")]))
    run(store.save_lore([make_entry("e1"), make_entry("e2", lorebook="other")]))
    assert run(store.get(Lorebook, "world")) == Lorebook(id="world")
    assert run(store.remove(Persona, "helper")).counts == {"personas": 1, "memories": 1}
    assert run(store.remove(Lorebook, "world")).counts == {"lorebooks": 1, "lore_entries": 1}
    assert [memory.id for memory in run(store.memories())] == ["k2"]
    assert [entry.id for entry in run(store.lore(["world", "other"]))] == ["e2"]


def test_deleted_content_that_no_context_uses_is_erased_from_disk(store, database, run):
    run(store.post([make_message("m1", "said"), make_message("m2", "said, too")]))
    run(store.save_memories([known("k1", "remembered")]))
    run(store.put(Lorebook(id="world")))
    run(store.save_lore([make_entry("e1", "told")]))
    run(store.save_summaries([summed("s1", "summed up")]))
    taken = [store.delete("m1"), store.remove_memory("k1"), store.remove_lore("e1"), store.remove_summary("s1")]
    assert [run(each) for each in taken] == [True] * 4
    assert run(database.check()) == []


def test_a_name_has_no_null_character(store, database, run):
    with pytest.raises(InvalidValue, match="id: must not contain a null character"):
        run(store.get(User, "a\x00"))
    with pytest.raises(InvalidValue, match="tenant: must not contain a null character"):
        database.tenant("a\x00")
    with pytest.raises(InvalidValue, match="tenant: must not be empty"):
        database.tenant("")


NULL = "a\x00"
NAMED = {
    "edit": lambda store: store.edit(NULL, "new", IndexEntry(), at=1.0),
    "delete": lambda store: store.delete(NULL),
    "hide": lambda store: store.hide([NULL]),
    "messages": lambda store: store.messages([NULL]),
    "messages_at": lambda store: store.messages_at(NULL, [1]),
    "history": lambda store: store.history(NULL),
    "memories by id": lambda store: store.memories(ids=["k1", NULL]),
    "memories by scope": lambda store: store.memories(scopes=[NULL]),
    "memories by type": lambda store: store.memories(types=[NULL]),
    "pin": lambda store: store.pin(NULL),
    "remove_memory": lambda store: store.remove_memory(NULL),
    "record_access": lambda store: store.record_access([NULL], at=1.0),
    "lore": lambda store: store.lore([NULL]),
    "lore by id": lambda store: store.lore(ids=[NULL]),
    "remove_lore": lambda store: store.remove_lore(NULL),
    "summaries": lambda store: store.summaries(NULL),
    "summaries by id": lambda store: store.summaries(ids=[NULL]),
    "remove_summary": lambda store: store.remove_summary(NULL),
    "scope_version": lambda store: store.scope_version([NULL]),
    "find_postings": lambda store: store.find_postings([TermQuery(scopes=(NULL,), terms=("tea",))]),
    "use_embedder": lambda store: store.use_embedder(NULL),
    "index_progress": lambda store: store.index_progress(NULL),
    "rooms_of": lambda store: store.rooms_of(NULL),
}


def test_a_null_character_is_refused_by_name_wherever_a_name_is_taken(store, run, subtests):
    """PostgreSQL keeps none, and SQLite would: what one of them refuses, both do, and in the same words."""
    for method, call in NAMED.items():
        with (
            subtests.test(method),
            pytest.raises(InvalidValue, match=r"^\w+: must not contain a null character"),
        ):
            run(call(store))


def test_a_name_with_half_a_surrogate_pair_is_refused(store, run):
    with pytest.raises(InvalidValue, match="lone surrogate"):
        run(store.get(User, "a\ud800"))


def test_counts_are_kept_by_tokenizer(store, run):
    run(store.save_counts("t1", {"b2:a": 3, "b2:b": 4}))
    run(store.save_counts("t1", {"b2:a": 5}))
    run(store.save_counts("t2", {"b2:a": 6}))
    assert run(store.counts("t1", ["b2:a", "b2:c", "b2:b"])) == {"b2:a": 5, "b2:b": 4}
    assert run(store.counts("t2", ["b2:a", "b2:b"])) == {"b2:a": 6}
    assert run(store.counts("t3", [])) == {}


def test_an_empty_call_writes_nothing(store, run):
    assert run(store.post([])) == []
    run(store.save_memories([]))
    run(store.save_lore([]))
    run(store.save_summaries([]))
    run(store.save_counts("t", {}))
    run(store.record_access([], at=1.0))
    assert run(store.memories()) == []
    assert words("").terms == ()


@pytest.mark.parametrize("wrong", [None, 7, "ada", {"id": "ada"}, object()])
def test_other_values_than_records_are_refused(store, run, wrong):
    with pytest.raises(InvalidValue, match="record: must be one of User, Persona, Room, Lorebook, not"):
        run(store.put(wrong))
    with pytest.raises(InvalidValue, match="kind: must be one of"):
        run(store.get(wrong, "ada"))
    with pytest.raises(InvalidValue, match="kind: must be one of"):
        run(store.list_records(Memory))


def test_a_number_that_no_database_holds_is_refused(store, run):
    with pytest.raises(InvalidValue, match="id: one beyond"):
        run(store.delete(10**30))
