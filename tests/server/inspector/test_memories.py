"""Where memories come from, what replaced what, what was true when, and the audit."""

import asyncio
import json
import re

import pytest

from brimful.engine import Engine
from brimful.records import Memory, Message, Room
from brimful.testing import ScriptedProvider
from server.inspector.conftest import NOW, ROOT, store_of

DAY = 86_400.0
MOVES = ("Paris", "Rome", "Porto")


def moved(request):
    """Answer as a model that learns where somebody lives, and that it replaces what is known."""
    said = "\n".join(str(message["content"]) for message in request["messages"][1:])
    place = re.search(r"\(1\) (?:.*)I live in (\w+)\.", said)[1]
    known = re.search(r"\((k\d+)\) .* lives in", said)
    return json.dumps(
        {"facts": [{"text": f"Ada lives in {place}.", "messages": [1], "replaces": known and known[1]}], "outdated": []}
    )


async def tell(url):
    """Let Ada move twice, a day apart, and remember things that are not worth it."""
    provider = ScriptedProvider([moved] * len(MOVES))
    times = {}
    async with Engine(url, model="gpt-4o", embedder="none", provider=provider, clock=lambda: NOW) as engine:
        await engine.put(Room(id="codex/c0de", name="A session"))
        for day, place in enumerate(MOVES):
            message = Message(
                id=f"codex/c0de/{day}", room="codex/c0de", content=f"I live in {place}.", at=NOW + day * DAY
            )
            await engine.post_many([message])
            report = await engine.learn([message], user="ada", model="gpt-4o")
            times[place] = report.changes[0].memory.id
        await engine.remember_many(
            [
                Memory(id="tea", content="Ada likes green tea in the morning.", user="ada", at=NOW - 400 * DAY),
                Memory(id="tea-again", content="Ada likes green tea in the morning!", user="ada", at=NOW - 9 * DAY),
                Memory(id="page", content="<html><body>Not found</body></html>", user="ada", at=NOW - 9 * DAY),
                Memory(id="kept", content="12345 67890", user="ada", at=NOW - 9 * DAY, pinned=True),
                Memory(id="call", content="Ada takes her coffee black.", user="ada", at=NOW - 9 * DAY, source="mcp"),
                Memory(id="sillytavern/1", content="Nova is a ship.", user="ada", at=NOW - 9 * DAY),
                Memory(id="crm", content="Ada is a customer since May.", user="ada", at=NOW - 9 * DAY, source="crm"),
            ]
        )
        await engine.propose("Ada was a customer until June.", user="ada", id="crm", at=NOW - 2 * DAY)
    return times


@pytest.fixture
def moves(empty_sqlite, tmp_path):  # noqa: ARG001 - the store is there before the server
    return asyncio.run(tell(store_of(tmp_path)))


@pytest.fixture
def client(start, moves):  # noqa: ARG001 - what it shows
    return start(remember={"embedder": "none"})


def ask(client, path, **query):
    answer = client.get(ROOT + path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_chain_shows_what_replaced_what_from_any_of_its_memories(client, moves):
    for place in MOVES:
        chain = ask(client, f"/memories/{moves[place]}/chain")["memories"]
        assert [each["content"] for each in chain] == [f"Ada lives in {place}." for place in MOVES]
    assert [each["replaces"] for each in chain] == [None, moves["Paris"], moves["Rome"]]
    assert [each["archival"] and each["archival"]["replaced_by"] for each in chain] == [
        moves["Rome"],
        moves["Porto"],
        None,
    ]
    assert chain[0]["archival"]["at"] == NOW + DAY
    assert client.get(f"{ROOT}/memories/nope/chain").status_code == 404


def test_a_proposal_replaces_a_memory_when_it_is_confirmed(client):
    (proposal,) = ask(client, "/memories", state="proposed")["memories"]
    assert ask(client, "/memories/crm/chain")["memories"][0]["archival"] is None
    assert client.post(f"{ROOT}/memories/review", json={"confirm": [proposal["id"]]}).is_success
    old, new = ask(client, "/memories/crm/chain")["memories"]
    assert (old["archival"]["replaced_by"], old["archival"]["at"]) == (proposal["id"], NOW - 2 * DAY)
    assert (new["id"], new["replaces"]) == (proposal["id"], "crm")


def test_a_list_as_of_a_time_has_what_was_true_then(client):
    def homes(at):
        found = ask(client, "/memories", user="ada", q="lives", as_of=at)["memories"]
        return [each["content"] for each in found]

    assert homes(NOW - 1) == []
    assert homes(NOW) == homes(NOW + DAY - 1) == ["Ada lives in Paris."]
    assert homes(NOW + DAY) == ["Ada lives in Rome."]
    assert homes(NOW + 9 * DAY) == ["Ada lives in Porto."]
    assert client.get(f"{ROOT}/memories", params={"as_of": "soon"}).status_code == 400


def test_pages_as_of_a_time_have_each_memory_once(client):
    seen, before = [], ""
    while before is not None:
        page = ask(client, "/memories", as_of=NOW + DAY, limit=2, before=before)
        seen += [each["id"] for each in page["memories"]]
        before = page["next"]
    assert len(seen) == len(set(seen)) == 8  # the second home, and seven others


def test_each_memory_says_where_it_comes_from(client, moves):
    found = {each["id"]: each for each in ask(client, "/memories")["memories"]}
    origins = {id: (each["origin"], each["program"]) for id, each in found.items()}
    assert origins[moves["Porto"]] == ("session", "codex")
    assert origins["call"] == ("tool", "mcp")
    assert origins["sillytavern/1"] == ("import", "sillytavern")
    assert origins["crm"] == ("other", "crm")
    assert origins["tea"] == ("direct", "")


def test_the_audit_lists_proposals_with_their_memories(client):
    found = ask(client, "/audit", user="ada", unused_for="1d")
    assert {(each["kind"], each["id"], each["other"]) for each in found["findings"]} >= {
        ("near-duplicate", "tea", "tea-again"),
        ("junk", "page", ""),
    }
    assert found["counts"]["junk"] == 1
    assert found["records"]["tea-again"]["content"] == "Ada likes green tea in the morning!"
    first = ask(client, "/audit", unused_for="1d", limit=1)
    assert len(first["findings"]) == len(first["counts"])
    assert first["counts"] == found["counts"]
    assert client.get(f"{ROOT}/audit", params={"unused_for": "soon"}).status_code == 400


def test_chosen_memories_are_archived_in_one_run_and_restored_by_undo(client):
    before = ask(client, "/memories")
    answer = client.post(f"{ROOT}/audit", json={"ids": ["tea", "page", "kept", "nope"]})
    assert (answer.status_code, answer.json()["archived"]) == (200, 2)
    run = answer.json()["run"]
    assert {each["id"] for each in before["memories"]} - {
        each["id"] for each in ask(client, "/memories")["memories"]
    } == {
        "tea",
        "page",
    }
    (archived,) = ask(client, "/memories", archived=True, prefix="tea")["memories"]
    assert (archived["archival"]["kind"], archived["archival"]["replaced_by"]) == ("janitor", None)
    assert client.post(f"{ROOT}/janitor/undo", params={"run": run}).json()["state"] == "undone"
    assert ask(client, "/memories") == before
    assert client.post(f"{ROOT}/janitor/undo", params={"run": run}).status_code == 404


def test_only_the_last_run_is_undone(client):
    first, second = (client.post(f"{ROOT}/audit", json={"ids": [id]}).json()["run"] for id in ("tea", "page"))
    refused = client.post(f"{ROOT}/janitor/undo", params={"run": first})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "run")
    assert str(second) in refused.json()["error"]["message"]
    assert client.post(f"{ROOT}/janitor/undo", params={"run": second}).status_code == 200
    assert client.post(f"{ROOT}/janitor/undo", params={"run": first}).status_code == 200


def test_nothing_to_archive_is_no_run(client):
    answer = client.post(f"{ROOT}/audit", json={"ids": ["kept", "nope"]})
    assert (answer.status_code, answer.json()) == (200, {"archived": 0, "run": None})
    assert client.post(f"{ROOT}/audit", json={"ids": []}).status_code == 400
