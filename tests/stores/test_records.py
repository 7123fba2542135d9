"""Records of builds are small: candidates are packed by column, and found again without a row for each."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidRecord
from brimful.packagers import memory, message
from brimful.records import Room, Snapshot
from brimful.stores.log.columns import pack, unpack, unpack_rows
from stores.samples import make_message
from stores.test_migrations import rows
from strategies import COUNTER, NOW
from support import build

NUMBERS = st.integers(-(2**62), 2**62)  # their differences have 64 bits
SCALARS = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=5)


def stored(value):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@given(st.lists(VALUES) | st.lists(NUMBERS) | st.lists(st.floats(allow_nan=False)))
def test_a_column_comes_back(values):
    assert repr(unpack(stored(pack(values)))) == repr(values)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES)))
def test_dictionaries_come_back_with_their_keys_in_order(values):
    assert repr(unpack(stored(pack(values)))) == repr(values)


@pytest.mark.parametrize(
    "column", [["deltas", [1, "a"], b""], ["raw", [], b"\1"], ["rows", [], b""], ["mixed", 7, b""]]
)
def test_a_damaged_column_is_an_error(column):
    with pytest.raises(InvalidRecord, match="its record is damaged"):
        unpack(column)
    with pytest.raises(InvalidRecord, match="a column has 1 values, not 2"):
        unpack_rows({"a": pack([7])}, 2)


def talk(room, texts, **more):
    """Return candidates that are messages of a room."""
    return [
        message(f"{room}: {text}", counter=COUNTER, id=f"{room}-{at}", timestamp=NOW - 9 + at, **more)
        for at, text in enumerate(texts)
    ]


def question(id="now"):
    return message("What does Ada drink?", counter=COUNTER, id=id, current=True, timestamp=NOW)


def saved(id, room, packages, at=7.0, **options):
    return Snapshot(id=id, room=room, context=build(packages, **options), at=at)


TEXTS = ["Ada is here.", "Hello!", "She drinks tea."]


def posted(room):
    return [make_message(f"{room}-{at}", f"{room}: {text}", room=room) for at, text in enumerate(TEXTS)]


def test_messages_of_the_room_need_no_rows_and_other_items_one_a_room(store, run, url):
    run(store.post([*posted("r1"), *posted("r2")]))
    tea = memory("Ada drinks tea.", counter=COUNTER, id="tea", timestamp=NOW - 50)
    for number in range(3):
        run(store.save_context(saved(f"s{number}", "r1", [tea, *talk("r1", TEXTS), question()], at=float(number))))
    run(store.save_context(saved("s3", "r2", [tea, *talk("r2", TEXTS), *talk("r1", TEXTS[:1]), question()], at=9.0)))
    sql = "SELECT item, room FROM context_items ORDER BY item, room"
    assert rows(url, sql) == [("now", "r1"), ("now", "r2"), ("r1-0", "r2"), ("tea", "r1"), ("tea", "r2")]
    assert [each.snapshot for each in run(store.inclusions(item="tea"))] == ["s3", "s2", "s1", "s0"]
    assert [each.snapshot for each in run(store.inclusions(item="r1-0"))] == ["s3", "s2", "s1", "s0"]
    assert [each.snapshot for each in run(store.inclusions(item="r2-0"))] == ["s3"]
    assert [each.snapshot for each in run(store.inclusions(item="tea", snapshot="s1"))] == ["s1"]
    assert {each.item for each in run(store.inclusions(snapshot="s0"))} == {"tea", "r1-0", "r1-1", "r1-2", "now"}
    run(store.delete("r1-0", erase=True))
    for number in range(4):
        found = run(store.snapshot(f"s{number}")).context
        assert b"r1: Ada is here" not in found.to_json()
        assert b"She drinks tea" in found.to_json()
    run(store.remove(Room, "r2"))
    assert rows(url, sql) == [("now", "r1"), ("tea", "r1")]
    assert [each.snapshot for each in run(store.inclusions(item="r1-0"))] == ["s2", "s1", "s0"]


def test_items_of_pruned_contexts_are_forgotten(store, run, url):
    run(store.put(Room(id="r1")))
    tea = memory("Ada drinks tea.", counter=COUNTER, id="tea", timestamp=NOW - 50)
    run(store.save_context(saved("s1", "r1", [tea, question()], at=7.0)))
    run(store.save_context(saved("s2", "r1", [question()], at=9_000.0)))
    run(store.prune(before=4_000.0))
    assert run(store.inclusions(item="tea")) == []
    run(store.prune(before=90_000.0))
    assert rows(url, "SELECT item FROM context_items") == []


def test_contents_shared_by_contexts_are_stored_once_and_no_message_can_erase_them(store, run, url):
    contexts = [saved(f"s{number}", f"r{number}", [question()]) for number in range(3)]
    for each in contexts:
        run(store.put(Room(id=each.room)))
        run(store.save_context(each))
    bodies = [body for (body,) in rows(url, "SELECT hash FROM contents")]
    assert len(bodies) == 2  # the question, and the policy with the model
    run(store.remove(Room, "r0"))
    policy = msgspec.json.encode(contexts[1].context.inputs.policy).decode()
    run(store.post([make_message("m1", policy, room="r1")]))
    run(store.delete("m1", erase=True))
    assert run(store.snapshot("s1")).context.inputs.policy == contexts[1].context.inputs.policy
