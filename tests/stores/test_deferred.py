"""Messages can be written first and indexed later, and are then found as if they had been indexed at once."""

from brimful.records import Message, Room
from brimful.records.search import IndexEntry
from brimful.retrieval.documents import make_document
from stores.test_migrations import rows

LONG = "\n\n".join(f"Paragraph {number} is about tea, and about number {number}. " * 8 for number in range(12))
INDEXED = """
SELECT s.scope, d.item, d.part, d.seq, d.length, d.passage <> ''
FROM documents d JOIN scopes s ON s.tenant = d.tenant AND s.number = d.scope WHERE d.tenant = '{}'
ORDER BY s.scope, d.doc
"""
TOTALS = "SELECT scope, documents, words FROM scopes WHERE tenant = '{}' ORDER BY scope"


def make_messages(count=600):
    """Return messages in two rooms: more than one statement writes, and than one transaction indexes."""
    return [
        Message(id=f"m{at}", room=f"r{at % 2}", content=f"Number {at} is about tea.", at=float(at), hidden=at == 7)
        for at in range(count)
    ]


def test_indexing_later_gives_the_same_index(database, run, url):
    messages = [*make_messages(), Message(id="long", room="r0", content=LONG, at=999.0)]
    at_once, later = database.tenant("once"), database.tenant("later")
    run(at_once.load_records(messages, make_document))
    run(later.load_records(messages, make_document, defer=True))
    assert run(later.count_undivided()) == 601
    assert [each.id for each in run(later.messages(["m3", "long"]))] == ["m3", "long"]
    while run(later.divide_documents(make_document)):
        pass
    assert rows(url, INDEXED.format("later")) == rows(url, INDEXED.format("once"))
    assert rows(url, TOTALS.format("later")) == rows(url, TOTALS.format("once"))
    assert run(database.check()) == []


def test_messages_are_indexed_in_the_order_in_which_they_were_written(database, run, url):
    store = database.tenant("acme")
    messages = [Message(id=f"m{9999 - at}", room="r", content="Tea.", at=float(at)) for at in range(520)]
    run(store.load_records(messages, make_document, defer=True))
    run(store.divide_documents(make_document))
    assert rows(url, "SELECT seq FROM documents WHERE tenant = 'acme' ORDER BY doc") == [(at,) for at in range(1, 513)]
    assert run(store.count_undivided()) == 8


def test_records_deleted_before_indexing_are_not_indexed(database, run, url):
    store = database.tenant("acme")
    run(store.load_records(make_messages(4), make_document, defer=True))
    run(store.delete("m1"))
    run(store.edit("m2", "Coffee.", IndexEntry(terms=("coffee",)), at=9.0))
    run(store.hide(["m3"]))
    assert run(store.divide_documents(make_document)) == 3
    assert run(store.divide_documents(make_document)) == 0
    assert run(store.count_undivided()) == 0
    assert rows(url, "SELECT item, length FROM documents WHERE tenant = 'acme' ORDER BY doc") == [("m2", 1), ("m0", 3)]
    assert run(database.check()) == []


def test_a_room_whose_messages_were_all_deleted_does_not_stop_the_index(database, run):
    store = database.tenant("acme")
    gone = [Message(id=f"gone{seq}", room="a", content="Tea.", seq=seq) for seq in (1, 9_999)]
    run(store.load_records([*gone, Message(id="m", room="b", content="Tea.")], make_document, defer=True))
    for message in gone:
        run(store.delete(message.id))
    assert run(store.divide_documents(make_document)) == 1
    assert run(store.divide_documents(make_document)) == 0


def test_messages_written_before_the_index_is_finished_are_indexed_once(database, run, url):
    store = database.tenant("acme")
    run(store.load_records(make_messages(4), make_document, defer=True))
    run(store.post([(Message(id="new", room="r0", content="Tea.", at=9.0), IndexEntry(terms=("tea",)))]))
    run(store.load_records([Message(id="old", room="r0", content="Tea.", at=9.5)], make_document, defer=True))
    while run(store.divide_documents(make_document)):
        pass
    found = rows(url, "SELECT item FROM documents WHERE tenant = 'acme' ORDER BY item")
    assert [item for (item,) in found] == ["m0", "m1", "m2", "m3", "new", "old"]
    assert run(database.check()) == []


def test_a_room_can_be_removed_before_it_is_indexed(database, run, url):
    store = database.tenant("acme")
    run(store.load_records(make_messages(4), make_document, defer=True))
    assert run(store.remove(Room, "r0"))
    assert run(store.count_undivided()) == 2
    while run(store.divide_documents(make_document)):
        pass
    assert rows(url, "SELECT item FROM documents WHERE tenant = 'acme' ORDER BY doc") == [("m1",), ("m3",)]
    assert run(database.check()) == []


def test_messages_that_are_there_are_not_written_again(database, run):
    store = database.tenant("acme")
    run(store.load_records(make_messages(250), make_document, defer=True))
    run(store.load_records(make_messages(260), make_document, defer=True))
    assert run(store.count_undivided()) == 260
    assert [each.message.seq for each in run(store.history("r0", limit=500))] == list(range(130, 0, -1))
