"""Why a record was not a candidate."""

import re

import pytest

from brimful.engine.absence import find_absence
from brimful.records import Lorebook, LoreEntry, Room
from brimful.retrieval.documents import make_document
from brimful.testing import ScriptedProvider

NOW = 1_794_000_000.0
BICYCLES = 60


@pytest.fixture
def why(run, new_engine):
    """Return a function that builds a context in a room of Ada's, and says why some ids were no candidates."""

    def ask(*ids):
        async def story():
            async with new_engine(model="gpt-4") as engine:
                await engine.put(Room(id="hall", user="ada", lorebooks=("book",)))
                await engine.put(Lorebook(id="book"))
                entries = [
                    LoreEntry(id="dragon", lorebook="book", content="Dragons sleep.", keys=("dragon",)),
                    LoreEntry(id="off", lorebook="book", content="Bicycles rust.", keys=("bicycle",), enabled=False),
                ]
                await engine.store.save_lore([(entry, make_document(entry)) for entry in entries])
                for script in ('"text": "Ada lives in Paris."', '"text": "Ada lives in Lyon.", "replaces": "k1"'):
                    model = ScriptedProvider([f'{{"facts": [{{{script}, "messages": [1]}}]}}'])
                    await engine.learn([script], user="ada", provider=model, now=NOW - 9)
                for number in range(BICYCLES):
                    await engine.remember(f"A bicycle of kind {number}.", id=f"b{number}", user="ada", at=NOW - 10)
                await engine.remember("Ada keeps bees.", id="bees", user="ada", at=NOW - 10)
                await engine.remember("Bob keeps bees.", id="bobs", user="bob", at=NOW - 10)
                await engine.remember("Nova keeps bees.", id="novas", persona="nova", at=NOW - 10)
                await engine.remember("A bicycle came.", id="late", user="ada", at=NOW + 10)
                await engine.put(Room(id="cellar", user="bob"))
                await engine.put(Lorebook(id="other"))
                await engine.write_lore([LoreEntry(id="elf", lorebook="other", content="Elves.", keys=("bicycle",))])
                await engine.post(room="cellar", text="Bees!", id="private", at=NOW - 10)
                await engine.post(room="street", text="Bees!", id="elsewhere", at=NOW - 10)
                await engine.post(room="hall", text="A draft!", id="draft", at=NOW - 10)
                await engine.supersede(["draft"])
                await engine.post(room="hall", text="A bicycle!", id="hidden", at=NOW - 10, hidden=True)
                context = await engine.assemble(room="hall", message="Which bicycle?", now=NOW)
                await engine.post(room="hall", text="And then?", id="later", at=NOW + 20)
                snapshot = await engine.store.snapshot(context.id)
                archived = (await engine.list_memories(archived=True)).memories
                names = [archived[0].id if id == "archived" else id for id in ids]
                return [await find_absence(engine.store, snapshot, name) for name in names]

        return run(story())

    return ask


REASONS = {
    "bobs": ("other-owner", "it belongs to the user 'bob'; this context has the user 'ada'"),
    "novas": ("other-owner", "it belongs to the persona 'nova'; this context has no persona"),
    "late": ("later", "it was written after this context was built"),
    "archived": ("archived", "it is archived: a newer memory superseded it, or the janitor archived it"),
    "elsewhere": ("other-room", "it was posted in room 'street', which was not searched or had no better results"),
    "private": ("other-room", "it was posted in room 'cellar' of the user 'bob'; this context has the user 'ada'"),
    "draft": ("archived", "a later version of it superseded it"),
    "hidden": ("hidden", "it is hidden, so no context includes it"),
    "later": ("later", "it was posted after this context was built"),
    "dragon": ("no-keyword", "none of its keywords appeared, and search did not find it"),
    "elf": ("other-lorebook", "its lorebook 'other' belongs to neither the room nor the persona nor the user"),
    "off": ("disabled", "it is disabled"),
}


def test_each_reason_is_given_with_what_to_do(why):
    absences = why(*REASONS)
    assert {id: (each.reason, each.why) for id, each in zip(REASONS, absences, strict=True)} == REASONS
    assert all(each.fix for each in absences)


def test_a_record_that_search_did_not_find(why):
    [found] = why("bees")
    assert (found.kind, found.text) == ("memory-semantic", "Ada keeps bees.")
    assert found.reason == "not-found"
    assert re.fullmatch(r"search offered \d+ other memories instead \(relevance .+ %\)", found.why)
    assert found.fix == "write it in the words that such questions use"


def test_an_unknown_record_has_no_absence(why):
    assert why("nothing") == [None]
