"""SillyTavern's folder and character cards: personas with lorebooks, and rooms with their users."""

import base64
import zlib

import pytest

from brimful.formats import Limits, Reader
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Room, User
from formats import samples
from formats.conftest import packed


def of(kind, records):
    return {each.id: each for each in records if isinstance(each, kind)}


def test_a_folder_as_a_whole(walk):
    records, skips = walk(samples.tavern_folder())
    personas, rooms, books = of(Persona, records), of(Room, records), of(Lorebook, records)
    assert list(personas) == ["Luna", "Nova"]
    assert personas["Nova"].lorebooks == ("Eldoria",)  # the card names it, and it is there
    assert personas["Luna"].lorebooks == ("Rules",)  # settings say so
    assert set(books) == {"Nova/book", "Eldoria", "Rules"}
    chat, group = rooms.values()
    assert chat.id == "Nova/Nova - 2024-1-5 @14h 56m 50s 682ms"
    assert (chat.name, chat.user, chat.persona, chat.lorebooks) == ("Nova", "Ada", "Nova", ("Eldoria", "Rules"))
    assert group.id == "group/2024-2-1 @10h 00m 00s 000ms"
    assert (group.name, group.user, group.persona) == ("Adventurers", "Ada", "Nova")
    assert (group.lorebooks, group.metadata["members"]) == (("Rules",), ["Nova", "Luna"])
    assert group.metadata["group"] == samples.tavern_group()
    assert list(of(User, records)) == ["Ada"]
    (told,) = of(Memory, records).values()
    assert (told.content, told.user, told.pinned) == ("Ada is an engineer.", "Ada", True)
    reasons = dict(skips)
    assert reasons["backups/chat_nova_20240105.jsonl"] == "is in a backup folder"
    assert reasons["User Avatars/ada.png"] == "is an image without a character card"
    assert set(reasons) == {"backups/chat_nova_20240105.jsonl", "User Avatars/ada.png", "themes/Dark.json"}


def test_messages_keep_swipes_times_and_what_is_hidden(read):
    records, skips = read(samples.lines(samples.tavern_chat()), name="Nova - x.jsonl")
    assert skips == []
    messages = list(of(Message, records).values())
    assert [(each.role, each.sender, each.content) for each in messages] == [
        ("assistant", "Nova", "Welcome aboard."),
        ("user", "Ada", "Where is the forest?"),
        ("assistant", "Nova", "(a note that nobody is to see)"),
        ("assistant", "Nova", "Below us."),
    ]
    noon = 1_704_412_800.0 + 12 * 3600  # January 5, 2024
    assert [each.at - noon for each in messages] == [176 * 60, 177 * 60, 178 * 60, 179 * 60]
    assert [each.hidden for each in messages] == [False, False, True, False]
    data = messages[0].metadata["sillytavern"]
    assert (data["swipes"], data["swipe_id"]) == (["Hello, Ada!", "Welcome aboard."], 1)
    (room,) = of(Room, records).values()
    assert (room.id, room.persona) == ("Nova/Nova - x", "Nova")
    assert room.created == noon + 176 * 60 + 50.682


def test_a_chat_without_a_head_or_with_one_that_names_nobody(read):
    first, *rest = samples.tavern_chat()
    headless, _ = read(samples.lines(rest), name="x.jsonl")
    nameless, _ = read(
        samples.lines([{**first, "user_name": "unused", "character_name": "unused"}, *rest]), name="x.jsonl"
    )
    for records in (headless, nameless):
        (room,) = of(Room, records).values()
        assert (room.id, room.user, room.persona) == ("Nova/x", "Ada", "Nova")
        assert len(of(Message, records)) == 4


def test_a_name_for_all_rooms_keeps_chats_apart(walk):
    rooms = of(Room, walk(samples.tavern_folder(), room="old")[0])
    assert [id.partition("/")[0] for id in rooms] == ["old", "old"]
    assert len(rooms) == 2


def test_a_message_keeps_its_id_when_others_of_its_minute_were_deleted_or_added(read):
    head, *_ = samples.tavern_chat()
    one, two, three, again = (
        samples.tavern_message("Ada", said, "January 5, 2024 2:56pm", user=True)
        for said in ("one", "two", "three", "three")
    )

    def ids(*rows):
        return list(of(Message, read(samples.lines([head, *rows]), name="x.jsonl")[0]))

    before, after = ids(one, two), ids(two, three, again)
    assert after[0] == before[1]
    assert len({*before, *after}) == 4


def test_lines_that_are_no_messages_cost_themselves_alone(read):
    head, *rest = samples.tavern_chat()
    records, skips = read(samples.lines([head, 7, {"name": "x"}, rest[0]]), name="x.jsonl")
    assert len(of(Message, records)) == 1
    assert skips == [(f":{at}", "is not a SillyTavern message: it has no text (`mes`)") for at in (2, 3)]


# -- cards -----------------------------------------------------------------------------------------------------------

CARDS = {
    "v1-json": lambda: samples.written(samples.v1_card(), indent=2),
    "v2-json": lambda: samples.written(samples.v2_card()),
    "v3-json": lambda: samples.written(samples.v3_card(), indent=2),
    "v1-png": lambda: samples.png(samples.text_chunk("chara", samples.v1_card())),
    "v2-png": lambda: samples.png(samples.text_chunk("Chara", samples.v2_card())),
    "v2-zTXt": lambda: samples.png(samples.text_chunk("chara", samples.v2_card(), b"zTXt")),
    "v3-iTXt": lambda: samples.png(samples.text_chunk("ccv3", samples.v3_card(), b"iTXt")),
    "v3-first": lambda: samples.png(
        samples.text_chunk("chara", samples.v2_card("Old")), samples.text_chunk("ccv3", samples.v3_card())
    ),
    "plain": lambda: samples.png(samples.chunk(b"tEXt", b"chara\0" + samples.written(samples.v1_card()))),
}


@pytest.mark.parametrize("sort", CARDS)
def test_a_card_of_every_sort(read, sort):
    records, skips = read(CARDS[sort](), name="main_nova_spec_v2.bin")
    assert skips == []
    persona = of(Persona, records)["Nova"]
    character = persona.character
    assert (character.description, character.greeting) == ("{{char}} is a pilot.", "Hello, {{user}}!")
    assert (character.scenario, character.personality) == ("In orbit.", "Calm.")
    assert character.examples.startswith("<START>")
    if not sort.startswith(("v1", "plain")):
        assert character.prompt == "You are {{char}}."
        assert persona.lorebooks == ("Nova/book",)
        assert [each.keys for each in of(LoreEntry, records).values()] == [("engine", "drive"), ("moon",)]
        assert persona.metadata["card"]["data"]["alternate_greetings"] == ["Ahoy!", "Welcome aboard."]


def test_a_charx_is_an_archive_with_a_card(tmp_path):
    path = packed(tmp_path / "nova.charx", {"card.json": samples.written(samples.v3_card()), "assets/a.bin": b"x"})
    records = list(Reader([str(path)]).records())
    assert "Nova" in of(Persona, records)


ENDLESS = zlib.compress(b"A" * 100_000)  # a hundred bytes
DAMAGED = {
    "no card": (samples.PICTURE, "is an image without a character card"),
    "no base64": (samples.png(samples.chunk(b"tEXt", b"chara\0***")), "contains a damaged card: "),
    "no json": (
        samples.png(samples.chunk(b"tEXt", b"chara\0" + base64.b64encode(b'{"name": '))),
        "contains a damaged card: is not JSON",
    ),
    "no name": (
        samples.png(samples.text_chunk("chara", {"spec": "chara_card_v2", "data": {}})),
        "is not a character card: it has neither a name nor a description",
    ),
    "no zlib": (samples.png(samples.chunk(b"zTXt", b"chara\0\0rubbish")), "contains a damaged text"),
    "cut off": (samples.PICTURE[:20], "is cut off: the chunk"),
    "a list": (samples.png(samples.text_chunk("chara", [1])), "is not a character card"),
}


@pytest.mark.parametrize("sort", DAMAGED)
def test_a_damaged_card_says_so(read, sort):
    data, reason = DAMAGED[sort]
    records, skips = read(data, name="x.png")
    assert records == []
    assert len(skips) == 1
    assert skips[0][1].startswith(reason)


@pytest.mark.parametrize(
    "chunk",
    [
        samples.chunk(b"zTXt", b"chara\0\0" + ENDLESS),
        samples.chunk(b"iTXt", b"ccv3\0\1\0\0\0" + ENDLESS),
    ],
    ids=["zTXt", "iTXt"],
)
def test_a_text_that_inflates_without_end_is_refused(read, chunk):
    records, skips = read(samples.png(chunk), name="x.png", limits=Limits(piece_bytes=1000))
    assert records == []
    assert skips == [("", "contains a text that expands beyond 1,000 bytes, like a zip bomb")]


def test_a_picture_of_nothing_but_chunks_is_refused(read):
    data = samples.png(*[samples.chunk(b"tEXt", b"a\0b")] * 20)
    _, skips = read(data, name="x.png", limits=Limits(png_chunks=10))
    assert skips == [("", "has more than 10 chunks, like no real image")]


def test_a_chunk_that_claims_to_be_huge_is_refused_or_runs_out(read):
    _, skips = read(samples.PICTURE[:-12] + b"\x7f\xff\xff\xfftEXtchara\0AAAA", name="x.png")
    assert skips[0][1].startswith("contains a text of 2,147,483,647 bytes")


def test_world_info_without_entries_is_an_empty_lorebook(walk):
    records, skips = walk({"worlds/New.json": b'{"entries": {}}'})
    assert (list(of(Lorebook, records)), of(LoreEntry, records), skips) == (["New"], {}, [])


def test_world_info_is_a_lorebook_of_its_name(read):
    records, skips = read(samples.written(samples.world_info(), indent=4), name="Eldoria.json")
    assert skips == []
    assert list(of(Lorebook, records)) == ["Eldoria"]
    (entry,) = of(LoreEntry, records).values()
    assert (entry.lorebook, entry.keys, entry.content) == ("Eldoria", ("eldoria", "forest"), "Eldoria is a forest.")
