"""Lore in contexts: included when its keyword appears, on the record otherwise, with a stable prefix."""

from itertools import pairwise

import msgspec

import brimful
from brimful.formats.lorebooks import read_lorebook, read_lorebook_entries, write_lorebook
from brimful.records import Lorebook, LoreEntry, Persona, Room, User
from brimful.records.character import Character

NOW = 1_794_000_000.0


def lore(id, *keys, vector=False, **more):
    content = more.pop("content", f"About {id}.")
    return LoreEntry(id=id, lorebook="world", content=content, keys=keys, vector=vector, **more)


async def furnished(engine, *entries, **rules):
    await engine.put(Lorebook(id="world", name="Eldoria", **rules))
    await engine.put(Room(id="r", lorebooks=("world",), user="ada"))
    await engine.write_lore(list(entries))


async def talk(engine, *said, start=0):
    for at, text in enumerate(said, start=start):
        role = "assistant" if at % 2 else "user"
        await engine.post(room="r", text=text, role=role, sender="Ada" if role == "user" else "", at=NOW - 1000 + at)


def test_the_record_says_why_lore_is_included_or_excluded(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(
                engine,
                lore("tower", "tower", content="It speaks of the moat."),
                lore("moat", "moat"),
                lore("never", "tower", probability=0.0),
                lore("law", constant=True),
                recursion=3,
            )
            await talk(engine, "Hello.", "Hello, you.")
            context = await engine.assemble(room="r", message="Who built the tower?", now=NOW)
            return context, (await engine.store.snapshot(context.id)).context

    context, stored = run(story())
    assert {"tower", "moat", "law"} <= set(context.kept)
    assert {package.id: package.metadata["lore"] for package in context.inputs.packages if package.id in "lawmoat"} == {
        "law": {"by": "constant"},
        "moat": {"by": "keyword", "keyword": "moat", "location": "entry", "where": "tower"},
    }
    assert context.explain("tower").endswith("candidate because keyword 'tower' in the current message")
    assert context.explain("moat").endswith("candidate because keyword 'moat' in entry 'tower'")
    assert context.explain("never").startswith("dropped: excluded, probability: rolled 0.")
    assert context.decision("never").reason == "excluded"
    assert stored == context
    assert brimful.replay(stored).decisions == context.decisions


def test_entries_of_a_lorebook_stay_within_its_budget(run, new_engine):
    async def story(budget):
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            entries = [lore(f"e{n}", "tower", content=f"The tower has a window no. {n}.") for n in range(20)]
            await furnished(engine, *entries, lore("law", constant=True), budget=budget)
            return await engine.assemble(room="r", message="Who built the tower?", now=NOW)

    for budget in (60, 100, 200):
        context = run(story(budget))
        costs = [each.cost for each in context.decisions if each.kind.startswith("lorebook") and each.included]
        assert budget - max(costs) < sum(costs) <= budget


def test_sticky_and_cooldown_survive_a_restart_and_a_second_build(run, new_engine):
    said = ["The tower!", "Yes.", "Hm.", "So.", "Well.", "Yes."]

    async def report():
        """Return what each turn tells, built by an engine that was opened for it alone."""
        turns = []
        for end in range(2, len(said) + 1, 2):
            async with new_engine(model="gpt-4o", embedder="none") as engine:
                if end == 2:
                    await furnished(engine, lore("tower", "tower", sticky=4, cooldown=4), scan_depth=1)
                await talk(engine, *said[end - 2 : end], start=end - 2)
                kept = [(await engine.assemble(room="r", message="Go on.", now=NOW)).kept for _ in range(2)]
                assert kept[0] == kept[1], "built again, a turn tells the same"
                turns.append("tower" in kept[0])
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            cooling = await engine.assemble(room="r", message="The tower?", now=NOW)
        return turns, cooling

    turns, cooling = run(report())
    assert turns == [True, False, False]
    assert "cooldown: not before message" in cooling.explain("tower")


def test_activation_does_not_depend_on_the_window(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(engine, lore("tower", "tower", sticky=120, cooldown=9), scan_depth=2)
            await talk(engine, "The tower!", *["Something else that is said at some length, " * 8] * 99)
            small = await engine.assemble(room="r", message="Go on.", now=NOW, window=1200, completion=200, save=False)
            large = await engine.assemble(room="r", message="Go on.", now=NOW, save=False)
            return small, large

    small, large = run(story())
    assert small.explanations["tower"] == large.explanations["tower"] == "sticky until message 121"


def test_lore_that_comes_and_goes_leaves_the_prefix_alone(run, new_engine):
    """Forty turns: entries come and go with nearly each of them, and what stood before the last words stays."""

    async def story():
        contexts = []
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(
                engine,
                lore("law", constant=True, content="Nobody lies in Eldoria."),
                lore("mood", constant=True, probability=0.5),
                *(lore(f"place-{at}", f"place {at}", sticky=3 * (at % 2)) for at in range(7)),
                scan_depth=2,
            )
            for at in range(40):
                await talk(engine, f"Tell me of place {at % 7}.", start=2 * at)
                contexts.append(await engine.assemble(room="r", now=NOW + at))
                await talk(engine, f"It is number {at}.", start=2 * at + 1)
        return contexts

    contexts = run(story())
    rows = [{id for id in context.kept if id.startswith(("place", "mood"))} for context in contexts]
    assert sum(one != other for one, other in pairwise(rows)) > 30
    for before, after in pairwise(contexts):
        first, second = before.request["messages"], after.request["messages"]
        history = len(first) - 2  # all but lore and the message that was to be answered
        assert "Nobody lies" in str(first[0])
        assert first[:history] == second[:history]


def test_a_context_warns_about_constant_lore_that_does_not_fit(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(engine, lore("law", constant=True, content="Nobody lies. " * 300))
            crowded = await engine.assemble(room="r", message="Hi", now=NOW, window=2000, completion=500)
            await engine.put(Lorebook(id="world", name="Eldoria", budget=100))
            return crowded, await engine.assemble(room="r", message="Hi", now=NOW)

    crowded, poor = run(story())
    assert [(notice.kind, notice.facts) for notice in crowded.warnings] == [("required-shrunk", {"ids": ["law"]})]
    assert [(notice.kind, notice.facts) for notice in poor.warnings] == [("lore-dropped", {"entry": "law"})]
    assert poor.decision("law").reason == "excluded"


def test_names_are_filled_into_keys_and_texts(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(engine, lore("friend", "{{char}}", content="{{char}} likes {{user}}."))
            for id, name in (("nova", "Nova"), ("rex", "Rex")):
                await engine.put(Persona(id=id, name=name, character=Character(description="x")))
            await engine.put(User(id="ada", name="Ada"))
            return [
                str((await engine.assemble(room="r", persona=who, message="I like Nova.", now=NOW)).request)
                for who in ("nova", "rex", "nova")
            ]

    nova, rex, again = run(story())
    assert "Nova likes Ada." in nova
    assert "likes Ada" not in rex
    assert again == nova


def test_entries_filter_personas_and_match_their_description(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(
                engine,
                lore("hers", "hello", personas=("Nova",)),
                lore("others", "hello", personas=("Nova",), exclude_personas=True),
                lore("home", "moor", sources=("description",)),
                lore("fan", "sailing", sources=("user",)),
            )
            await engine.put(Persona(id="nova", name="Nova", character=Character(description="Born on the moor.")))
            await engine.put(User(id="ada", metadata={"description": "Loves sailing."}))
            return await engine.assemble(room="r", persona="nova", message="Hello!", now=NOW)

    context = run(story())
    assert {"hers", "home", "fan"} <= set(context.kept)
    assert "others" not in context.kept
    assert "persona" in context.explain("others")


def test_retrieval_finds_lore_that_allows_it(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await furnished(
                engine,
                lore("tea", content="In the valley they drink green tea with butter.", vector=True),
                lore("secret", content="In the valley they drink black tea with salt."),
            )
            await engine.wait_indexed()
            return await engine.assemble(room="r", message="Which tea do they drink in the valley?", now=NOW)

    context = run(story())
    assert "tea" in context.kept
    assert "found by retrieval" in context.explain("tea")
    assert "secret" not in {package.id for package in context.inputs.packages}


def test_a_change_of_a_lorebook_is_noticed_at_once(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine, new_engine(embedder="none") as other:
            await furnished(engine, lore("tower", "tower"))
            kept = [(await engine.assemble(room="r", message="towers", now=NOW)).kept]
            await other.put(Lorebook(id="world", whole_words=False))
            kept.append((await engine.assemble(room="r", message="towers", now=NOW)).kept)
            await other.write_lore([lore("tower", "tower", enabled=False)])
            kept.append((await engine.assemble(room="r", message="towers", now=NOW)).kept)
            return ["tower" in each for each in kept]

    assert run(story()) == [False, True, False]


def test_every_field_of_an_entry_is_stored(run, new_engine):
    entry = LoreEntry(
        id="e",
        lorebook="world",
        content="x",
        keys=("a",),
        secondary=("b",),
        logic="not-all",
        regex=True,
        case_sensitive=False,
        whole_words=True,
        vector=False,
        priority=2.5,
        probability=0.25,
        ignore_budget=True,
        scan_depth=0,
        sources=("user", "scenario"),
        exclude_recursion=True,
        prevent_recursion=True,
        delay_until_recursion=2,
        groups=("g",),
        group_override=True,
        group_weight=0,
        group_scoring=False,
        sticky=1,
        cooldown=2,
        delay=3,
        personas=("p",),
        tags=("t",),
        exclude_personas=True,
        triggers=("normal",),
    )

    async def story():
        async with new_engine(embedder="none") as engine:
            await engine.put(Lorebook(id="world", description="d", budget=5, recursion=2, names=True))
            await engine.write_lore([entry])
            return await engine.store.lore(["world"]), await engine.store.get(Lorebook, "world")

    entries, book = run(story())
    assert entries == [entry]
    assert (book.description, book.budget, book.recursion, book.names) == ("d", 5, 2, True)


def test_a_lorebook_file_survives_a_round_trip_through_a_store(run, new_engine):
    data = {
        "entries": {
            str(at): {"uid": at, "key": [f"key {at}"], "content": f"Text {at}.", "order": 100 - at, "x": {"y": [at]}}
            for at in range(12)
        },
        "custom": True,
    }

    async def story():
        async with new_engine(embedder="none") as engine:
            await engine.put(read_lorebook(data, "w", "World"))
            await engine.write_lore(read_lorebook_entries(data, "w"))
            return write_lorebook(await engine.store.get(Lorebook, "w"), await engine.store.lore(["w"]), "sillytavern")

    assert run(story()) == data


def test_an_entry_is_decoded_with_defaults():
    record = b'{"record":"lore-entry","id":"e","lorebook":"w","content":"x","settings":{"depth":2}}'
    assert msgspec.json.decode(record, type=LoreEntry) == LoreEntry(
        id="e", lorebook="w", content="x", settings={"depth": 2}
    )


def test_keywords_are_matched_against_messages_outside_the_window(run, new_engine, tmp_path):
    policy = tmp_path / "forgetful.toml"
    policy.write_text(
        'name = "forgetful"\ndescription = "No history."\n[[pools]]\nname = "all"\nkinds = ["*", "!message-recent"]\n',
        encoding="utf-8",
    )

    async def story():
        async with new_engine(model="gpt-4o", embedder="none", policy=str(policy)) as engine:
            await furnished(engine, lore("tower", "tower"), scan_depth=3)
            await talk(engine, "The tower!", "Yes.")
            return await engine.assemble(room="r", message="Go on.", now=NOW)

    context = run(story())
    assert context.explanations["tower"].startswith("keyword 'tower' in message 'msg-")


def test_the_notes_of_a_user_do_not_push_out_messages(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            notes = {"held": "x", "why": "y", "constant": True}
            await engine.post(room="r", text="Hello.", id="m1", at=NOW - 9, metadata=notes)
            return await engine.assemble(room="r", message="Hi", now=NOW)

    context = run(story())
    assert "m1" in context.kept
    assert context.explanations == {}
