"""Notes of rooms, personas and users in contexts: position, names and interval."""

import time

import msgspec
import pytest

import brimful
from brimful.records import Lorebook, LoreEntry, Note, Persona, Room, User
from brimful.records.character import Character, expand_macros, has_macros
from brimful.records.note import MAX_DEPTH

NOW = 1_794_000_000.0
NOVA = Persona(
    id="nova",
    name="Nova",
    prompt="You are Nova.",
    character=Character(greeting="Hello, {{user}}!", greetings=("Ahoy, <USER>.", "{{char}} nods.")),
    notes=(
        Note(text="{{char}} never lies to {{user}}.", depth=2, name="depth-prompt"),
        Note(text="Stay in character, <BOT>.", name="post-history"),
    ),
)
DEN = Room(
    id="den",
    user="ada",
    persona="nova",
    notes=(Note(text="It rains on {{ User }}.", depth=2), Note(text="ROOM", depth=None)),
)
ADA = User(id="ada", name="Ada", notes=(Note(text="{{user}} limps.", depth=1, role="user"),), lorebooks=("hers",))


async def furnished(engine, *records):
    for record in records:
        await engine.put(record)
    for at in range(4):
        role = "assistant" if at % 2 else "user"
        await engine.post(room="den", text=f"said {at}", role=role, at=NOW - 100 + at)


def read(context):
    return [entry["content"] for entry in context.request["messages"]]


def test_notes_of_persona_room_and_user_are_placed_by_depth_with_names(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(engine, NOVA, DEN, ADA)
            context = await engine.assemble(room="den", message="so?", now=NOW)
            again = await engine.assemble(room="den", message="so?", now=NOW)
            return context, again, (await engine.store.snapshot(context.id)).context

    context, again, stored = run(story())
    assert read(context) == [
        "You are Nova.",
        "ROOM",
        *["said 0", "said 1", "said 2"],
        "It rains on Ada.",
        "Nova never lies to Ada.",
        "said 3",
        "Ada limps.",
        "so?",
        "Stay in character, Nova.",
    ]
    assert context.decision("persona/nova/note-2/post-history").kind == "system-note"
    assert context.decision("room/den/note-1").reason == "required"
    assert (stored, brimful.replay(stored).request) == (context, again.request)


def test_a_second_build_does_not_count_notes_again(run, new_engine):
    seen = []

    async def story():
        async with new_engine(model="gpt-4o", embedder="none", hooks=[seen.append]) as engine:
            await furnished(engine, NOVA, DEN, ADA)
            for _ in range(2):
                await engine.assemble(room="den", message="so?", now=NOW)

    run(story())
    built = [event.facts["tokenized"] for event in seen if event.name == "assembled"]
    assert built[1] == 0


def test_a_periodic_note_is_on_the_record_when_it_is_excluded(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            room = Room(id="den", notes=(Note(text="Be brief.", every=2, depth=1),))
            await furnished(engine, room)
            contexts = []
            for at in range(3):
                contexts.append(await engine.assemble(room="den", message="so?", now=NOW + at, save=False))
                await engine.post(room="den", text="so?", at=NOW + at)
                await engine.post(room="den", text="Yes.", role="assistant", at=NOW + at)
            return contexts

    third, fourth, fifth = run(story())  # four messages were two turns
    assert [("Be brief." in read(each)) for each in (third, fourth, fifth)] == [False, True, False]
    assert third.explain("room/den/note-1") == "dropped: excluded, it is included every 2 turns, and this is turn 3"


def test_lorebooks_of_a_user_are_used_in_all_rooms(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(engine, DEN, ADA, Lorebook(id="hers"))
            await engine.write_lore(
                [LoreEntry(id="e", lorebook="hers", content="Her sister.", keys=("Eve",), vector=False)]
            )
            hers = await engine.assemble(room="den", message="Where is Eve?", now=NOW)
            elsewhere = await engine.assemble(room="hall", user="ada", message="Where is Eve?", now=NOW)
            nobodys = await engine.assemble(room="hall", message="Where is Eve?", now=NOW)
            return ["e" in each.kept for each in (hers, elsewhere, nobodys)]

    assert run(story()) == [True, True, False]


def test_names_are_filled_into_pinned_memories(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await furnished(engine, NOVA, DEN, ADA)
            await engine.remember("{{user}} is the sister of {{char}}.", user="ada", pinned=True, id="kin")
            return read(await engine.assemble(room="den", message="so?", now=NOW))

    assert any("Ada is the sister of Nova." in text for text in run(story()))


def test_a_persona_greets_the_user_with_the_selected_greeting(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            said = []
            for which in range(3):
                for record in (NOVA, ADA, Room(id=f"r{which}", user="ada")):
                    await engine.put(record)
                said.append((await engine.greet(f"r{which}", "nova", greeting=which)).content)
            with pytest.raises(brimful.errors.InvalidValue, match="greeting: must be from 0 to 2, not 3"):
                await engine.greet("r9", "nova", greeting=3)
            return said

    assert run(story()) == ["Hello, Ada!", "Ahoy, Ada.", "Nova nods."]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"depth": -1}, "note.depth: must be a whole number"),
        ({"depth": MAX_DEPTH + 1}, "note.depth: must be at most 10,000, not 10,001"),
        ({"depth": 1.5}, "note.depth: must be a whole number"),
        ({"every": 0}, "note.every: must be a whole number"),
        ({"role": "tool"}, "note.role: must be one of system, user, assistant, not 'tool'"),
        ({"text": 7}, "note.text: must be a string"),
        ({"depth": None, "every": 2}, "note.depth: a note that comes and goes"),
        ({"depth": None, "role": "user"}, "note.depth: a note that comes and goes"),
    ],
)
def test_invalid_notes_are_rejected(said, told):
    with pytest.raises(brimful.errors.InvalidValue) as refused:
        Note(**{"text": "x", **said})
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("kind", [Room, Persona, User])
def test_notes_are_a_tuple_of_notes(kind):
    with pytest.raises(brimful.errors.InvalidValue, match="notes: must be a tuple of notes"):
        kind(id="x", notes=[Note(text="x")])
    assert msgspec.json.decode(msgspec.json.encode(kind(id="x", notes=NOVA.notes)), type=kind).notes == NOVA.notes


def test_the_character_of_a_room_overrides_that_of_the_persona(run, new_engine):
    known = Character(description="A pilot.", scenario="In orbit.", examples="Ahoy.", greeting="Hi.", prompt="own")
    here = Character(scenario="{{char}} is at sea with {{user}}.", examples="Aye.", prompt="Be {{char}}.")
    nova = Persona(id="nova", name="Nova", prompt="You are Nova.", character=known)
    sea = Room(id="sea", user="ada", persona="nova", character=here)

    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            for record in (nova, sea, User(id="ada", name="Ada"), Persona(id="wren")):
                await engine.put(record)
            rooms = [await engine.assemble(room=room, persona="nova", message="so?", now=NOW) for room in ("sea", "x")]
            bare = await engine.assemble(room="sea", persona="wren", message="so?", now=NOW)
            result = await engine.assemble(room="sea", message="so?", system="No.", now=NOW)
            greeting = await engine.greet("sea", "nova")
            return [*map(read, (*rooms, bare, result)), greeting.content, await engine.store.get(Room, "sea")]

    there, elsewhere, bare, told, greeting, stored = run(story())
    assert there[:3] == [
        "Be Nova.",
        "Description: A pilot.\nScenario: Nova is at sea with Ada.",
        "How Nova talks:\nAye.",
    ]
    assert elsewhere[:2] == ["You are Nova.", "Description: A pilot.\nScenario: In orbit."]
    assert bare[:2] == ["Be wren.", "Scenario: wren is at sea with Ada."]
    assert told[0] == "No."
    assert (greeting, stored) == ("Hi.", sea)


def test_an_invalid_character_is_rejected():
    with pytest.raises(brimful.errors.InvalidValue, match="character: must be a Character, not 'pilot'"):
        Room(id="r", character="pilot")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("a{{// secret}}b", "ab"),
        ("a{{ // of {{char}} and\n{{user}} }}b", "ab"),
        ("a{{// one } two { three}}b{{//}}", "ab"),
        ("a{{// open {{char}}", "a{{// open N"),
        ("a\r\n\n{{Trim}}\n{{trim}}\n b", "a b"),
        ("{{trim}}\na\n{{trim}}", "a"),
        ("a{{newline}}b{{NOOP}}", "a\nb"),
        ("{{random::a::b}} {{time}} {{noops}}", "{{random::a::b}} {{time}} {{noops}}"),
        ("{{char}} // {{user}}", "N // U"),
    ],
)
def test_simple_macros_are_expanded(said, meant):
    assert expand_macros(said, char="N", user="U") == meant
    assert has_macros(said) == (said != meant)


@pytest.mark.parametrize("piece", ["{{//", "{{// {{", "{{// {{x}}", "{{//}", "\n", "{{ ", "{{trim}}\n", "{{//{{{{"])
def test_macros_without_an_end_are_read_once(piece):
    started = time.process_time()
    expand_macros(piece * 200_000, char="N", user="U")
    assert time.process_time() - started < 5


def test_a_nickname_replaces_the_char_macro(run, new_engine):
    known = Character(description="{{char}} flies.{{// or not}}", nickname="Novie")
    book, entry = Lorebook(id="b"), LoreEntry(id="e", lorebook="b", content="<BOT> knows.", constant=True)

    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            for record in (book, Persona(id="nova", name="Nova", character=known, lorebooks=("b",))):
                await engine.put(record)
            await engine.write_lore([entry])
            return await engine.assemble(room="r", persona="nova", message="so?", now=NOW)

    text = "\n".join(read(run(story())))
    assert "Description: Novie flies.\n" in text
    assert "Novie knows." in text


@pytest.mark.parametrize("policy", ["default", "window"])
def test_examples_are_excluded_before_history_in_every_turn(run, new_engine, policy):
    talk = Character(examples="Nova says that all is well aboard. " * 200)

    async def story():
        async with new_engine(model="gpt-4o", embedder="none", policy=policy) as engine:
            await furnished(engine, msgspec.structs.replace(NOVA, character=talk), DEN, ADA)
            limits = {"room": "den", "message": "so?", "now": NOW, "completion": 256}
            small = await engine.assemble(window=2_048, **limits)
            for at in range(20):
                await engine.post(room="den", text=f"more {at} " * 20, at=NOW - 50 + at)
            return small, await engine.assemble(window=2_048, **limits), await engine.assemble(window=32_768, **limits)

    small, later, large = run(story())
    for context in (small, later):
        assert context.decision("persona/nova/examples").reason == "excluded"
        assert "more than 25% of the" in context.explanations["persona/nova/examples"]
    assert [entry for entry in read(small) if entry.startswith("said")] == [f"said {at}" for at in range(4)]
    assert large.decision("persona/nova/examples").included
