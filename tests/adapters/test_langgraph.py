"""LangGraph: the store of long-term memory, with the real framework."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import langgraph_agent
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import brimful
from brimful.adapters.langgraph import BrimfulStore
from brimful.errors import InvalidValue

ADA, ADAM, DEEP = ("users", "ada"), ("users", "adam"), ("users", "ada", "notes")


@pytest.fixture
def engine():
    times = iter(range(1_700_000_000, 1_800_000_000))
    with brimful.SyncEngine("sqlite:///:memory:", clock=lambda: float(next(times))) as engine:
        yield engine


@pytest.fixture
def store(engine):
    return BrimfulStore(engine)


@pytest.fixture
def filled(store):
    store.put(ADA, "drink", {"text": "Ada likes green tea.", "rank": 3, "by": {"name": "Bo", "age": 5}})
    store.put(ADA, "weather", {"text": "Ada is afraid of thunder.", "rank": 1})
    store.put(ADAM, "drink", {"text": "Adam likes green tea, too.", "rank": 5})
    store.put(DEEP, "drink", {"text": "The green tea of Ada is from Japan.", "rank": 8})
    return store


def names(items):
    return [(item.namespace, item.key) for item in items]


# -- items -------------------------------------------------------------------------------------------------------------


def test_an_item_is_read_as_it_was_written(store):
    value = {"text": "Tea.", "deep": {"list": [1, 2.5, None, True, "ü"]}}
    store.put(ADA, "drink", value)
    item = store.get(ADA, "drink")
    assert (item.namespace, item.key, item.value) == (ADA, "drink", value)
    assert store.get(ADA, "none") is None
    assert store.get(("users",), "drink") is None


def test_an_item_is_replaced_and_keeps_the_time_of_its_creation(store):
    store.put(ADA, "drink", {"text": "Tea.", "rank": 3})
    before = store.get(ADA, "drink")
    store.put(ADA, "drink", {"text": "Coffee."})
    after = store.get(ADA, "drink")
    assert after.value == {"text": "Coffee."}
    assert after.created_at == before.created_at == before.updated_at < after.updated_at
    assert before.created_at.tzinfo is UTC
    assert before.created_at > datetime(2023, 11, 14, tzinfo=UTC)
    assert names(store.search(ADA, query="coffee")) == [(ADA, "drink")]


def test_an_item_is_deleted_once(filled):
    for _ in range(2):
        filled.delete(ADA, "drink")
        assert filled.get(ADA, "drink") is None
    assert names(filled.search(ADA)) == [(DEEP, "drink"), (ADA, "weather")]


def test_labels_and_keys_may_have_any_characters(store):
    odd = [
        (("a", "/b"), "c"),
        (("a",), "b./c"),
        (("a",), "/b./c"),
        (("a%2Fb",), "c"),
        (("a/b",), "c"),
        (("ü ", ":"), ""),
    ]
    for at, (namespace, key) in enumerate(odd):
        store.put(namespace, key, {"at": at})
    assert [store.get(*each).value["at"] for each in odd] == list(range(len(odd)))
    assert store.list_namespaces() == sorted({namespace for namespace, _ in odd})


def test_memories_of_the_engine_and_items_do_not_mix(engine, filled):
    engine.remember("Ada likes black tea.", user="ada")
    engine.remember("Everybody likes tea.")
    assert len(filled.search((), limit=100)) == len(filled.search((), query="tea", limit=100)) == 4
    assert len(engine.search("tea", user="ada")) == 2


# -- search ------------------------------------------------------------------------------------------------------------


def test_items_below_a_namespace_are_found_and_no_others(filled):
    assert names(filled.search(ADA)) == [(DEEP, "drink"), (ADA, "weather"), (ADA, "drink")]
    assert set(names(filled.search(ADA, query="green tea"))) == {(ADA, "drink"), (DEEP, "drink"), (ADA, "weather")}
    assert names(filled.search(ADAM, query="green tea")) == [(ADAM, "drink")]
    assert filled.search(("user",)) == filled.search(("user",), query="green tea") == []


def test_the_best_items_come_first_with_their_relevance(filled):
    found = filled.search(ADA, query="Is she afraid of thunder?", limit=2)
    assert names(found)[0] == (ADA, "weather")
    assert len(found) == 2
    assert 1 >= found[0].score > found[1].score >= 0
    assert filled.search(ADA)[0].score is None


def test_pages(filled):
    every = names(filled.search(()))
    assert [*names(filled.search((), limit=3)), *names(filled.search((), limit=3, offset=3))] == every
    ranked = names(filled.search((), query="green tea"))
    assert names(filled.search((), query="green tea", limit=2, offset=1)) == ranked[1:3]
    assert filled.search((), offset=4) == []


@pytest.mark.parametrize("query", [None, "green tea"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"rank": 3}, {3}),
        ({"rank": {"$eq": 3}}, {3}),
        ({"rank": {"$ne": 3}}, {1, 5, 8}),
        ({"rank": {"$gt": 3}}, {5, 8}),
        ({"rank": {"$gte": 3, "$lt": 8}}, {3, 5}),
        ({"rank": {"$lte": 1}}, {1}),
        ({"text": {"$lt": "Adam"}}, {1, 3}),
        ({"text": {"$gt": 3}}, set()),
        ({"by": {"name": "Bo"}}, {3}),
        ({"by": {"age": {"$gt": 5}}}, set()),
        ({"by": None}, {1, 5, 8}),
        ({"rank": 3, "text": "Adam likes green tea, too."}, set()),
    ],
)
def test_filters(filled, condition, expected, query):
    assert {item.value["rank"] for item in filled.search((), filter=condition, query=query)} == expected


def test_only_the_fields_of_the_index_are_searched(engine):
    store = BrimfulStore(engine, fields=["text", "notes[*].body"])
    store.put(ADA, "a", {"text": "green tea", "secret": "thunder", "notes": [{"body": "from Japan"}]})
    store.put(ADA, "b", {"text": "green tea", "secret": "thunder"}, index=["secret"])
    store.put(ADA, "c", {"text": "green tea from Japan, thunder"}, index=False)
    store.put(ADA, "d", {"rank": 5})
    ranked = [store.search(ADA, query=query) for query in ("thunder", "Japan", "green tea")]
    assert [found[0].key for found in ranked] == ["b", "a", "a"]
    assert {item.key for found in ranked for item in found} == {"a", "b"}
    assert [item.key for item in store.search(ADA)] == ["d", "c", "b", "a"]
    store.put(ADA, "c", {"text": "Japan, Japan"})
    assert "c" in {item.key for item in store.search(ADA, query="Japan")}


def test_namespaces(filled):
    assert filled.list_namespaces() == [ADA, DEEP, ADAM]
    assert filled.list_namespaces(max_depth=2) == [ADA, ADAM]
    assert filled.list_namespaces(prefix=ADA) == [ADA, DEEP]
    assert filled.list_namespaces(suffix=("ada",)) == [ADA]
    assert filled.list_namespaces(prefix=("*", "ada"), suffix=("notes",)) == [DEEP]
    assert filled.list_namespaces(prefix=("users", "*", "*")) == [DEEP]
    assert filled.list_namespaces(limit=1, offset=1) == [DEEP]


def test_a_batch_runs_in_order(store):
    put, get = PutOp(ADA, "drink", {"text": "Tea."}), GetOp(ADA, "drink")
    spaces = ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users",)),))
    before, nothing, after, found, listed = store.batch([get, put, get, SearchOp(ADA, query="tea"), spaces])
    assert before is nothing is None
    assert after.value == found[0].value == {"text": "Tea."}
    assert listed == [ADA]


labels = st.sampled_from(["a", "b", "ab", "a/", "*"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
values = st.fixed_dictionaries({"n": st.integers(0, 3), "text": st.sampled_from(["tea", "rain"])})
writes = st.tuples(namespaces, st.sampled_from(["k", "a./k"]), st.none() | values)
filters = st.none() | st.sampled_from([{"n": 1}, {"n": {"$gt": 1}}, {"text": "tea", "n": {"$lte": 2}}])


@given(st.lists(writes, max_size=12), namespaces, filters, st.integers(1, 3))
def test_the_store_holds_the_same_as_langgraphs_own(written, prefix, condition, depth):
    with brimful.SyncEngine("sqlite:///:memory:", embedder="none", indexing=False) as engine:
        ours, theirs = BrimfulStore(engine), InMemoryStore()
        for store in (ours, theirs):
            for each in written:
                store.batch([PutOp(*each)])
        for where in (prefix, prefix[:1], ()):
            found, expected = (
                {(item.namespace, item.key): item.value for item in store.search(where, filter=condition, limit=50)}
                for store in (ours, theirs)
            )
            assert found == expected
        for space, key, _ in written:
            mine, other = ours.get(space, key), theirs.get(space, key)
            assert (mine and mine.value) == (other and other.value)
        full = sorted({item.namespace for item in theirs.search((), limit=50)})  # it also lists empty namespaces
        assert ours.list_namespaces() == full
        assert ours.list_namespaces(max_depth=depth) == sorted({space[:depth] for space in full})


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_asynchronous_calls_of_both_kinds_of_engines(store):
    async with brimful.Engine("sqlite:///:memory:", indexing=False) as engine:
        for each in (store, BrimfulStore(engine)):
            await each.aput(ADA, "drink", {"text": "Ada likes tea."})
            assert (await each.aget(ADA, "drink")).value == {"text": "Ada likes tea."}
            assert names(await each.asearch(("users",), query="tea")) == [(ADA, "drink")]
            assert await each.alist_namespaces() == [ADA]
            await each.adelete(ADA, "drink")
            assert await each.asearch(()) == []
        with pytest.raises(InvalidValue, match="SyncEngine"):
            BrimfulStore(engine).get(ADA, "drink")


def test_several_threads_at_once(store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: store.put((f"user-{at % 4}",), f"k{at}", {"text": f"note {at}"}), range(40)))
    assert [len(store.search((f"user-{at}",), limit=100)) for at in range(4)] == [10] * 4


def test_a_graph_remembers_across_threads(store):
    def remember(state: MessagesState, runtime: Runtime):
        known = runtime.store.search(ADA, query=state["messages"][-1].text)
        runtime.store.put(ADA, f"note-{len(known)}", {"text": state["messages"][-1].text})
        return {"messages": [("ai", "; ".join(item.value["text"] for item in known))]}

    graph = StateGraph(MessagesState).add_node("remember", remember).add_edge(START, "remember")
    compiled = graph.compile(checkpointer=InMemorySaver(), store=store)
    said = []
    for thread, text in [("t1", "I like green tea."), ("t2", "What tea do I like?")]:
        config = {"configurable": {"thread_id": thread}}
        said.append(compiled.invoke({"messages": [("user", text)]}, config)["messages"][-1].text)
    assert said == ["", "I like green tea."]


class Nova(GenericFakeChatModel):
    """Answers from a script, whatever tools there are."""

    def bind_tools(self, tools, **_):
        return self


def test_the_example_remembers_across_threads_and_always_fits(engine):
    def calling(name, **arguments):
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])

    script = [
        calling("remember", fact="Ada drinks green tea at four."),
        "I will remember that.",
        calling("look_up", question="What does Ada drink at four?"),
        "Green tea.",
    ]
    agent = langgraph_agent.make_agent(Nova(messages=iter(script)), engine, model="gpt-4o", window=2_000)
    long = [("user", f"Note {number}: " + "the kettle is on. " * 9) for number in range(100)]
    answers = []
    for thread, texts in [("t1", ["I drink green tea at four."]), ("t2", [*long, "What should I drink at four?"])]:
        config = {"configurable": {"thread_id": thread, "user": "ada"}}
        answers.append(agent.invoke({"messages": texts}, config)["messages"][-3:])
    assert [messages[-1].text for messages in answers] == ["I will remember that.", "Green tea."]
    assert answers[1][1].text == "Ada drinks green tea at four."
    builds = engine.run(engine.store.builds(room="t2"))
    assert [build.left_out > 50 for build in builds] == [True, True]


# -- errors ------------------------------------------------------------------------------------------------------------


def test_unsupported_operations_are_an_error(engine, store):
    with pytest.raises(NotImplementedError, match="TTL"):
        store.put(ADA, "drink", {"text": "Tea."}, ttl=5)
    with pytest.raises(NotImplementedError, match="ttl"):
        store.batch([PutOp(ADA, "drink", {"text": "Tea."}, ttl=5)])
    with pytest.raises(InvalidNamespaceError):
        store.put(("a.b",), "drink", {"text": "Tea."})
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("a.b",), "drink")])
    with pytest.raises(InvalidValue, match="JSON"):
        store.put(ADA, "drink", {"text": object()})
    store.put(ADA, "drink", {"text": "Tea."})
    with pytest.raises(InvalidValue, match=r"\$in"):
        store.search(ADA, filter={"text": {"$in": ["Tea."]}})
    with pytest.raises(InvalidValue, match="operations"):
        store.batch(["get"])
    with pytest.raises(InvalidValue, match="engine"):
        BrimfulStore("chat.db")
    with pytest.raises(InvalidValue, match="fields"):
        BrimfulStore(engine, fields="text")
