"""Endpoints for rooms, personas, memories and lorebooks."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful import count
from brimful.engine import Engine
from brimful.records import Memory
from server.inspector.conftest import NOW, ROOT, store_of
from strategies import examples


@pytest.fixture
def ask(client):
    """Return a function that sends something, and wants a status."""

    def asked(method, path, status=200, query=None, **body):
        answer = client.request(method, ROOT + path, params=query, json=body or None)
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def test_rooms_are_created_updated_and_removed(ask, get):
    made = ask("POST", "/rooms", 201, id="new", name="New", goal="Talk about tea.")
    assert made["tokens"] == count("Talk about tea.", model="gpt-4o").tokens
    assert get("/rooms/new") == made
    assert made["created"] > NOW
    changed = ask("PUT", "/rooms/new", goal="")
    assert (changed["goal"], changed["name"], changed["tokens"]) == ("", "New", 0)
    assert [room["id"] for room in get("/rooms")["rooms"]] == ["new", "tea/room"]
    assert ask("DELETE", "/rooms/new") == {"id": "new", "removed": True}
    ask("GET", "/rooms/new", 404)
    ask("DELETE", "/rooms/new", 404)


def test_lists_are_paginated(ask, get):
    for id in ("a", "b", "c"):
        ask("POST", "/personas", 201, id=id, prompt="You are nobody.")
    page = get("/personas", limit=2)
    assert [each["id"] for each in page["personas"]] == ["a", "b"]
    rest = get("/personas", limit=2, after=page["next"])
    assert [each["id"] for each in rest["personas"]] == ["c", "nova"]
    assert get("/personas", limit=2, after=rest["next"]) == {"personas": [], "next": None}


def test_tokens_are_counted_for_the_given_model(get):
    by_default, by_another = get("/personas/nova"), get("/personas/nova", model="claude-sonnet-4-5")
    assert by_default["tokens"] == count("You are Nova, who knows tea.", model="gpt-4o").tokens
    assert by_another["tokens"] == count("You are Nova, who knows tea.", model="claude-sonnet-4-5").tokens


def test_an_existing_id_is_rejected_and_a_missing_one_generated(ask):
    assert ask("POST", "/rooms", 409, id="tea/room")["error"]["code"] == "already_exists"
    assert ask("POST", "/memories", 409, id="nuts", content="x")["error"]["param"] == "id"
    assert ask("POST", "/lorebooks/teas/entries", 409, id="teas/1", content="x")["error"]["code"] == "already_exists"
    made = ask("POST", "/rooms", 201, name="Nameless")
    assert made["id"].startswith("room-")


def test_an_id_cannot_be_changed(ask):
    assert ask("PUT", "/memories/nuts", 400, id="other")["error"]["param"] == "id"
    assert ask("PUT", "/memories/nuts", id="nuts", pinned=False)["pinned"] is False


def test_messages_are_listed_newest_first(get):
    page = get("/rooms/tea/room/messages", limit=3)
    assert [each["seq"] for each in page["messages"]] == [61, 60, 59]
    assert page["messages"][0]["role"] == "assistant"
    older = get("/rooms/tea/room/messages", limit=3, before=page["next"])
    assert [each["seq"] for each in older["messages"]] == [58, 57, 56]
    assert older["messages"][0]["tokens"] == count("Turn 57: about sencha. " * 12, model="gpt-4o").tokens
    assert get("/rooms/tea/room/messages", limit=3, before=2)["next"] is None


def test_messages_are_searched(get):
    found = get("/rooms/tea/room/messages", q="Kabusecha", limit=5)
    assert found["messages"][0]["content"] == "Kabusecha."
    assert 0 < found["messages"][0]["relevance"] < 1
    assert found["messages"][0]["parts"]["words"] > 0


def test_a_message_is_removed(ask, get):
    ask("DELETE", "/messages/m59")
    assert "m59" not in [each["id"] for each in get("/rooms/tea/room/messages", limit=5)["messages"]]
    ask("DELETE", "/messages/m59", 404)
    ask("GET", "/rooms/nowhere/messages", 404)


def test_memories_are_created_updated_pinned_and_removed(ask, get):
    made = ask("POST", "/memories", 201, content="Ada rides a bicycle.", user="ada", importance=0.9)
    assert made["tokens"] == count("Ada rides a bicycle.", model="gpt-4o").tokens
    assert made["at"] > NOW
    changed = ask("PUT", f"/memories/{made['id']}", content="Ada rides a tandem.")
    assert (changed["content"], changed["importance"], changed["user"]) == ("Ada rides a tandem.", 0.9, "ada")
    assert ask("PUT", f"/memories/{made['id']}", pinned=True)["pinned"] is True
    assert {each["id"] for each in get("/memories", pinned=True)["memories"]} == {made["id"], "nuts"}
    ask("DELETE", f"/memories/{made['id']}")
    ask("GET", f"/memories/{made['id']}", 404)


def test_memories_are_removed_by_filter(ask, get):
    for id, fields in {"w1": {"user": "ada"}, "w2": {"user": "ada"}, "w3": {"user": "bob"}, "w4": {}}.items():
        ask("POST", "/memories", 201, id=id, content=f"Note {id}.", metadata={"tag": "work"}, **fields)
    before = {each["id"] for each in get("/memories")["memories"]}
    for query in ("", "?prefix=", "?metadata={}", "?erase=true"):
        assert "filters" in ask("DELETE", f"/memories{query}", 400)["error"]["message"]
    assert ask("DELETE", '/memories?metadata={"tag":1}') == {"removed": 0}
    assert {each["id"] for each in get("/memories")["memories"]} == before
    assert ask("DELETE", "/memories?user=ada&prefix=w&erase=true") == {"removed": 2}
    assert {each["id"] for each in get("/memories")["memories"]} == before - {"w1", "w2"}


def test_a_memory_has_a_cluster_and_says_whether_its_message_is_gone(ask):
    made = ask("POST", "/memories", 201, id="k", content="Tea.", cluster="tea", source_message="m1")
    assert (made["cluster"], made["summary"], made["source_removed"]) == ("tea", False, False)
    assert ask("PUT", "/memories/k", cluster="drinks", summary=True)["summary"] is True
    assert ask("POST", "/memories", 400, content="Tea.", source_message="no")["error"]["param"] == "source_message"
    assert ask("PUT", "/memories/k", 400, source_message="no")["error"]["param"] == "source_message"
    ask("DELETE", "/messages/m1")
    assert ask("GET", "/memories/k")["source_removed"] is True


def test_memories_are_filtered_by_words_and_owners(ask, get):
    ask("POST", "/memories", 201, id="all", content="Tea is served at FOUR.")
    assert {each["id"] for each in get("/memories", q="four tea")["memories"]} == {"four", "all"}
    assert {each["id"] for each in get("/memories", user="ada")["memories"]} == {"four", "all", "nuts"}
    assert {each["id"] for each in get("/memories", user="bob")["memories"]} == {"all"}
    assert get("/memories", q="coffee")["memories"] == []


def test_a_new_memory_is_found_by_the_next_build(ask, tmp_path):
    ask("POST", "/memories", 201, id="b", content="The quetzal is Ada's favourite bird.", user="ada")

    async def build():
        async with Engine(store_of(tmp_path), model="gpt-4o", embedder="none") as engine:
            return await engine.assemble(room="tea/room", message="Which bird, a quetzal?", user="ada", save=False)

    assert asyncio.run(build()).decision("b").included


def test_pages_of_memories_with_equal_times_miss_none(get, tmp_path):
    async def remember():
        async with Engine(store_of(tmp_path), embedder="none") as engine:
            await engine.remember_many([Memory(id=f"k{n:02}", content=f"Fact {n % 3}", at=5.0) for n in range(25)])

    asyncio.run(remember())
    for query in ({}, {"q": "fact 1"}):
        seen, before = [], ""
        while before is not None:
            page = get("/memories", limit=4, before=before, **query)
            seen += [each["id"] for each in page["memories"]]
            before = page["next"]
        assert len(seen) == len(set(seen)) == (8 if query else 27)


def test_an_expression_over_a_limit_is_refused(ask):
    refused = ask("POST", "/lorebooks/teas/entries", 400, content="Boom.", keys=["/(?:a{1000}){100000}/"])
    assert "unrolls to 100,100,000 elements; the limit is 20,000" in refused["error"]["message"]
    ask("PUT", "/lorebooks/teas/entries/teas/1", 400, secondary=["/" + "|".join(map(str, range(1_100))) + "/"])


def test_lorebooks_and_their_entries(ask, get):
    book = get("/lorebooks/teas")
    assert (book["entries"], book["tokens"]) == (1, count("Sencha is green.", model="gpt-4o").tokens)
    made = ask("POST", "/lorebooks/teas/entries", 201, content="Assam is black.", keys=["assam"], name="Assam")
    changed = ask("PUT", f"/lorebooks/teas/entries/{made['id']}", constant=True)
    assert (changed["constant"], changed["name"], changed["lorebook"]) == (True, "Assam", "teas")
    assert len(get("/lorebooks/teas/entries")["entries"]) == 2
    ask("PUT", f"/lorebooks/other/entries/{made['id']}", 404, constant=False)
    ask("DELETE", f"/lorebooks/teas/entries/{made['id']}")
    ask("DELETE", f"/lorebooks/teas/entries/{made['id']}", 404)
    ask("POST", "/lorebooks/none/entries", 404, content="x")
    ask("POST", "/lorebooks", 201, id="more")
    assert [each["id"] for each in get("/lorebooks")["lorebooks"]] == ["more", "teas"]
    ask("DELETE", "/lorebooks/teas")
    ask("GET", "/lorebooks/teas/entries", 404)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/memories", {"user": "ada"}, "content"),
        ("/memories", {"content": "x", "importance": 7}, "importance"),
        ("/memories", {"content": 7}, "content"),
        ("/memories", {"content": "x", "accesses": 3}, "accesses"),
        ("/memories", {"content": "x", "id": "a\0b"}, "id"),
        ("/personas", {"completion": 0}, "completion"),
        ("/personas", {"overrides": 3}, "overrides"),
        ("/rooms", {"id": ""}, "id"),
        ("/rooms", {"metadata": []}, "metadata"),
        ("/lorebooks/teas/entries", {"name": "x"}, "content"),
    ],
)
def test_invalid_fields_are_rejected_by_name(reader, path, body, field):
    refused = reader.post(ROOT + path, json=body)
    assert refused.status_code == 400
    assert field in refused.json()["error"]["message"]


def test_a_body_must_be_declared_as_json(client):
    answer = client.post(f"{ROOT}/memories", content=b'{"content": "x"}', headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert (
        client.post(f"{ROOT}/memories", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    )


def test_models_policies_and_counts(get, ask):
    models = get("/models")
    assert {"id": "gpt-4o", "provider": "openai", "window": 128_000}.items() <= next(
        each for each in models["models"] if each["id"] == "gpt-4o"
    ).items()
    assert models["default"] == "gpt-4o"
    assert {each["name"] for each in get("/policies")["policies"]} >= {"default", "window", "fit"}
    assert ask("POST", "/count", text="Fill the window to the brim.", model="gpt-4o") == {"tokens": 7, "basis": "exact"}
    assert ask("POST", "/count", text="Fill the window to the brim.")["tokens"] == 7


def test_statistics_of_contexts_and_answers(get):
    (all_of_it,) = get("/statistics")["statistics"]
    assert all_of_it["contexts"] == 2
    assert all_of_it["answers"]["total"] == 1
    assert 0 < all_of_it["cost"] < 1
    assert all_of_it["saved"] >= 0
    assert [each["key"] for each in get("/statistics", by="model")["statistics"]] == ["gpt-4o"]
    assert sum(each["contexts"] for each in get("/statistics", last="24h")["statistics"]) == 0
    assert sum(each["contexts"] for each in get("/statistics", since=NOW - 1, until=NOW + 50)["statistics"]) == 1


@pytest.mark.parametrize(
    "query",
    [
        {"last": "24x"},
        {"last": "1h", "since": 3},
        {"by": "weather"},
        {"since": "nan"},
        {"until": "inf"},
        {"since": 9, "until": 3},
        {"last": "1h", "until": 3},
        {"room": "a\0"},
    ],
)
def test_invalid_periods_are_rejected(reader, query):
    assert reader.get(f"{ROOT}/statistics", params=query).status_code == 400


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"last": "abc"}, "last: 'abc' is not a duration such as 90m, 24h or 7d"),
        ({"since": 9, "until": 3}, "until: must not be before the start"),
    ],
)
def test_errors_explain_invalid_periods(reader, query, said):
    assert reader.get(f"{ROOT}/statistics", params=query).json()["error"]["message"] == said


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/contexts", "valid parameters are room, persona, model, user, message, runs, feedback, before, limit"),
        ("/models", "there are none"),
    ],
)
@pytest.mark.parametrize("value", ["1", ""])
def test_unknown_parameters_are_rejected(reader, path, known, value):
    answer = reader.get(ROOT + path, params={"lmit": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "lmit"
    assert answer.json()["error"]["message"] == f"lmit: unknown parameter; {known}"


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_an_empty_memory_is_rejected(ask, get, content):
    body = {} if content is None else {"content": content}
    assert ask("POST", "/memories", 400, id="void", **body)["error"]["param"] == "content"
    ask("GET", "/memories/void", 404)
    if content is not None:
        assert ask("PUT", "/memories/nuts", 400, content=content)["error"]["param"] == "content"
        assert get("/memories/nuts")["content"] == "Ada is allergic to hazelnut."


@pytest.mark.parametrize("at", [1e15, -1e15, 1.7e12])
def test_an_invalid_time_is_rejected(ask, at):
    data = ask("POST", "/memories", 400, content="x", at=at)["error"]
    assert data["param"] == "at"
    assert "in seconds since 1970, not in milliseconds" in data["message"]


LISTS = ["/contexts", "/rooms", "/personas", "/memories", "/lorebooks", "/statistics", "/rooms/tea/room/messages"]
NAMES = ["limit", "before", "after", "room", "persona", "model", "q", "pinned", "user", "last", "since", "until", "by"]


@given(path=st.sampled_from(LISTS), query=st.dictionaries(st.sampled_from(NAMES), st.text(max_size=12), max_size=4))
@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_query_breaks_a_list(reader, path, query):
    clean = {name: value.encode("utf-8", "replace").decode() for name, value in query.items()}
    answer = reader.get(ROOT + path, params=clean)
    assert answer.status_code in (200, 400), answer.text


def test_proposals_are_listed_confirmed_and_rejected(ask, get):
    for id in ("bank", "tea"):
        ask("POST", "/memories", 201, id=id, content=f"A page said {id}.", user="ada", state="proposed")
    before = get("/memories")["memories"]
    assert not {each["id"] for each in before} & {"bank", "tea"}
    ask("GET", "/memories/bank", 404)
    ask("POST", "/memories", 409, id="bank", content="x")
    assert {each["id"] for each in get("/memories", state="proposed")["memories"]} == {"bank", "tea", "rumor"}
    for wrong in ({"confirm": []}, {"confirm": ["tea"], "reject": ["bank"]}):
        assert ask("POST", "/memories/review", 400, **wrong)["error"]["param"] == "confirm"
    ask("POST", "/memories/review", 404, confirm=["tea", "nuts"])
    done = ask("POST", "/memories/review", confirm=["tea"])
    assert (done["kind"], done["facts"]) == ("janitor", {"confirmed": 1})
    assert ask("POST", "/memories/review", reject=["bank"])["facts"] == {"rejected": 1}
    assert [each["id"] for each in get("/memories", state="rejected")["memories"]] == ["bank"]
    assert {each["id"] for each in get("/memories")["memories"]} == {each["id"] for each in before} | {"tea"}
    for _ in range(2):
        ask("POST", "/janitor/undo")
    assert len(get("/memories", state="proposed")["memories"]) == 3
    assert get("/memories")["memories"] == before
