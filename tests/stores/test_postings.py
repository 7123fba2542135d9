"""The full-text index: postings belong to one scope, and are exact after every change."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.records import Message
from brimful.records.search import IndexEntry
from stores.samples import known, make_message, occurring
from strategies import examples

ODD = ["Tea", "tea", "TEA", "tëa", "te\x00a", "te a", "it's", '"', "x" * 50, "x" * 51, "", "\ud800", "a:b", "日本", "ⅷ"]


def rows(found):
    return list(zip(found.term, found.seq, found.length, found.frequency, strict=True))


def posted(run, store, texts, room="general"):
    pairs = [
        (Message(id=f"{room}-{n}", room=room, content=f"{n}"), IndexEntry(terms=tuple(terms), passage=""))
        for n, terms in enumerate(texts)
    ]
    run(store.post(pairs))


def test_a_row_says_which_document_holds_which_term_how_often(store, run):
    posted(run, store, [["tea", "tea", "milk"], ["milk"], ["cake"]])
    found = run(occurring(store, ["room:general"], ["milk", "tea", "honey"]))
    assert found.terms == ("milk", "tea", "honey")
    assert found.document_frequency == (2, 1, 0)
    assert (found.documents, found.words) == (3, 5)
    assert rows(found) == [(0, 1, 3, 1), (0, 2, 1, 1), (1, 1, 3, 2)]
    assert [document.item for document in run(store.documents(list(found.doc)))] == [
        "general-0",
        "general-1",
        "general-0",
    ]


def test_other_scopes_are_not_touched(store, run):
    posted(run, store, [["tea"]], room="one")
    posted(run, store, [["tea"], ["tea"]], room="two")
    run(store.save_memories([known("k1", "tea")]))
    assert run(occurring(store, ["room:one"], ["tea"])).document_frequency == (1,)
    assert run(occurring(store, ["room:one", "room:two", "memory:::"], ["tea"])).document_frequency == (4,)
    nothing = run(occurring(store, ["room:three"], ["tea"]))
    assert (nothing.document_frequency, nothing.documents, rows(nothing)) == ((0,), 0, [])
    assert run(occurring(store, [], [])).terms == ()


def test_odd_terms_are_whole_and_never_confused(store, run):
    posted(run, store, [[term] for term in ODD])
    found = run(occurring(store, ["room:general"], ODD))
    assert found.document_frequency == tuple(1 for _ in ODD)
    assert rows(found) == [(at, at + 1, 1, 1) for at in range(len(ODD))]


def test_a_common_term_has_no_rows_if_only_rare_ones_are_wanted(store, run):
    posted(run, store, [["tea"]] * 4)
    assert len(run(occurring(store, ["room:general"], ["tea"], limit=2)).doc) == 2
    found = run(occurring(store, ["room:general"], ["tea"], limit=2, rare_only=True))
    assert (found.document_frequency, rows(found)) == ((4,), [])


def test_a_very_common_term_only_tells_how_often(store, run):
    posted(run, store, [["the", "tea"]] * 3 + [["the"]] * 4)
    found = run(occurring(store, ["room:general"], ["the", "tea"], limit=3))
    assert found.document_frequency == (7, 3)
    assert set(found.term) == {1}


def test_if_all_terms_are_common_the_newest_of_the_rarest_are_given(store, run):
    posted(run, store, [["the", "tea"]] * 6 + [["the"]] * 2)
    found = run(occurring(store, ["room:general"], ["the", "tea"], limit=4))
    assert found.document_frequency == (8, 6)
    assert rows(found) == [(1, seq, 2, 1) for seq in (6, 5, 4, 3)]


def test_the_newest_documents_also_have_term_frequencies(store, run):
    posted(run, store, [["tea"], ["tea", "teapot", "tea"], ["teapot", "tea"], ["teapot"]])
    assert rows(run(occurring(store, ["room:general"], ["tea"], limit=2))) == [(0, 3, 2, 1), (0, 2, 3, 2)]


def test_the_version_changes_with_every_write_to_a_scope(store, run):
    seen = [run(store.scope_version(["room:general", "memory:::"]))]

    def moved(coroutine):
        run(coroutine)
        seen.append(run(store.scope_version(["room:general", "memory:::"])))
        return seen[-1] != seen[-2]

    assert moved(store.post([make_message("a")]))
    assert moved(store.save_memories([known("k1")]))
    assert moved(store.edit("a", "x", IndexEntry(terms=("x",)), at=1.0))
    assert moved(store.delete("a"))
    assert moved(store.remove_memory("k1"))
    assert not moved(store.post([make_message("b", room="other")]))
    assert len(set(seen)) == 6


terms = st.lists(st.sampled_from(["tea", "milk", "Tea", "cake", "a b"]), max_size=6)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["post", "edit", "delete"]), st.integers(0, 5), terms), max_size=12))
def test_the_index_is_what_the_messages_are(database, run, steps):
    """Whatever is posted, edited and deleted: the postings are those of the messages that stand."""
    tenant = f"t{len(str(steps))}-{hash(str(steps))}"
    store = database.tenant(tenant)
    run(_clear(store))
    model = {}
    removed = set()
    for what, which, words in steps:
        id = f"m{which}"
        indexed = IndexEntry(terms=tuple(words), passage=" ".join(words))
        if what == "post" and id not in model and id not in removed:
            run(store.post([(Message(id=id, room="r", content=id), indexed)]))
            model[id] = words
        elif what == "edit" and id in model:
            run(store.edit(id, "new", indexed, at=1.0))
            model[id] = words
        elif what == "delete" and id in model:
            run(store.delete(id))
            removed.add(id)
            del model[id]
    questions = ["tea", "milk", "Tea", "cake", "a b"]
    found = run(occurring(store, ["room:r"], questions))
    items = {document.doc: document.item for document in run(store.documents(list(found.doc)))}
    seen = {
        (items[doc], questions[term]): times
        for doc, term, times in zip(found.doc, found.term, found.frequency, strict=True)
    }
    assert seen == {(id, term): times for id, held in model.items() for term, times in Counter(held).items()}
    assert found.words == sum(map(len, model.values()))
    assert found.documents == len(model)


async def _clear(store):
    from brimful.records import Room  # noqa: PLC0415 - a repeated example begins with nothing

    await store.remove(Room, "r")
