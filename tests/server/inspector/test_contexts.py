"""Endpoints for contexts."""

import asyncio
import json
from collections import Counter

import pytest

from brimful.engine import Engine
from brimful.server.inspector.queries import FindQuery
from brimful.server.inspector.search import find_absent
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of


def lost(seen):
    """Return the first message that did not get in for want of room."""
    return next(each for each in seen["decisions"] if not each["cost"] and each["rank"] > each["cut"])


def test_contexts_are_listed_newest_first_in_pages(get, kept):
    found = get("/contexts")
    assert [row["id"] for row in found["contexts"]] == [kept.second, kept.first]
    assert found["next"] is None
    page = get("/contexts", limit=1)
    assert [row["id"] for row in page["contexts"]] == [kept.second]
    assert [row["id"] for row in get("/contexts", limit=1, before=page["next"])["contexts"]] == [kept.first]


def test_contexts_are_filtered_by_room_persona_and_model(get):
    assert len(get("/contexts", room="tea/room", persona="nova", model="gpt-4o")["contexts"]) == 2
    for query in ({"room": "x"}, {"persona": "x"}, {"model": "gpt-4"}):
        assert get("/contexts", **query)["contexts"] == []


def test_feedback_on_an_answer_is_stored_shown_and_filtered_by(get, client, kept):
    def rate(answer="first", status=200, **body):
        response = client.post(f"{ROOT}/answers/{answer}/feedback", json=body)
        assert response.status_code == status, response.text
        return response.json()

    assert get("/contexts", feedback="bad")["contexts"] == []
    rated = rate(rating="bad", note="It is gyokuro.")
    feedback = rated["feedback"]
    assert (rated["id"], feedback["rating"], feedback["note"]) == ("first", "bad", "It is gyokuro.")
    assert feedback["at"] > 0
    [row] = get("/contexts", feedback="bad")["contexts"]
    assert (row["id"], row["feedback"]) == (kept.first, feedback)
    assert [each["feedback"] for each in get("/contexts")["contexts"]] == [None, feedback]
    assert get(f"/contexts/{kept.first}")["answers"][0]["feedback"] == feedback
    messages = get("/rooms/tea/room/messages")["messages"]
    assert [each["answer"]["feedback"] for each in messages if each["answer"]] == [feedback]
    assert len(get("/contexts", feedback="bad", message="first/message")["contexts"]) == 1
    assert get("/contexts", feedback="good", message="first/message")["contexts"] == []
    assert rate(rating=None)["feedback"] is None
    assert get("/contexts", feedback="bad")["contexts"] == []


@pytest.mark.parametrize(
    ("answer", "body", "status", "param"),
    [
        ("nothing", {"rating": "good"}, 404, "id"),
        ("first", {}, 400, "rating"),
        ("first", {"rating": "fine"}, 400, "rating"),
        ("first", {"rating": None, "note": "x"}, 400, "note"),
        ("first", {"rating": "good", "stars": 5}, 400, "stars"),
    ],
)
def test_wrong_feedback_is_refused(reader, answer, body, status, param):
    response = reader.post(f"{ROOT}/answers/{answer}/feedback", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param), response.text


def test_rooms_and_personas_have_names(get, client, kept):
    named = {"room": "tea/room", "room_name": "", "persona": "nova", "persona_name": "Nova"}
    client.put(f"{ROOT}/rooms/tea/room", json={"name": "The tea room"}).raise_for_status()
    named["room_name"] = "The tea room"
    compared = get(f"/contexts/{kept.first}/diff/{kept.second}")
    rows = [*get("/contexts")["contexts"], get(f"/contexts/{kept.first}"), compared["before"], compared["after"]]
    assert [{name: row[name] for name in named} for row in rows] == [named] * 5
    client.delete(f"{ROOT}/personas/nova").raise_for_status()
    assert get(f"/contexts/{kept.first}")["persona_name"] == ""


def test_a_row_contains_what_the_bar_needs(get):
    row = get("/contexts")["contexts"][0]
    assert row["room"] == "tea/room"
    assert row["persona"] == "nova"
    assert row["window"] == 2_500
    assert row["completion"] == 300
    assert sum(part["tokens"] for part in row["components"]) == row["tokens"] <= row["available"]
    assert row["candidates"] > row["left_out"] > 0


def test_a_context_is_shown(get, kept):
    seen = get(f"/contexts/{kept.first}")
    assert seen["number"] == 1
    assert seen["hard_limit"] == 2_200
    assert seen["reserved"] == seen["window"] - seen["available"]
    assert seen["remaining"] == seen["available"] - seen["tokens"]
    assert seen["prompt"][0]["role"] == "system"
    assert seen["prompt"][-1]["excerpt"].endswith("Which sencha?")
    assert "CANDIDATES" in seen["report"]
    (answer,) = seen["answers"]
    assert answer["usage"]["cached"] == 100
    assert answer["message"].endswith("/message")
    assert answer["text"] == "Kabusecha."
    assert 0 < answer["cost"] < 1


def test_bands_add_up_to_the_window(get, kept):
    seen = get(f"/contexts/{kept.first}")
    names = [band["name"] for band in seen["bands"]]
    assert sum(band["tokens"] for band in seen["bands"]) == seen["window"]
    assert names[:2] == ["system", "pinned"]
    assert names[-3:] == ["free", "margin", "completion"]
    assert names.index("recent") < names.index("lorebook") < names.index("current")
    items = Counter(each["component"] for each in seen["decisions"] if each["position"] is not None)
    assert {band["name"]: band["items"] for band in seen["bands"] if band["items"]} == items
    used = [band for band in seen["bands"] if band["name"] not in ("free", "margin", "completion")]
    assert sum(band["tokens"] for band in used) == seen["tokens"]


def test_decisions_have_reasons_and_positions(get, kept):
    seen = get(f"/contexts/{kept.first}")
    placed = sorted(
        (each for each in seen["decisions"] if each["position"] is not None), key=lambda each: each["position"]
    )
    assert [each["position"] for each in placed] == list(range(len(placed)))
    assert {each["outcome"] for each in placed} <= {"kept", "shrunk"}
    assert placed[0]["component"] == "system"
    assert placed[-1]["component"] == "current"
    recent = [each["id"] for each in placed if each["component"] == "recent"]
    assert recent == sorted(recent, key=lambda name: int(name[1:]))
    out = lost(seen)
    assert out["position"] is None
    assert out["rank"] > out["cut"]
    assert out["why"].startswith("dropped: ")
    assert out["excerpt"].startswith(f"Turn {out['id'][1:]}: about sencha.")
    assert len(out["excerpt"]) == 200
    assert set(out["score"]) == {"total", "priority", "importance", "relevance", "recency"}


def test_positions_follow_the_request(get, kept):
    seen = get(f"/contexts/{kept.first}")
    request = json.dumps(get(f"/contexts/{kept.first}/request"))
    placed = sorted(
        (each for each in seen["decisions"] if each["position"] is not None), key=lambda each: each["position"]
    )
    at = [request.index(each["excerpt"][:25]) for each in placed if each["excerpt"]]
    assert len(at) > 5
    assert at == sorted(at)


def test_the_request_is_returned_as_sent(get, kept):
    request = get(f"/contexts/{kept.first}/request")
    assert request["model"] == "gpt-4o"
    assert request["messages"][-1]["content"].endswith("Which sencha?")


def test_an_item_is_shown_with_the_window_it_requires(get, kept):
    out = lost(get(f"/contexts/{kept.first}"))
    item = get(f"/contexts/{kept.first}/items/{out['id']}")
    assert item["text"] == f"Turn {out['id'][1:]}: about sencha. " * 12
    assert item["decision"] == out
    assert item["required_window"] > 2_500
    assert item["seen"] == ""
    assert kept.first in {build["id"] for build in item["builds"]}
    assert get(f"/contexts/{kept.first}/items/teas/1")["text"] == "Sencha is green."


def test_the_required_window_is_exact(client, get, kept):
    out = lost(get(f"/contexts/{kept.first}"))["id"]
    window = get(f"/contexts/{kept.first}/items/{out}")["required_window"]
    for size, outcome in ((window, True), (window - 1, False)):
        seen = client.post(f"{ROOT}/contexts/{kept.first}/what-if", json={"window": size}).json()["context"]
        (decision,) = [each for each in seen["decisions"] if each["id"] == out]
        assert (decision["outcome"] == "kept") is outcome


@pytest.mark.parametrize("path", ["", "/request", "/items/m0", "/diff/ctx-1"])
@pytest.mark.parametrize("id", ["ctx-none", "a%00b", "%ED%A0%80"])
def test_an_unknown_context(reader, id, path):
    answer = reader.get(f"{ROOT}/contexts/{id}{path}")
    assert answer.status_code == 404
    assert "error" in answer.json()


def test_an_unknown_item(client, kept):
    error = client.get(f"{ROOT}/contexts/{kept.first}/items/nobody").json()["error"]
    assert error["code"] == "item_not_found"
    assert error["message"] == "'nobody' was not a candidate of this context: it does not exist"


def test_a_memory_that_was_no_candidate_is_explained(client, get, kept):
    bobs = client.post(f"{ROOT}/memories", json={"content": "Bob keeps bees.", "user": "bob", "at": 1.0}).json()
    item = get(f"/contexts/{kept.first}/items/{bobs['id']}")
    assert (item["decision"], item["text"], item["remedies"]) == (None, "Bob keeps bees.", [])
    assert (item["absence"]["kind"], item["absence"]["reason"]) == ("memory-semantic", "other-owner")
    assert item["absence"]["why"].startswith("it belongs to the user 'bob'; this context has")


def test_a_memory_that_search_did_not_offer_is_rated_and_can_be_pinned(client, get, kept):
    other = {"content": "Ada has a canoe.", "user": "ada", "at": 1.0, "id": "canoe"}
    client.post(f"{ROOT}/memories", json=other).raise_for_status()
    item = get(f"/contexts/{kept.first}/items/canoe")
    assert (item["absence"]["reason"], item["absence"]["relevance"]) == ("not-found", None)
    assert item["memory"] == {"persona": None, "user": "ada", "room": None, "pinned": False}
    [pin] = item["remedies"]
    assert pin["change"] == "pin"
    assert pin["tokens"] > 5
    tried = client.post(f"{ROOT}/contexts/{kept.first}/what-if", json={"pin": ["canoe"]}).json()
    [entered] = [each for each in tried["entered"] if each["id"] == "canoe"]
    assert (entered["before"], entered["after"], entered["excerpt"]) == (None, "kept", "Ada has a canoe.")
    assert entered["tokens"] == pin["tokens"]
    assert len(tried["left"]) == pin["left"]


def test_a_memory_that_was_edited_later_is_not_explained_by_its_earlier_text(client, get, kept):
    other = {"content": "Ada has a canoe.", "user": "ada", "at": 1.0, "id": "canoe"}
    client.post(f"{ROOT}/memories", json=other).raise_for_status()
    [before] = get(f"/contexts/{kept.first}/items/canoe")["remedies"]

    def edit(content):
        client.put(f"{ROOT}/memories/canoe", json={"content": content}).raise_for_status()
        return get(f"/contexts/{kept.first}/items/canoe")

    unrelated = edit("Ada has a canoe, a tent and a lamp.")
    assert (unrelated["absence"]["reason"], unrelated["absence"]["relevance"]) == ("edited", None)
    assert unrelated["absence"]["fix"] == "write it in the words that such questions use"
    assert unrelated["remedies"][0]["tokens"] > before["tokens"]
    found = edit("Which sencha?")["absence"]
    assert found["reason"] == "edited"
    assert found["relevance"] > 0.1
    assert found["fix"] == "build a new context, which would find it now"


def test_each_remedy_includes_the_item(client, get, kept):
    out = lost(get(f"/contexts/{kept.first}"))["id"]
    remedies = {each["change"]: each for each in get(f"/contexts/{kept.first}/items/{out}")["remedies"]}
    assert set(remedies) == {"window", "pin"}
    for change, body in (("window", {"window": remedies["window"]["window"]}), ("pin", {"pin": [out]})):
        tried = client.post(f"{ROOT}/contexts/{kept.first}/what-if", json=body).json()
        [decision] = [each for each in tried["context"]["decisions"] if each["id"] == out]
        assert decision["outcome"] in ("kept", "shrunk")
        assert decision["cost"] == remedies[change]["tokens"]
        assert len(tried["left"]) == remedies[change]["left"]


def test_an_included_item_needs_no_remedy(get, kept):
    assert get(f"/contexts/{kept.first}/items/nuts")["remedies"] == []


def test_an_unknown_id_cannot_be_pinned(client, kept):
    answer = client.post(f"{ROOT}/contexts/{kept.first}/what-if", json={"pin": ["nobody"]})
    assert answer.status_code == 404


def outcomes(get, kept, q):
    matches = get(f"/contexts/{kept.first}/find", q=q)["matches"]
    return {each["id"]: each["outcome"] or each["reason"] for each in matches}


def test_candidates_messages_and_memories_are_found_whatever_became_of_them(client, get, kept):
    for user in ("ada", "bob"):
        body = {"content": f"{user} likes gyokuro.", "user": user, "id": f"{user}-gyokuro", "at": 1.0}
        client.post(f"{ROOT}/memories", json=body).raise_for_status()
    client.post(f"{ROOT}/rooms", json={"id": "attic"}).raise_for_status()
    client.post(f"{ROOT}/rooms/attic/messages", json={"content": "Gyokuro is shaded.", "id": "far", "at": 1.0})
    assert outcomes(get, kept, "gyokuro") == {
        "ada-gyokuro": "not-found",
        "bob-gyokuro": "other-owner",
        "far": "other-room",
    }
    assert outcomes(get, kept, "OKURO SHADE") == {"far": "other-room"}  # parts of words
    assert outcomes(get, kept, "hazelnut allergic") == {"nuts": "kept"}
    assert outcomes(get, kept, "far") == {"far": "other-room"}
    out = lost(get(f"/contexts/{kept.first}"))
    assert outcomes(get, kept, out["id"])[out["id"]] == "dropped"
    for unknown in ("xylophone", "kabusecha"):  # the answer itself is no match
        assert get(f"/contexts/{kept.first}/find", q=unknown) == {"matches": [], "partial": False}


def test_dropped_items_are_listed_before_included_ones(get, kept):
    found = get(f"/contexts/{kept.first}/find", q="turn about sencha", limit=3)
    assert [each["outcome"] for each in found["matches"]] == ["dropped"] * 3 + [None] * 3 + ["kept"] * 3
    assert found["partial"] is True


def test_messages_that_are_not_scanned_are_found_by_whole_words(kept, tmp_path):
    async def find(text):
        async with Engine(store_of(tmp_path), embedder="none") as engine:
            await engine.post(room="attic", text="Gyokuro is shaded.", id="far", at=1.0)
            snapshot = await engine.store.snapshot(kept.first)
            found, complete = await find_absent(
                engine, snapshot, FindQuery(q=text), ["tea/room", "attic"], max_scanned=1
            )
            return [match.id for match in found], complete

    assert asyncio.run(find("gyokuro")) == (["far"], False)
    assert asyncio.run(find("okuro")) == ([], False)


def test_two_contexts_side_by_side(get, kept):
    seen = get(f"/contexts/{kept.first}/diff/{kept.second}")
    assert (seen["before"]["id"], seen["after"]["id"]) == (kept.first, kept.second)
    assert 0 < seen["prefix_share"] < 1
    same = [message["same"] for message in seen["messages"]]
    assert same[0] is True
    assert same[-1] is False
    assert same == sorted(same, reverse=True)
    changes = [*seen["entered"], *seen["left"], *seen["changed"]]
    assert changes
    assert all(change["kind"] for change in changes)
    alike = get(f"/contexts/{kept.first}/diff/{kept.first}")
    assert alike["prefix_share"] == 1
    assert all(message["same"] for message in alike["messages"])


def test_changes_have_the_relevance_that_search_gave_them(get, kept):
    found = get(f"/contexts/{kept.first}/diff/{kept.second}")
    changes = {each["id"]: each for side in ("entered", "left", "changed") for each in found[side]}
    rated = {each["id"]: each["score"] for each in get(f"/contexts/{kept.second}")["decisions"] if each["score"]}
    memories = [id for id, each in changes.items() if each["kind"] == "message-older" and id in rated]
    assert memories
    assert all(changes[id]["relevance"] == rated[id]["relevance"] for id in memories)
    assert all(each["relevance"] is None for each in changes.values() if each["kind"] == "message-recent")


def test_erased_content_is_not_shown(client, get, kept):
    assert get(f"/contexts/{kept.first}/items/nuts")["text"] == "Ada is allergic to hazelnut."
    assert client.delete(f"{ROOT}/memories/nuts", params={"erase": True}).status_code == 200
    assert get(f"/contexts/{kept.first}/items/nuts")["text"] == ""
    assert "hazelnut" not in client.get(f"{ROOT}/contexts/{kept.first}").text
    assert "hazelnut" not in client.get(f"{ROOT}/contexts/{kept.first}/request").text


def test_the_later_status_of_a_candidate_is_shown(client, get, kept):
    def since(item):
        return get(f"/contexts/{kept.first}/items/{item}")["status"]

    message = next(each for each in get(f"/contexts/{kept.first}")["decisions"] if each["kind"] == "message-recent")
    items = ("nuts", "four", "teas/1", message["id"])
    assert [since(item) for item in items] == ["", "", "", ""]
    client.delete(f"{ROOT}/memories/four").raise_for_status()
    client.delete(f"{ROOT}/lorebooks/teas/entries/teas/1").raise_for_status()
    client.delete(f"{ROOT}/memories/nuts", params={"erase": True}).raise_for_status()
    assert [since(item) for item in items] == ["erased", "removed", "removed", ""]
    assert get(f"/contexts/{kept.first}/items/four")["text"] == "Ada drinks tea at four."


def test_contexts_of_a_removed_room_are_removed(client, kept):
    client.get(f"{ROOT}/contexts/{kept.first}")
    assert client.delete(f"{ROOT}/rooms/tea/room").status_code == 200
    assert client.get(f"{ROOT}/contexts/{kept.first}").status_code == 404


def test_reading_writes_nothing(client, get, kept, tmp_path):
    for path in (f"/contexts/{kept.first}", f"/contexts/{kept.first}/items/nuts", "/memories", "/rooms"):
        get(path)
    client.post(f"{ROOT}/contexts/{kept.first}/what-if", json={"window": 4_000})

    async def builds():
        async with connect(store_of(tmp_path)) as database:
            return await database.tenant("default").builds()

    assert len(asyncio.run(builds())) == 2


def test_the_contexts_of_a_message(get, kept):
    seen = get(f"/contexts/{kept.first}")
    [answer] = seen["answers"]
    assert [each["id"] for each in get("/contexts", message=answer["message"])["contexts"]] == [kept.first]
    assert get("/contexts", message=answer["message"], persona="nobody")["contexts"] == []
    assert len(get("/contexts", message=answer["message"], user="ada")["contexts"]) == 1
    assert get("/contexts", message=answer["message"], user="bob")["contexts"] == []
    assert get("/contexts", message=answer["message"], before=seen["number"])["contexts"] == []
    assert get("/contexts", message="m1") == {"contexts": [], "next": None}


def test_dropped_items_are_recalled(client, get, kept):
    item = lost(get(f"/contexts/{kept.first}"))["id"]
    whole = get(f"/contexts/{kept.first}/recall", handle=item)
    assert (whole["id"], whole["whole"], whole["outcome"]) == (item, True, "dropped")
    assert whole["text"] == get(f"/contexts/{kept.first}/items/{item}")["text"]
    part = get(f"/contexts/{kept.first}/recall", handle=item, query="sencha", max_tokens=20)
    assert not part["whole"]
    assert part["tokens"] <= 20
    found = get(f"/contexts/{kept.first}/recall", query=whole["text"].partition(":")[0])
    assert item in [passage["handle"] for passage in found["passages"]]
    client.delete(f"{ROOT}/messages/{item}").raise_for_status()
    gone = client.get(f"{ROOT}/contexts/{kept.first}/recall", params={"handle": item})
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "erased")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"handle": "nobody"}, (404, "handle_not_found", "handle")),
        ({}, (400, None, "handle")),
        ({"handle": "nuts", "max_tokens": 0}, (400, None, "max_tokens")),
    ],
)
def test_items_that_cannot_be_recalled_say_why(reader, kept, query, expected):
    answer = reader.get(f"{ROOT}/contexts/{kept.first}/recall", params=query)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == expected


def test_an_item_has_the_beginning_of_a_long_text(start, tmp_path):
    async def story():
        async with Engine(store_of(tmp_path), model="gpt-4o", embedder="none") as engine:
            await engine.post(room="r", text="word " * 4_000, id="long", at=1.0)
            return await engine.assemble(room="r", message="Hi?", window=2_000, completion=100, now=2.0)

    context = asyncio.run(story())
    client = start(remember={"embedder": "none"})
    item = client.get(f"{ROOT}/contexts/{context.id}/items/long").json()
    assert (len(item["text"]), item["characters"]) == (5_000, 20_000)
    decision = item["decision"]
    assert decision["form"] in ("digest", "stub")
    assert decision["tokens"] < decision["size"] == 4_001
    sent = [message["content"] for message in client.get(f"{ROOT}/contexts/{context.id}/request").json()["messages"]]
    assert item["seen"] in sent
    assert item["handle"] == context.handle("long")


def test_the_list_has_questions_answers_and_cached_tokens(get, tmp_path, kept):
    second, first = get("/contexts", room="tea/room")["contexts"]
    assert (first["id"], second["id"]) == (kept.first, kept.second)
    assert (first["answer"], first["cached"]) == ("Kabusecha.", 100)
    assert (second["answer"], second["cached"], second["expected_cached"]) == ("", None, None)

    async def ask():
        async with Engine(store_of(tmp_path), model="gpt-4o", embedder="none") as engine:
            message = await engine.post(room="tea/room", text="Is it\nfour?", id="question")
            await engine.assemble(room="tea/room", message=message)

    asyncio.run(ask())
    newest = get("/contexts", limit=1)["contexts"][0]
    assert (newest["message"], newest["question"]) == ("question", "Is it four?")
    before, after = (get(f"/contexts/{kept.first}/diff/{newest['id']}")[side] for side in ("before", "after"))
    assert (before["answer"], after["question"]) == ("Kabusecha.", "Is it four?")


def test_messages_have_the_contexts_that_were_built_for_them_or_that_they_answer(get, tmp_path, kept):
    async def ask():
        async with Engine(store_of(tmp_path), model="gpt-4o", embedder="none") as engine:
            message = await engine.post(room="tea/room", text="Is it four?", id="question")
            return await engine.assemble(room="tea/room", message=message)

    context = asyncio.run(ask())
    found = {each["role"]: each["context"] for each in get("/rooms/tea/room/messages", limit=2)["messages"]}
    assert found == {"user": context.id, "assistant": kept.first}
    assert get("/rooms/tea/room/messages", q="sencha")["messages"][0]["context"] is None


def test_models_come_with_the_names_of_the_upstreams(get):
    assert get("/models")["upstreams"] == ["local"]


def test_tokens_are_counted_for_the_model_of_the_newest_context(client, get, tmp_path):
    async def build():
        async with Engine(store_of(tmp_path), model="gpt-4", embedder="none") as engine:
            await engine.assemble(room="tea/room", message="Which?")

    def count(**model):
        return client.post(f"{ROOT}/count", json={"text": "Добрый вечер, Нова!"} | model).json()["tokens"]

    assert get("/models")["default"] == "gpt-4o"
    assert count() == count(model="gpt-4o") < count(model="gpt-4")
    asyncio.run(build())
    assert get("/models")["default"] == "gpt-4"
    assert count() == count(model="gpt-4")
