"""Messages: appended without gaps, read in pages, edited and deleted."""

import msgspec
import pytest

from brimful.core.content import content_hashes
from brimful.errors import InvalidValue
from brimful.records import Message, Room, Summary, User
from stores.samples import PARTS, make_message, occurring, words


def test_messages_get_their_place_in_their_room(store, run):
    posted = run(store.post([make_message("a"), make_message("b", room="other"), make_message("c")]))
    assert [(message.id, message.room, message.seq) for message in posted] == [
        ("a", "general", 1),
        ("b", "other", 1),
        ("c", "general", 2),
    ]
    assert run(store.get(Room, "other")) == Room(id="other")


def test_posted_messages_come_back_unchanged(store, run):
    message = Message(
        id="m1",
        room="r",
        content=PARTS,
        sender="Ada \x00 L.",
        role="assistant",
        at=1.5,
        edited=None,
        metadata={"a": [1, {"b": None}], "\x00": "\x00"},
    )
    run(store.post([(message, words("look at this"))]))
    assert run(store.messages(["m1"])) == [msgspec.structs.replace(message, seq=1)]
    assert run(store.history("r"))[0].message == msgspec.structs.replace(message, seq=1)


def test_the_first_message_of_an_id_stands(store, run):
    first = run(store.post([make_message("a", "one"), make_message("a", "two"), make_message("b", "three")]))
    again = run(
        store.post([make_message("b", "four"), make_message("c", "five"), make_message("a", "six", room="other")])
    )
    assert [(message.content, message.seq) for message in first] == [("one", 1), ("one", 1), ("three", 2)]
    assert [(message.content, message.seq) for message in again] == [("three", 2), ("five", 3), ("one", 1)]
    assert [each.message.id for each in run(store.history("general"))] == ["c", "b", "a"]


def test_history_is_read_in_pages_from_the_newest(store, run):
    run(store.post([make_message(f"m{n}", f"text {n}") for n in range(7)]))
    page = run(store.history("general", limit=3))
    assert [each.message.seq for each in page] == [7, 6, 5]
    assert [each.message.seq for each in run(store.history("general", before=5, limit=3))] == [4, 3, 2]
    assert run(store.history("general", before=1)) == []
    assert run(store.history("nowhere")) == []


def test_history_tells_the_counts_of_the_tokenizer(store, run):
    run(
        store.post(
            [
                make_message("a", "one two"),
                make_message("b", "three"),
                (Message(id="c", room="general", content=PARTS), words("")),
            ]
        )
    )
    run(store.save_counts("t1", {content_hashes("one two")[0]: 2, content_hashes(PARTS)[0]: 9}))
    assert [each.tokens for each in run(store.history("general", tokenizer="t1"))] == [None, None, 2]
    assert [each.tokens for each in run(store.history("general", tokenizer="t2"))] == [None, None, None]


def test_a_count_stored_later_is_read(store, run):
    run(store.post([make_message("a", "one two")]))
    assert run(store.history("general", tokenizer="t1"))[0].tokens is None
    run(store.save_counts("t1", {content_hashes("one two")[0]: 2}))
    assert run(store.history("general", tokenizer="t1"))[0].tokens == 2
    assert run(store.messages_at("general", [1], tokenizer="t1"))[0].tokens == 2
    assert run(store.messages_at("general", [1], tokenizer="t2"))[0].tokens is None


@pytest.mark.parametrize("tokenizer", ["", "t1"])
def test_messages_of_another_connection_are_read_at_once(database, store, run, tokenizer):
    run(store.post([make_message("a", "one"), make_message("b", "two"), make_message("c", "two")]))
    run(store.history("general", tokenizer=tokenizer))
    other = database.tenant(store.tenant)
    run(other.edit("a", "three", words("three"), at=5.0))
    run(other.delete("b", erase=True))
    run(other.hide(["c"]))
    found = [each.message for each in run(store.history("general", tokenizer=tokenizer))]
    assert [(message.content, message.hidden) for message in found] == [("two", True), ("three", False)]
    run(other.edit("a", "two", words("two"), at=6.0))
    found = run(store.messages_at("general", [1, 2], tokenizer=tokenizer))
    assert [each.message.content for each in found] == ["two"]


def test_a_caller_may_change_the_metadata_of_a_message(store, run):
    run(store.post([make_message("a", "one")]))
    run(store.history("general"))[0].message.metadata["seen"] = True
    assert run(store.history("general"))[0].message.metadata == {}


def test_a_text_that_reads_like_parts_is_another_content(store, run):
    text = msgspec.json.encode(PARTS).decode()
    run(
        store.post(
            [
                (Message(id="a", room="r", content=PARTS), words("")),
                (Message(id="b", room="r", content=text), words("")),
            ]
        )
    )
    assert [message.content for message in run(store.messages(["b", "a"]))] == [text, PARTS]


def test_messages_come_in_the_order_of_the_question(store, run):
    run(store.post([make_message(id) for id in "abc"]))
    assert [message.id for message in run(store.messages(["c", "x", "a"]))] == ["c", "a"]
    run(store.save_counts("t", {content_hashes("Hello there")[0]: 2}))
    found = run(store.messages_at("general", [3, 9, 1], tokenizer="t"))
    assert [(each.message.id, each.tokens) for each in found] == [("a", 2), ("c", 2)]
    assert [each.tokens for each in run(store.messages_at("general", [3], tokenizer="other"))] == [None]


def test_an_edited_message_keeps_its_place_and_is_found_by_its_new_words(store, run):
    run(store.post([make_message("a", "tea please"), make_message("b", "thanks")]))
    edited = run(store.edit("a", "coffee please", words("coffee please"), at=9.0))
    assert (edited.content, edited.seq, edited.edited) == ("coffee please", 1, 9.0)
    assert run(store.messages(["a"])) == [edited]
    found = run(occurring(store, ["room:general"], ["tea", "coffee", "please", "thanks"]))
    assert found.document_frequency == (0, 1, 1, 1)
    assert (found.documents, found.words) == (2, 3)
    assert run(store.edit("nobody", "x", words("x"), at=1.0)) is None


def test_a_deleted_message_leaves_a_gap_at_its_position(store, run):
    run(store.post([make_message("a"), make_message("b"), make_message("c")]))
    assert run(store.delete("b")) is True
    assert run(store.delete("b")) is False
    assert run(store.delete("nobody", erase=True)) is False
    assert [each.message.seq for each in run(store.history("general"))] == [3, 1]
    assert run(store.messages(["b"])) == run(store.messages_at("general", [2])) == []
    assert run(store.edit("b", "x", words("x"), at=1.0)) is None
    assert run(occurring(store, ["room:general"], ["hello"])).document_frequency == (2,)
    assert run(store.post([make_message("d")]))[0].seq == 4


def test_a_deleted_message_does_not_come_back_by_posting_it_again(store, run):
    run(store.post([make_message("a")]))
    run(store.delete("a"))
    assert run(store.post([make_message("a", "again")]))[0].content == ""  # what no context saw is gone with it
    assert run(store.history("general")) == []


def test_a_hidden_message_stays_and_is_not_found_and_no_summary_tells_of_it(store, run):
    run(store.post([make_message("a", metadata={"x": 1}), make_message("b"), make_message("c")]))
    for id, spans in (("s1", ((1, 1),)), ("s2", ((2, 3),))):
        summary = Summary(id=id, room="general", content="They said hello.", cluster=id, spans=spans)
        run(store.save_summaries([(summary, words("summed"))]))
    assert run(store.hide(["a", "a", "nobody"], superseded=True)) == ["a"]
    assert run(store.hide(["a"])) == []
    [kept] = run(store.messages(["a"]))
    assert (kept.hidden, kept.superseded, kept.metadata) == (True, True, {"x": 1})
    assert [each.message.seq for each in run(store.history("general"))] == [3, 2, 1]
    assert run(occurring(store, ["room:general"], ["hello"])).document_frequency == (2,)
    assert [summary.id for summary in run(store.summaries("general"))] == ["s2"]
    run(store.edit("a", "Hello again", words("hello again"), at=1.0))
    assert run(occurring(store, ["room:general"], ["hello"])).document_frequency == (2,)


def test_rooms_count_what_they_hold(store, run):
    run(store.post([make_message("a"), make_message("b"), make_message("c")]))
    run(store.delete("b"))
    assert run(store.count_messages(["general", "nowhere"])) == {"general": 2}


def test_rooms_of_a_user_come_by_who_spoke_last(store, run):
    for room in ("r1", "r2", "r3"):
        run(store.put(Room(id=room, user="ada")))
    run(store.put(Room(id="r4", user="bob")))
    run(store.put(User(id="ada")))
    run(store.post([make_message("a", room="r2", at=5.0), make_message("b", room="r1", at=6.0)]))
    assert [room.id for room in run(store.rooms_of("ada"))] == ["r1", "r2", "r3"]
    assert [room.id for room in run(store.rooms_of("ada", limit=1))] == ["r1"]
    assert [room.id for room in run(store.rooms_of(None))] == ["r1", "r2", "r3", "r4"]


def test_a_room_keeps_its_messages_when_it_is_put_again(store, run):
    run(store.post([make_message("a")]))
    run(store.put(Room(id="general", name="General", goal="Talk.")))
    assert run(store.get(Room, "general")).goal == "Talk."
    assert run(store.post([make_message("b")]))[0].seq == 2


@pytest.mark.parametrize("limit", [-1, 1.5, True, None])
def test_a_limit_is_a_whole_number(store, run, limit):
    with pytest.raises(InvalidValue, match="limit: must be a whole number from 0"):
        run(store.history("general", limit=limit))
