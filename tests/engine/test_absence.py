"""Why a record was not a candidate."""

import pytest

from brimful.engine.absence import find_absence
from brimful.records import Lorebook, LoreEntry, Room
from brimful.retrieval.documents import make_document

NOW = 1_794_000_000.0
BICYCLES = 60


@pytest.fixture
def why(run, new_engine):
    """Return a function that builds a context in a room of Ada's, and says why an id was no candidate."""

    def ask(id, **settings):
        async def story():
            async with new_engine(model="gpt-4", **settings) as engine:
                await engine.put(Room(id="hall", user="ada"))
                await engine.put(Lorebook(id="book"))
                entries = [
                    LoreEntry(id="dragon", lorebook="book", content="Dragons sleep.", keys=("dragon",)),
                    LoreEntry(id="off", lorebook="book", content="Bicycles rust.", keys=("bicycle",), enabled=False),
                ]
                await engine.store.save_lore([(entry, make_document(entry)) for entry in entries])
                for number in range(BICYCLES):
                    await engine.remember(f"A bicycle of kind {number}.", id=f"b{number}", user="ada", at=NOW - 10)
                await engine.remember("Ada keeps bees.", id="bees", user="ada", at=NOW - 10)
                await engine.remember("Bob keeps bees.", id="bobs", user="bob", at=NOW - 10)
                await engine.remember("Nova keeps bees.", id="novas", persona="nova", at=NOW - 10)
                await engine.remember("A bicycle came.", id="late", user="ada", at=NOW + 10)
                await engine.post(room="street", text="Bees!", id="elsewhere", at=NOW - 10)
                await engine.put(Room(id="attic", user="bob"))
                await engine.post(room="attic", text="Bees!", id="of-bob", at=NOW - 10)
                await engine.post(room="hall", text="A bicycle!", id="hidden", at=NOW - 10, hidden=True)
                context = await engine.assemble(room="hall", message="Which bicycle?", now=NOW)
                await engine.post(room="hall", text="And then?", id="later", at=NOW + 20)
                snapshot = await engine.store.snapshot(context.id)
                return await find_absence(engine.store, snapshot, id)

        return run(story())

    return ask


@pytest.mark.parametrize(
    ("id", "reason"),
    [
        ("bobs", "it belongs to the user 'bob'; this context has the user 'ada'"),
        ("novas", "it belongs to the persona 'nova'; this context has no persona"),
        ("late", "it was written after this context was built"),
        ("elsewhere", "it was posted in room 'street', which was not searched or had no better results"),
        ("of-bob", "it was posted in room 'attic' of the user 'bob'; this context has the user 'ada'"),
        ("hidden", "it is hidden, so no context includes it"),
        ("later", "it was posted after this context was built"),
        ("dragon", "none of its keywords appeared, and search did not find it"),
        ("off", "it is disabled"),
    ],
)
def test_each_reason_is_given(why, id, reason):
    assert why(id).why == reason


def test_a_record_that_search_did_not_find(why):
    found = why("bees")
    assert (found.kind, found.text) == ("memory-semantic", "Ada keeps bees.")
    assert found.why.startswith("search found ")
    assert found.why.endswith("pin it to have it in every context")


def test_an_unknown_record_has_no_absence(why):
    assert why("nothing") is None
