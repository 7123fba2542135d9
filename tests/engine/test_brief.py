"""What a helper needs of a stored room."""

import pytest

from brimful.errors import BudgetExceeded, InvalidValue
from brimful.records import Persona, Room

NOW = 1_794_000_000.0
TASK = "Order a birthday cake for Ada."


@pytest.fixture
def story(run, new_engine):
    """Return a function that fills a room, and then tells what a test does with it."""

    def tell(part, **settings):
        async def whole():
            async with new_engine(model="gpt-4o", **settings) as engine:
                await engine.put(Persona(id="nova", prompt="You are Nova, and never say so."))
                await engine.put(Room(id="hall", user="ada", persona="nova"))
                for day in range(60):
                    text = f"Day {day}: the ladder is blue, and the shed is still full of pots and old paint."
                    await engine.post(room="hall", sender="Ada", text=text, at=NOW - 800 + day)
                await engine.post(room="hall", sender="Ada", text="My party is on Friday.", id="party", at=NOW - 100)
                await engine.post(room="attic", sender="Bob", text="The cake for Ada is a secret.", at=NOW - 90)
                await engine.remember("Ada cannot eat nuts.", id="nuts", user="ada", pinned=True, at=NOW - 10)
                await engine.remember("Ada loves cake with cherries.", id="cherries", user="ada", at=NOW - 10)
                await engine.remember("Bob loves cake with rum.", id="rum", user="bob", at=NOW - 10)
                return await part(engine)

        return run(whole())

    return tell


def test_has_what_was_said_last_and_the_memories_that_match(story):
    async def part(engine):
        made = await engine.brief("hall", TASK, 400, now=NOW)
        assert made.tokens <= 400
        assert "Ada → My party is on Friday." in made.text
        assert "Ada cannot eat nuts." in made.text
        assert "Ada loves cake with cherries." in made.text
        for private in ("with rum", "secret", "Nova"):
            assert private not in made.text
        return True

    assert story(part)


def test_handles_are_recalled_on_behalf_of_the_same_people(story):
    async def part(engine):
        made = await engine.brief("hall", TASK, 200, now=NOW)
        assert (await engine.recall("party", context=made.context)).text == "My party is on Friday."
        assert (await engine.recall("cherries", context=made.context.id)).text == "Ada loves cake with cherries."
        found = await engine.recall(query="ladder of day 17", context=made.context)
        assert "Day 17" in found.text
        assert "secret" not in (await engine.recall(query="cake", context=made.context)).text
        return True

    assert story(part)


def test_the_next_context_of_the_room_begins_where_it_would(story):
    async def part(engine):
        options = {"room": "hall", "message": "Hello?", "window": 700, "completion": 100, "now": NOW}
        plain = await engine.assemble(**options, save=False)
        await engine.brief("hall", TASK, 300, now=NOW)
        assert (await engine.assemble(**options, save=False)).request == plain.request
        return True

    assert story(part)


def test_an_empty_room_and_wrong_arguments(story):
    async def part(engine):
        assert (await engine.brief("cellar", TASK, 300, user="nobody", now=NOW)).text == ""
        with pytest.raises(BudgetExceeded):
            await engine.brief("hall", TASK, 5, now=NOW)
        with pytest.raises(InvalidValue, match="task"):
            await engine.brief("hall", "", 5, now=NOW)
        return True

    assert story(part)
