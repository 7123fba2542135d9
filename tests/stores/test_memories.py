"""Memories, lore and summaries."""

import msgspec
import pytest

from brimful.errors import InvalidValue
from brimful.records import LoreEntry, Memory, Summary
from stores.samples import known, make_entry, make_message, occurring, summed, words


def ids(records):
    return [record.id for record in records]


def test_a_memory_comes_back_as_it_was(store, run):
    memory = Memory(
        id="k1",
        content="Ada \x00 drinks tea.",
        type="episodic",
        persona="helper",
        user="ada",
        room="general",
        importance=0.25,
        source="chat \x00",
        source_message="m1",
        cluster="drinks",
        summary=True,
        at=3.5,
        edited=3.75,
        pinned=True,
        accesses=2,
        accessed=4.5,
        ended=4.75,
        metadata={"why": ["said so"]},
    )
    run(store.save_memories([(memory, known("k1")[1])]))
    assert run(store.memories()) == [memory]


def test_a_memory_written_again_keeps_its_accesses(store, run):
    run(store.save_memories([known("k1")]))
    run(store.record_access(["k1", "k1", "nobody"], at=5.0))
    run(store.record_access(["k1"], at=6.0))
    run(store.save_memories([known("k1", "Ada drinks coffee", at=7.0)]))
    (memory,) = run(store.memories())
    assert (memory.content, memory.accesses, memory.accessed, memory.at) == ("Ada drinks coffee", 2, 6.0, 7.0)
    assert run(occurring(store, ["memory:::"], ["tea", "coffee", "drinks"])).document_frequency == (0, 1, 1)


def test_an_archived_memory_is_stored_but_in_no_search(store, run):
    run(store.save_memories([known("k1", archived=True, ended=2.0), known("k2")]))
    assert ids(run(store.memories())) == ["k2"]
    (archived,) = run(store.memories(archived=True))
    assert (archived.id, archived.archived, archived.ended) == ("k1", True, 2.0)
    assert run(occurring(store, ["memory:::"], ["tea"])).document_frequency == (1,)
    run(store.save_memories([known("k1")]))
    assert run(occurring(store, ["memory:::"], ["tea"])).document_frequency == (2,)
    assert run(store.memories(archived=True)) == []


def test_the_last_of_an_id_in_one_call_stands(store, run):
    run(store.save_memories([known("k1", "one"), known("k1", "two")]))
    assert run(store.memories())[0].content == "two"
    assert run(occurring(store, ["memory:::"], ["one", "two"])).document_frequency == (0, 1)


def test_summaries_and_pinned_memories_are_read_together(store, run):
    run(store.save_memories([known(id, at=float(at), pinned=id != "b") for at, id in enumerate("abcd")]))
    run(store.save_memories([known("e", user="ada", pinned=True)]))
    run(store.save_summaries([summed("s1", "one"), summed("s2", "two")]))
    contents = run(read_room(store, "general", memories=["memory:::"]))
    assert (contents.summaries, ids(contents.pinned)) == (run(store.summaries("general")), ["d", "c"])
    assert len(contents.summaries) == 2
    empty = run(read_room(store, "den", memories=()))
    assert (empty.summaries, empty.pinned, empty.newest, empty.versions) == ([], [], [], {})


def test_messages_and_versions_of_scopes_are_read_with_them(store, run):
    run(store.save_memories([known("k1", "one")]))
    run(store.post([make_message(f"m{n}") for n in range(3)]))
    scopes = ["memory:::", "memory::ada:", "room:general"]
    contents = run(read_room(store, "general", memories=["memory:::"], scopes=scopes))
    assert contents.newest == run(store.history("general", limit=2))
    assert set(contents.versions) == {"memory:::", "room:general"}
    assert " ".join(contents.versions.values()) == run(store.scope_version(scopes))


def read_room(store, room, *, memories, scopes=()):
    return store.room_contents(room, memories=memories, max_pinned=2, limit=2, tokenizer="", counter="", scopes=scopes)


def test_memories_match_all_filters(store, run):
    run(
        store.save_memories(
            [
                known("a", at=1.0),
                known("b", user="ada", at=2.0, pinned=True),
                known("c", user="bob", at=3.0, type="episodic"),
                known("d", persona="helper", user="ada", at=4.0, type="procedural"),
                known("s", room="den", at=0.5, cluster="tea", summary=True),
            ]
        )
    )
    assert ids(run(store.memories())) == ["d", "c", "b", "a", "s"]
    assert ids(run(store.memories(summary=True))) == ["s"]
    assert ids(run(store.memories(summary=False, pinned=True))) == ["b"]
    assert ids(run(store.memories(scopes=["memory:::", "memory::ada:"]))) == ["b", "a"]
    assert ids(run(store.memories(scopes=["memory:helper:ada:"]))) == ["d"]
    assert ids(run(store.memories(scopes=[]))) == []
    assert ids(run(store.memories(ids=["a", "d", "x"]))) == ["d", "a"]
    assert ids(run(store.memories(types=["episodic", "procedural"]))) == ["d", "c"]
    assert ids(run(store.memories(pinned=True))) == ["b"]
    assert ids(run(store.memories(pinned=False, before=4.0))) == ["c", "a", "s"]
    assert ids(run(store.memories(limit=2))) == ["d", "c"]


def test_pages_of_memories_part_those_of_one_time_by_their_ids(store, run):
    run(
        store.save_memories(
            [known(id, at=at) for id, at in (("a", 1.0), ("b", 2.0), ("c", 2.0), ("d", 2.0), ("e", 3.0))]
        )
    )
    assert ids(run(store.memories(before=2.0))) == ["a"]
    assert ids(run(store.memories(before=2.0, after="b"))) == ["c", "d", "a"]
    assert ids(run(store.memories(before=2.0, after="d", pinned=False))) == ["a"]


def test_memories_are_found_by_owner_and_by_prefix(store, run):
    memories = [
        known("langgraph/users/ada/1", user="users/ada/", at=1.0),
        known("langgraph/users/ada/2", user="users/ada/notes/", persona="helper", at=2.0),
        known("langgraph/users/adam/1", user="users/adam/", room="den", at=3.0),
        known("langgraph/shared", at=4.0),
        known("langgraph0", user="users0", at=5.0),
    ]
    run(store.save_memories(memories))
    assert ids(run(store.memories(prefix="langgraph/users/ada/"))) == ["langgraph/users/ada/2", "langgraph/users/ada/1"]
    assert len(run(store.memories(prefix="langgraph/"))) == 4
    assert len(run(store.memories(prefix="langgraph"))) == 5
    assert ids(run(store.memories(user_prefix="users/ada/"))) == ["langgraph/users/ada/2", "langgraph/users/ada/1"]
    assert len(run(store.memories(user_prefix="users/"))) == 3
    assert ids(run(store.memories(user="users/ada/"))) == ["langgraph/users/ada/1"]
    assert ids(run(store.memories(persona="helper"))) == ["langgraph/users/ada/2"]
    assert ids(run(store.memories(room="den", user_prefix="users/"))) == ["langgraph/users/adam/1"]
    assert run(store.memory_users()) == ["users/ada/", "users/ada/notes/", "users/adam/", "users0"]
    assert run(store.memory_users(prefix="users/", after="users/ada/", limit=1)) == ["users/ada/notes/"]
    assert run(store.memory_scopes("memory::users/ada", limit=9)) == ["memory::users/ada/:", "memory::users/adam/:den"]
    assert run(store.count_memories(user_prefix="users/")) == 3


def test_memories_are_found_by_their_metadata(store, run):
    values = [{"n": 1}, {"n": 1.0, "tags": ["a"]}, {"n": True}, {"n": "1"}, {"n": None}, {}]
    run(store.save_memories([known(f"k{at}", at=-at, metadata=value) for at, value in enumerate(values)]))
    assert ids(run(store.memories(metadata={"n": 1}))) == ["k0", "k1"]
    assert ids(run(store.memories(metadata={"n": True}))) == ["k2"]
    assert ids(run(store.memories(metadata={"n": None}))) == ["k4"]
    assert ids(run(store.memories(metadata={"n": 1, "tags": ["a"]}))) == ["k1"]
    assert ids(run(store.memories(metadata={"n": 1}, limit=1))) == ["k0"]
    assert ids(run(store.memories(metadata={"n": 1}, before=0.0, after="k0"))) == ["k1"]
    assert run(store.count_memories(metadata={"n": 1})) == 2
    assert run(store.count_memories(metadata={})) == len(values)


def test_a_metadata_filter_reads_on_until_enough_match(store, run):
    memories = [known(f"k{at:04}", at=-(at // 7), metadata={"last": at > 1000}) for at in range(1005)]
    run(store.save_memories(memories))
    assert ids(run(store.memories(metadata={"last": True}, limit=3))) == ["k1001", "k1002", "k1003"]


def test_memories_are_removed_by_filter(store, run):
    run(store.save_memories([known(f"k{at}", user="ada" if at % 2 else "bob", metadata={"at": at}) for at in range(6)]))
    assert run(store.remove_memories(user="ada", metadata={"at": 1})) == 1
    assert run(store.remove_memories(user="ada")) == 2
    assert ids(run(store.memories())) == ["k0", "k2", "k4"]
    for nothing in ({}, {"user": None, "prefix": ""}, {"types": ()}, {"types": []}, {"metadata": {}}):
        with pytest.raises(InvalidValue, match="without one, every memory would be removed"):
            run(store.remove_memories(**nothing))
    assert run(store.remove_memories(ids=[])) == 0
    assert run(store.count_memories()) == 3


def test_a_memory_is_updated_in_place(store, run):
    run(store.save_memories([known("k1", user="ada", metadata={"a": 1})]))
    run(store.record_access(["k1"], at=5.0))
    changes = {"content": "Ada drinks coffee", "edited": 8.0}
    changed = run(store.update_memory("k1", changes, lambda memory: words(memory.content)))
    assert run(store.memories(ids=["k1"])) == [changed]
    assert (changed.content, changed.edited, changed.metadata, changed.accesses) == (
        "Ada drinks coffee",
        8.0,
        {"a": 1},
        1,
    )
    assert run(occurring(store, ["memory::ada:"], ["tea", "coffee"])).document_frequency == (0, 1)
    assert run(store.update_memory("k2", changes, lambda memory: words(memory.content))) is None


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"users": "ada"}, "users"),
        ({"user": 7}, "user"),
        ({"prefix": ["k"]}, "prefix"),
        ({"ids": "k1"}, "ids"),
        ({"types": 7}, "types"),
        ({"metadata": "n=1"}, "metadata"),
        ({"pinned": "yes"}, "pinned"),
    ],
)
def test_a_wrong_filter_is_named(store, run, filters, field):
    for call in (store.memories, store.count_memories, store.remove_memories):
        with pytest.raises(InvalidValue) as caught:
            run(call(**filters))
        assert caught.value.field == field


def test_a_memory_is_pinned_let_go_and_forgotten(store, run):
    run(store.save_memories([known("k1")]))
    assert run(store.pin("k1")) is True
    assert run(store.memories(pinned=True))[0].pinned is True
    assert run(store.pin("k1", pinned=False)) is True
    assert run(store.pin("nobody")) is False
    assert run(store.remove_memory("k1")) is True
    assert run(store.remove_memory("k1")) is False
    assert run(store.memories()) == []
    assert run(occurring(store, ["memory:::"], ["tea"])).document_frequency == (0,)


def test_a_memory_that_changes_hands_is_found_by_its_new_owner_alone(store, run):
    run(store.save_memories([known("k1", user="ada")]))
    run(store.save_memories([known("k1", user="bob")]))
    assert run(occurring(store, ["memory::ada:"], ["tea"])).documents == 0
    assert run(occurring(store, ["memory::bob:"], ["tea"])).document_frequency == (1,)


def test_lore_comes_back_in_its_order(store, run):
    entry = LoreEntry(
        id="e1",
        lorebook="world",
        content="The tower \x00 is old.",
        name="Tower",
        keys=("tower", "old"),
        constant=True,
        enabled=False,
        order=7,
        importance=1.0,
        settings={"depth": 2},
    )
    run(store.save_lore([(entry, make_entry("e1")[1]), make_entry("e2", order=3), make_entry("e3", lorebook="other")]))
    assert run(store.lore(["world"]))[1] == entry
    assert ids(run(store.lore(["world"]))) == ["e2", "e1"]
    assert ids(run(store.lore(ids=["e3", "e1"]))) == ["e3", "e1"]
    assert ids(run(store.lore([]))) == []
    run(store.save_lore([make_entry("e1", "The tower fell")]))
    assert run(store.lore(ids=["e1"]))[0].content == "The tower fell"
    assert run(store.remove_lore("e1")) is True
    assert run(store.remove_lore("e1")) is False


def test_summaries_come_newest_first(store, run):
    summary = Summary(
        id="s1", room="general", content="Tea \x00", cluster="c", first=1, last=9, covers=("m1", "m2"), at=2.0
    )
    run(store.save_summaries([(summary, summed("s1")[1]), summed("s2", at=3.0), summed("s3", room="other")]))
    assert run(store.summaries("general"))[1] == summary
    assert ids(run(store.summaries("general"))) == ["s2", "s1"]
    assert ids(run(store.summaries(ids=["s3", "s1"]))) == ["s1", "s3"]
    run(store.save_summaries([(msgspec.structs.replace(summary, at=4.0), summed("s1")[1])]))
    assert ids(run(store.summaries("general"))) == ["s1", "s2"]
    assert run(store.remove_summary("s1")) is True
    assert run(store.remove_summary("s1")) is False


@pytest.mark.parametrize("wrong", [None, 1, "yes"])
def test_pinned_is_true_or_false(store, run, wrong):
    run(store.save_memories([known("k1")]))
    with pytest.raises(InvalidValue, match="pinned: must be true or false"):
        run(store.pin("k1", pinned=wrong))
