"""SillyTavern's settings: names, notes, user personas, lorebooks, and groups without chats."""

import msgspec
import pytest

from brimful.formats import write_card, write_chat_head
from brimful.formats.sillytavern_folder import author_note, chat_notes, find_user_persona, note_role, user_personas
from brimful.records import Lorebook, Memory, Message, Note, Persona, Room, User
from brimful.records.character import Character
from formats import samples
from formats import sillytavern_samples as world


def of(kind, records):
    return {each.id: each for each in records if isinstance(each, kind)}


@pytest.fixture
def records(walk):
    found, skips = walk(world.folder())
    assert {reason for _, reason in skips} == {
        "is in a backup folder",
        "is an image without a character card",
        "has an unknown format; name it with `--format`",
    }
    return found


# -- names -----------------------------------------------------------------------------------------------------------


def test_messages_contain_names_and_keep_their_original_text(records):
    said = [each for each in of(Message, records).values() if each.room in (world.CHAT, world.GREETED)]
    assert said[0].content == "Welcome aboard, Ada. I am Nova."
    assert said[0].metadata["sillytavern"]["mes"] == "Welcome aboard, {{user}}. I am <BOT>."
    assert "mes" not in said[1].metadata["sillytavern"]
    assert said[-1].content == "Hello, Ada!"  # nobody spoke: settings say who would


def test_an_id_does_not_follow_from_names(read):
    head, greeting, *_ = world.chat()
    ada, eve = (
        read(samples.lines([{**head, "user_name": name}, greeting]), name="x.jsonl", room="r")[0]
        for name in ("Ada", "Eve")
    )
    assert [each.content for each in of(Message, ada).values()] == ["Welcome aboard, Ada. I am Nova."]
    assert [each.content for each in of(Message, eve).values()] == ["Welcome aboard, Eve. I am Nova."]
    assert list(of(Message, ada)) == list(of(Message, eve))


def test_char_macros_in_a_group_mean_the_current_or_last_speaker(read):
    rows = [
        {"chat_metadata": {}},
        samples.tavern_message("Luna", "{{char}} waves.", "2024-02-01T10:00:00Z"),
        samples.tavern_message("Nova", "{{CHAR}} nods to {{user}}.", "2024-02-01T10:01:00Z"),
        samples.tavern_message("Ada", "Hello, {{charIfNotGroup}}, <CHAR>.", "2024-02-01T10:02:00Z", user=True),
    ]
    found, _ = read(samples.lines(rows), name="x.jsonl")
    assert [each.content for each in of(Message, found).values()] == [
        "Luna waves.",
        "Nova nods to Ada.",
        "Hello, Nova, Nova.",
    ]


# -- notes -----------------------------------------------------------------------------------------------------------


def test_notes_of_a_card_and_its_other_greetings(records):
    nova = of(Persona, records)["Nova"]
    assert nova.notes == (
        Note(text="{{char}} hides a map from {{user}}.", name="depth-prompt", depth=3, role="user"),
        Note(text="Stay calm, {{char}}.", name="post-history", depth=0),
    )
    assert nova.character.greetings == ("Ahoy, {{user}}!", "Welcome aboard.")
    assert (nova.metadata["tags"], nova.metadata["creator_notes"]) == (["space"], "Made for tests.")


def test_the_note_of_a_chat_or_that_of_settings(records):
    rooms = of(Room, records)
    assert rooms[world.CHAT].notes == (Note(text="A storm is near {{user}}.", name="author", depth=2),)
    assert rooms[world.GREETED].notes == (Note(text="Write in the past tense.", name="character", depth=1),)


NOTE = {"note_prompt": "N", "note_interval": 1, "note_position": 1, "note_depth": 4, "note_role": 0}


@pytest.mark.parametrize(
    ("said", "notes"),
    [
        ({}, [Note(text="N", name="author", depth=4)]),
        ({"note_prompt": " "}, []),
        ({"note_interval": 0}, []),
        ({"note_interval": 3, "note_role": 2}, [Note(text="N", name="author", depth=4, every=3, role="assistant")]),
        ({"note_position": 0}, [Note(text="N", name="author", depth=None)]),
        ({"note_position": 2, "note_role": 1}, [Note(text="N", name="author", depth=None)]),
        ({"note_position": 0, "note_interval": 2}, [Note(text="N", name="author", depth=4, every=2)]),
        ({"note_depth": "2", "note_interval": "1"}, [Note(text="N", name="author", depth=2)]),
        ({"note_depth": -3, "note_role": "no"}, [Note(text="N", name="author", depth=4)]),
        ({"note_depth": 1e9}, [Note(text="N", name="author", depth=10_000)]),
    ],
)
def test_an_authors_note_has_its_depth_and_interval(said, notes):
    assert list(author_note({**NOTE, **said})) == notes


@pytest.mark.parametrize(("position", "texts"), [(0, ["C"]), (1, ["C", "N"]), (2, ["N", "C"]), (None, ["C"])])
def test_the_note_of_a_character_stands_beside_the_chats_or_in_its_place(position, texts):
    theirs = {"name": "Nova", "prompt": "C", "useChara": True, "position": position}
    settings = {"extension_settings": {"note": {"chara": [theirs]}}}
    assert [note.text for note in chat_notes(NOTE, settings, "Nova")] == texts
    assert [note.text for note in chat_notes(NOTE, settings, "Luna")] == ["N"]
    theirs["useChara"] = False
    assert [note.text for note in chat_notes(NOTE, settings, "Nova")] == ["N"]


def test_roles_are_numbers_or_names():
    assert [note_role(said, "user") for said in (0, 1, 2, "System", "x", True, None, [1])] == [
        *("system", "user", "assistant", "system"),
        *["user"] * 4,
    ]


# -- people ----------------------------------------------------------------------------------------------------------


def test_two_personas_with_one_name_become_two_users_with_their_own_memories(records):
    users = of(User, records)
    assert {id: user.name for id, user in users.items()} == {
        "Ada": "Ada",
        "Ada/ada-pilot": "Ada",
        "Eve": "Eve",
        "Zoe": "Zoe",
    }
    found = {each.user: (each.content, each.pinned) for each in of(Memory, records).values()}
    assert found == {"Ada": ("Ada is an engineer.", True), "Ada/ada-pilot": ("Ada flies with {{char}}.", True)}
    assert users["Eve"].notes == (Note(text="{{user}} is silent.", name="persona", depth=1, role="user"),)
    assert users["Zoe"].notes == ()  # her user does not want her told of
    assert users["Zoe"].metadata["description"] == "Nobody knows Zoe."
    assert users["Ada/ada-pilot"].lorebooks == ("Sisters",)
    assert users["Ada/ada-pilot"].metadata["sillytavern"]["avatar"] == "ada-pilot.png"


def test_a_chat_belongs_to_one_of_them(records):
    rooms = of(Room, records)
    assert rooms[world.CHAT].user == "Ada/ada-pilot"  # locked to the chat
    assert rooms[world.GREETED].user == "Ada"  # who is playing now


@pytest.mark.parametrize(
    ("said", "id"),
    [
        ({"metadata": {"persona": "eve.png"}, "name": "Ada"}, "Eve"),
        ({"name": "Ada", "pictures": ["/thumbnail?type=persona&file=ada-pilot.png"]}, "Ada/ada-pilot"),
        ({"name": "Ada", "pictures": ["User Avatars/ada.png"], "character": "Nova"}, "Ada"),
        ({"name": "Ada", "character": "Nova"}, "Ada/ada-pilot"),  # they are connected
        ({"name": "Ada", "character": "Luna"}, "Ada"),
        ({"name": "Mallory"}, "Mallory"),
        ({"name": ""}, "Ada"),
    ],
)
def test_the_user_persona_of_a_chat_is_found(said, id):
    usual = {"metadata": {}, "pictures": (), "character": ""}
    assert find_user_persona(world.settings(), **{**usual, **said}).id == id


def test_without_settings_nobody_is_known_but_by_name():
    assert find_user_persona({}, metadata={}, name="", pictures=(), character="") is None
    assert find_user_persona({}, metadata={}, name="Ada", pictures=(), character="").id == "Ada"
    assert user_personas({"power_user": {"personas": {"a.png": 7, "b.png": ""}}}) == []
    odd = {"a.png": "Ada", "b.png": "Ada/c", "c.png": "Ada"}
    assert [each.id for each in user_personas({"power_user": {"personas": odd}})] == ["Ada", "Ada/c", "Ada/c~"]


# -- lore and groups -------------------------------------------------------------------------------------------------


def test_books_are_looked_through_as_settings_say(records):
    eldoria = of(Lorebook, records)["Eldoria"]
    assert (eldoria.scan_depth, eldoria.recursion, eldoria.budget) == (7, 2, 512)
    assert (eldoria.names, eldoria.case_sensitive, eldoria.whole_words, eldoria.group_scoring) == (
        False,
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"world_info_recursive": False, "world_info_max_recursion_steps": 5}, (2, 0, None)),
        ({"world_info_depth": "7", "world_info_budget_cap": 0}, (2, 10, None)),
        ({"world_info_depth": -1, "world_info_budget_cap": 1e400}, (2, 10, None)),
        ({"world_info_depth": 0, "world_info_max_recursion_steps": 1}, (0, 0, None)),
    ],
)
def test_settings_that_say_nothing_of_use_change_nothing(walk, said, expected):
    files = {"worlds/W.json": samples.written(samples.world_info()), "settings.json": b""}
    files["settings.json"] = samples.written({"world_info_settings": said, "power_user": {}})
    book = of(Lorebook, walk(files)[0])["W"]
    assert (book.scan_depth, book.recursion, book.budget) == expected


def test_a_group_in_which_nobody_spoke_is_a_room_with_its_members(records):
    room = of(Room, records)[world.MEETING]
    assert (room.name, room.user, room.persona, room.lorebooks) == ("Newcomers", "Ada", "Nova", ("Rules",))
    assert room.metadata["members"] == ["Nova", "Luna"]
    assert room.metadata["group"]["id"] == "1700000000002"
    assert [id for id in of(Room, records) if id.startswith("group/")] == [
        "group/2024-2-1 @10h 00m 00s 000ms",
        world.MEETING,
    ]


OLD, PAST = "2024-2-1 @10h 00m 00s 000ms", "2024-1-1 @10h 00m 00s 000ms"


def older_group(**said):
    """A group as older versions have it: what its chats are about stands in the group's file, and they have no head."""
    data = {**NOTE, "world_info": "Storms", "persona": "eve.png"}
    past = {PAST: {**NOTE, "note_prompt": "P", "persona": "zoe.png"}, OLD: {"note_prompt": "not this one"}}
    group = {**samples.tavern_group(), "chats": [OLD, PAST], "chat_metadata": data, "past_metadata": past, **said}
    spoken = samples.lines([samples.tavern_message("Nova", "Hello, {{user}}!", "2024-02-01T10:00:00Z")])
    files = {f"group chats/{chat}.jsonl": spoken for chat in (OLD, PAST)}
    return {**world.folder(), "groups/1700000000001.json": samples.written(group), **files}


def test_an_older_group_tells_what_its_chats_are_about(walk):
    rooms = of(Room, walk(older_group())[0])
    now, then = rooms[f"group/{OLD}"], rooms[f"group/{PAST}"]
    assert (now.notes[0].text, now.user, now.lorebooks) == ("N", "Eve", ("Storms", "Rules"))
    assert (then.notes[0].text, then.user, then.lorebooks) == ("P", "Zoe", ("Rules",))
    assert write_chat_head(now, user="", character="")["chat_metadata"]["world_info"] == "Storms"


def test_a_head_of_its_own_says_it_all(walk):
    head = {"chat_metadata": {}, "user_name": "unused", "character_name": "unused"}
    said = samples.tavern_message("Nova", "Hello!", "2024-02-01T10:00:00Z")
    files = {**older_group(), f"group chats/{OLD}.jsonl": samples.lines([head, said])}
    assert of(Room, walk(files)[0])[f"group/{OLD}"].user == "Ada"


@pytest.mark.parametrize(
    ("muted", "answers"),
    [([], "Nova"), (["Nova.png"], "Luna"), (["Nova.png", "Luna.png"], "Nova"), ("Nova.png", "Nova")],
)
def test_muted_members_of_a_group_do_not_answer(walk, muted, answers):
    files = older_group(disabled_members=muted)
    data = {"persona": "eve.png"}
    quiet = {**samples.tavern_group(), "chat_id": "q", "chats": ["q"], "disabled_members": muted, "chat_metadata": data}
    rooms = of(Room, walk({**files, "groups/q.json": samples.written(quiet)})[0])
    assert [rooms[f"group/{chat}"].persona for chat in (OLD, "q")] == [answers] * 2
    assert rooms["group/q"].user == "Eve"
    assert rooms[f"group/{OLD}"].metadata["members"] == ["Nova", "Luna"]


def test_character_fields_of_a_chat_belong_to_the_room(read):
    data = {"scenario": " {{char}} is at sea. ", "system_prompt": "{{original}}\nBe brief.", "mes_example": "", "x": 1}
    head = {**world.chat()[0], "chat_metadata": data}
    (room,) = of(Room, read(samples.lines([head, *world.chat()[1:]]), name="x.jsonl")[0]).values()
    assert room.character == Character(scenario="{{char}} is at sea.", prompt="Be brief.")
    assert write_chat_head(room, user="", character="") == head
    recast = msgspec.structs.replace(room, character=Character(examples="Aye.", scenario="{{char}} is at sea."))
    changed = {**data, "system_prompt": "", "mes_example": "Aye."}
    assert write_chat_head(recast, user="", character="")["chat_metadata"] == changed


@pytest.mark.parametrize("said", [{}, {"scenario": ""}, {"scenario": ["x"], "mes_example": 7}])
def test_a_chat_that_says_nothing_of_its_character_leaves_it_alone(read, said):
    head = {**world.chat()[0], "chat_metadata": said}
    (room,) = of(Room, read(samples.lines([head, *world.chat()[1:]]), name="x.jsonl")[0]).values()
    assert room.character is None
    assert write_chat_head(room, user="", character="") == head


def test_the_nickname_of_a_card_comes_in_and_goes_back(read):
    card = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {**world.card()["data"], "nickname": "Novie"}}
    (nova,) = of(Persona, read(samples.written(card), name="Nova.json")[0]).values()
    assert (nova.called, nova.character.nickname) == ("Nova", "Novie")
    assert write_card(nova)["data"]["nickname"] == "Novie"
    other = msgspec.structs.replace(nova, character=msgspec.structs.replace(nova.character, nickname=""))
    assert write_card(other)["data"]["nickname"] == ""
    assert "nickname" not in write_card(Persona(id="x"))["data"]
