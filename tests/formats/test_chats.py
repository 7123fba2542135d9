"""Exports of chat programs, as a folder and as an archive: messages, senders, rooms and metadata."""

import json

import pytest

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.records import Memory, Message, Persona, Room, User
from formats import samples


def of(kind, records):
    return [each for each in records if isinstance(each, kind)]


def messages_in(records, room):
    return [(each.role, each.sender, each.content) for each in of(Message, records) if each.room == room]


# -- ChatGPT ---------------------------------------------------------------------------------------------------------


def test_chatgpt_keeps_the_branch_that_was_shown_and_the_others_beside_it(walk):
    records, skips = walk(samples.chatgpt_export())
    call = ToolCall(id="call", name="python", arguments='{"input": "print(2**10)"}')
    *before, asked, answer = messages_in(records, "chatgpt/c-1/shown/think")
    assert before == [
        ("user", "", "I am Ada.\n\nBe brief."),
        ("user", "", "What is 2 to the 10?"),
        ("assistant", "", (call,)),
        ("tool", "python", (ToolResult(id="call", content="1024", name="python"),)),
        ("assistant", "", "It is 1024."),
    ]
    media, question = asked[2]
    assert (media.modality, media.media_type, question) == ("image", "image/png", Text(text="What is on it?"))
    assert answer == ("assistant", "", "A dot.")
    assert messages_in(records, "chatgpt/c-1")[2:] == [
        ("assistant", "", "About a thousand."),
        ("user", "", "Exactly, please."),
    ]
    assert [place for place, _ in skips] == ["chat.html"]  # the picture came with its message


def test_chatgpt_rooms_know_whose_they_are_and_where_they_left(walk):
    records, _ = walk(samples.chatgpt_export())
    room, branch = of(Room, records)
    assert (room.name, room.user, room.created) == ("Powers of two", "user-1", 1_700_000_000.0)
    assert room.metadata == {"model": "gpt-5"}
    assert branch.metadata == {
        "model": "gpt-5",
        "branch_of": "chatgpt/c-1",
        "after": "chatgpt/c-1/q1",
        "shown": True,
    }
    assert of(User, records) == [User(id="user-1", metadata={"email": "ada@example.org"})]


def test_chatgpt_messages_have_times_models_and_thoughts(walk):
    records, _ = walk(samples.chatgpt_export())
    by_id = {each.id.rpartition("/")[2]: each for each in of(Message, records)}
    assert by_id["call"].metadata == {"to": "python", "thoughts": "Let me compute."}
    assert by_id["a1"].metadata == {"model": "gpt-5"}
    assert by_id["me"].metadata == {"visually_hidden": True}
    assert by_id["q2"].metadata == {"files": ["dot.png"]}
    assert (by_id["q1"].at, by_id["a2"].at) == (1_700_000_000.5, 1_700_000_007.0)


def test_chatgpt_keeps_all_that_was_thought(read):
    def thought(id, parent, *contents):
        thoughts = [{"summary": "s", "content": content} for content in contents]
        return samples.node(id, parent, "assistant", {"content_type": "thoughts", "thoughts": thoughts})

    conversation = samples.chatgpt_conversation()
    conversation["mapping"] = samples.tree(
        samples.node("q", None, "user", "Why?"),
        thought("t1", "q", "One.", "Two."),
        thought("t2", "t1", "Three."),
        samples.node("a", "t2", "assistant", "Because."),
        thought("t3", "a", "Was that right?"),
    )
    conversation["current_node"] = "t3"
    records, skips = read(samples.written([conversation]), name="conversations.json")
    assert of(Message, records)[1].metadata == {"thoughts": "One.\n\nTwo.\n\nThree."}
    assert [(place.rpartition(".")[2], why) for place, why in skips] == [
        ("t3", "is reasoning without a message after it")
    ]


def test_claude_keeps_what_a_tool_answered_besides_texts(read):
    page = {"type": "knowledge", "title": "Tea", "url": "https://tea.example", "text": "Green or black."}
    image = {"type": "image", "file_uuid": "f-1"}
    plain = {"type": "text", "text": "Done.", "uuid": "x"}
    conversation = samples.claude_conversation()
    result = conversation["chat_messages"][2]["content"][3]
    result["content"] = [page, image, plain, {"type": "text", "text": ""}]
    records, skips = read(samples.written([conversation]), name="conversations.json")
    assert skips == []
    report = next(each for each in of(Message, records) if each.role == "tool")
    assert report.content[0].content.strip() == "Green or black.\n\n[image]\n\nDone."
    asked = next(each for each in of(Message, records) if "results" in each.metadata)
    data = {"type": "knowledge", "title": "Tea", "url": "https://tea.example"}
    assert asked.metadata["results"] == [{"tool_use_id": "toolu_1", "content": [data, image]}]


def test_claude_of_two_messages_with_one_id_the_first_stands_and_the_other_is_reported(read):
    conversation = samples.claude_conversation()
    first = conversation["chat_messages"][3]
    other = {**first, "content": [samples.claude_text("Never mind.")]}
    conversation["chat_messages"] += [dict(first), other]
    records, skips = read(samples.written([conversation]), name="conversations.json")
    assert "Thanks." in str(records)
    assert "Never mind." not in str(records)
    assert [(place.rpartition(" ")[2], why) for place, why in skips] == [
        ("chat_messages[5]", "another message has this id")
    ]


def test_claude_a_second_message_of_one_id_changes_no_order(read):
    def plain(id, text):
        return {"uuid": id, "sender": "human", "content": [samples.claude_text(text)]}

    conversation = samples.claude_conversation()
    conversation["chat_messages"] = [plain("a", "One."), plain("b", "Two."), plain("a", "Three.")]
    conversation.pop("current_leaf_message_uuid", None)
    records, skips = read(samples.written([conversation]), name="conversations.json")
    assert [each.content for each in of(Message, records)] == ["One.", "Two."]
    assert [why for _, why in skips] == ["another message has this id"]


def test_chatgpt_alone_names_its_pictures(read):
    records, _ = read(samples.chatgpt_export()["conversations.json"], name="conversations.json")
    assert ("user", "", "[image file_0000abc]\n\nWhat is on it?") in messages_in(records, "chatgpt/c-1/shown/think")


def test_chatgpt_without_weight_is_hidden_and_calls_without_answers_are_words(read):
    conversation = samples.chatgpt_conversation()
    conversation["mapping"] = samples.tree(
        samples.node("q", None, "user", "Hi"),
        samples.node("a", "q", "assistant", "secret", weight=0.0),
        samples.node("c", "a", "assistant", "import this", recipient="python"),
    )
    records, _ = read(samples.written([conversation]))
    assert [each.content for each in of(Message, records)] == ["Hi", "secret", "import this"]
    assert [each.hidden for each in of(Message, records)] == [False, True, False]


def test_one_conversation_by_itself_is_read_too(read):
    records, skips = read(samples.written(samples.chatgpt_conversation(), indent=1), room="mine")
    assert (of(Room, records)[0].id, skips) == ("mine/c-1", [])


def grown(*steps, read, conversation):
    """Read a conversation as it was exported again and again; return what each room holds, as a store keeps it."""
    rooms, ids = {}, set()
    for nodes, current in steps:
        records, skips = read(samples.written([conversation(nodes, current)]), name="conversations.json")
        assert skips == []
        for each in of(Message, records):
            if each.id not in ids:
                ids.add(each.id)
                rooms.setdefault(each.room, []).append(each.content)
        assert {each.id for each in of(Room, records)} == {each.room for each in of(Message, records)}
    return rooms


def chatgpt_grown(nodes, current):
    mapping = samples.tree(*(samples.node(*each, at) for at, each in enumerate(nodes, 1_700_000_000)))
    return {**samples.chatgpt_conversation(), "mapping": mapping, "current_node": current}


def claude_grown(nodes, current):
    roles = {"user": "human", "assistant": "assistant"}
    messages = [
        samples.claude_message(id, parent or samples.ROOT, roles[role], [samples.claude_text(said)], at)
        for at, (id, parent, role, said) in enumerate(nodes)
    ]
    return {
        **samples.claude_conversation(),
        "uuid": "c-1",
        "chat_messages": messages,
        "current_leaf_message_uuid": current,
    }


@pytest.mark.parametrize(("program", "conversation"), [("chatgpt", chatgpt_grown), ("claude", claude_grown)])
def test_a_later_export_that_shows_another_branch_mixes_nothing_and_loses_nothing(read, program, conversation):
    questions = [("u1", None, "user", "Which city?"), ("a1", "u1", "assistant", "Paris")]
    again = [
        *questions,
        ("a2", "u1", "assistant", "Rome"),
        ("u2", "a2", "user", "More"),
        ("a3", "u2", "assistant", "Old"),
    ]
    other = [*again, ("a4", "u2", "assistant", "Seven hills"), ("u3", "a1", "user", "Why Paris?")]
    rooms = grown((questions, "a1"), (again, "a3"), (other, "a4"), (other, "u3"), read=read, conversation=conversation)
    assert rooms == {
        f"{program}/c-1": ["Which city?", "Paris", "Why Paris?"],
        f"{program}/c-1/shown/a2": ["Which city?", "Rome", "More", "Old"],
        f"{program}/c-1/shown/a4": ["Which city?", "Rome", "More", "Seven hills"],
        f"{program}/c-1/a2": ["Rome", "More", "Old"],
        f"{program}/c-1/a4": ["Seven hills"],
    }


def test_chatgpt_tells_what_it_cannot_read(read):
    conversation = {**samples.chatgpt_conversation(), "current_node": "s"}
    conversation["mapping"] = {
        **samples.tree(
            samples.node("q", None, "user", "Hi", metadata={"citations": [{"url": "https://a.example"}]}),
            samples.node("r", "q", "critic", "Bad"),
            samples.node("x", "r", "assistant", {"content_type": "hologram", "beam": "…"}),
            samples.node("s", "x", "assistant", ""),
        ),
        "broken": 7,
        "odd": {"id": "odd", "message": "Hi", "parent": "q", "children": []},
    }
    records, skips = read(samples.written([conversation]))
    assert [(each.content, each.metadata) for each in of(Message, records)] == [
        ("Hi", {"citations": [{"url": "https://a.example"}]})
    ]
    assert skips == [
        ("[0]: mapping.r", "author.role: must be one of system, user, assistant, tool, not 'critic'"),
        ("[0]: mapping.x", "has an unknown content_type: 'hologram'"),
        ("[0]: mapping.broken", "is not a node with a message"),
        ("[0]: mapping.odd", "is not a node with a message"),
    ]


# -- Claude ----------------------------------------------------------------------------------------------------------


def test_claude_parts_calls_and_results_and_keeps_branches(walk):
    records, skips = walk(samples.claude_export())
    assert skips == []
    assert messages_in(records, "claude/conv-1/shown/m2") == [
        ("user", "", "What is on Monday?\n\n[file pasted]\nMonday: tea"),
        (
            "assistant",
            "",
            (Text(text="Looking."), ToolCall(id="toolu_1", name="tool_search", arguments='{"query": "calendar"}')),
        ),
        ("tool", "", (ToolResult(id="toolu_1", content="One event.", name="tool_search"),)),
        ("assistant", "", "Tea."),
        ("user", "", "Thanks.\n\n[file cup.png]"),
    ]
    assert messages_in(records, "claude/conv-1")[1:] == [("assistant", "", "I cannot see.")]
    room, branch = of(Room, records)
    assert (room.name, room.user, room.metadata) == ("Calendar", "acct-1", {"summary": "About Monday."})
    assert branch.metadata["after"] == "claude/conv-1/m1"
    assert next(each for each in of(Message, records) if each.id == "claude/conv-1/shown/m2/m2").metadata == {
        "thoughts": "Look it up."
    }


def test_claude_projects_are_personas_and_memories_are_pinned(walk):
    records, _ = walk(samples.claude_export())
    (persona,) = of(Persona, records)
    assert (persona.id, persona.name, persona.prompt) == ("claude/project/proj-1", "Planning", "You plan weeks.")
    by_text = {each.content: each for each in of(Memory, records)}
    assert (by_text["# Week"].persona, by_text["# Week"].source) == (persona.id, "week.md")
    assert (by_text["Ada drinks tea."].user, by_text["Ada drinks tea."].pinned) == ("acct-1", True)
    assert by_text["Weeks begin on Monday."].persona == persona.id
    assert of(User, records) == [User(id="acct-1", name="Ada", metadata={"email": "ada@example.org"})]


def test_claude_keeps_files_without_text_and_citations(read):
    conversation = samples.claude_conversation()
    cited = {**samples.claude_text("See there."), "citations": [{"url": "https://a.example"}]}
    attachment = {"file_name": "a.bin", "file_size": 3, "file_type": "", "extracted_content": ""}
    conversation["chat_messages"] = [
        samples.claude_message(
            "a", samples.ROOT, "human", [], 1, attachments=[attachment], files=[{"file_uuid": "f1"}]
        ),
        samples.claude_message("b", "a", "assistant", [cited, {"type": "token_budget"}], 2),
        samples.claude_message("c", "b", "assistant", [{"type": "hologram"}], 3),
        "Hi",
    ]
    records, skips = read(samples.written([conversation]), name="conversations.json")
    first, second = of(Message, records)
    assert first.content == "[file a.bin]\n\n[file f1]"
    assert first.metadata["attachments"] == [{"file_name": "a.bin", "file_size": 3, "file_type": ""}]
    assert second.metadata == {"citations": [{"url": "https://a.example"}], "blocks": [{"type": "token_budget"}]}
    assert skips == [
        ("[0]: chat_messages[2]", "has no known content"),
        ("[0]: chat_messages[3]", "is not a message: it must be a JSON object"),
    ]


def test_claude_of_old_has_no_parents_and_a_text(read):
    conversation = samples.claude_conversation()
    conversation["chat_messages"] = [
        {"uuid": "a", "text": "Hi", "sender": "human", "created_at": "2024-01-01T00:00:00Z"},
        {"uuid": "b", "text": "Hello", "sender": "assistant", "created_at": "2024-01-01T00:00:01Z"},
        {"uuid": "c", "text": "?", "sender": "robot"},
    ]
    records, skips = read(samples.written([conversation]), name="conversations.json")
    assert messages_in(records, "claude/conv-1") == [("user", "", "Hi"), ("assistant", "", "Hello")]
    assert skips == [("[0]: chat_messages[2]", "sender: must be human or assistant, not 'robot'")]


# -- Slack and Discord -----------------------------------------------------------------------------------------------


def test_slack_has_names_threads_edits_and_files(walk):
    records, skips = walk(samples.slack_export())
    first, reply, joined, bot = [each for each in of(Message, records) if each.room == "slack/general"]
    assert (first.sender, first.content) == ("Ada", "@Bob B. see #general & this (https://a.example)")
    assert (first.id, first.at, first.edited) == (
        "slack/general/1700000000.000100",
        1_700_000_000.0001,
        1_700_000_009.0,
    )
    assert first.metadata["reactions"] == {"tada": 1}
    assert (reply.content, reply.metadata["thread"]) == ("Here it is.\n[file plan.pdf]", first.id)
    assert reply.metadata["files"] == ["https://f/1"]
    assert (joined.content, joined.metadata["subtype"]) == ("@Bob B. has joined", "channel_join")
    assert (bot.sender, bot.content) == ("deploy", "Deployed 1.2")
    assert [room.name for room in of(Room, records)] == ["#general", "Ada, Bob B."]
    assert of(Room, records)[0].metadata["topic"] == "Everything"
    assert [user.name for user in of(User, records)] == ["Ada", "Bob B."]
    assert messages_in(records, "slack/D1") == [("user", "Ada", "Hi")]
    assert skips == [("general/2023-11-15.json[1]", "is empty")]  # and nothing of lists that are empty


def test_a_day_of_slack_alone_keeps_the_ids(read):
    records, _ = read(samples.slack_export()["general/2023-11-14.json"], name="2023-11-14.json", room="general")
    assert records[0].content.startswith("@U2 see #general")
    assert (records[0].sender, records[0].room.partition("/")[0]) == ("U1", "general")


@pytest.mark.parametrize("indent", [None, 2])
def test_discord_has_replies_reactions_and_embeds(read, indent):
    records, skips = read(samples.written(samples.discord_channel(), indent=indent), name="general.json")
    room, hello, reply, embed = records
    assert (room.id, room.name) == ("discord/2", "general")
    assert room.metadata == {"guild": "Test Guild", "type": "GuildTextChat", "category": "Text", "topic": "tea"}
    assert (hello.sender, hello.content, hello.role) == ("Ada", "Hello Discord!", "user")
    assert (reply.sender, reply.content) == ("Bob", "Hi Ada!\n[file i.png]")
    assert reply.metadata["reply_to"] == hello.id
    assert reply.metadata["reactions"] == {"👍": 3}
    assert reply.edited == hello.at + 120
    assert embed.content == "Lobby\nReady!"
    assert skips == [(": messages[3]", "is empty")]


def test_a_truncated_channel_keeps_what_is_whole(read):
    data = samples.written(samples.discord_channel(), indent=2)
    records, skips = read(data[: data.index(b'"1003"') + 20], name="general.json")
    assert [each.content for each in of(Message, records)] == ["Hello Discord!", "Hi Ada!\n[file i.png]"]
    assert skips == [(": messages", "the file ends in the middle of its object")]


# -- LangChain and LlamaIndex ----------------------------------------------------------------------------------------

TALK = [
    ("system", "", "Be brief."),
    ("user", "Ada", "Find tea."),
    ("assistant", "", (ToolCall(id="call_1", name="search", arguments='{"q": "tea"}'),)),
    ("tool", "", (ToolResult(id="call_1", content="Green tea.", name="search"),)),
    ("assistant", "", "Green."),
]
FORMS = {
    "dicts": samples.langchain_dicts,
    "dumped": samples.langchain_dumped,
    "models": samples.langchain_models,
}


@pytest.mark.parametrize("shape", ["list", "pretty", "lines", "state"])
@pytest.mark.parametrize("form", FORMS)
def test_langchain_in_every_form(read, form, shape):
    rows = FORMS[form]()
    data = {
        "list": samples.written(rows),
        "pretty": samples.written(rows, indent=2),
        "lines": samples.lines(rows),
        "state": samples.written({"messages": rows}),
    }[shape]
    records, skips = read(data, name="chat.json")
    assert (messages_in(records, "chat"), skips) == (TALK, [])
    assert records[2].metadata == {"model": "gpt-4o", "usage": rows_usage()}


def rows_usage():
    return {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


def test_langchain_of_another_kind_is_named(read):
    _, skips = read(json.dumps([{"type": "remove", "data": {"content": "", "additional_kwargs": {}}}]).encode())
    assert skips == [("[0]", "role: must be one of system, developer, user, assistant, tool, not 'remove'")]


def test_langchain_with_a_role_of_its_own(read):
    rows = [*samples.langchain_dicts()[:2], {"type": "chat", "data": {"content": "Hm.", "role": "assistant"}}]
    records, skips = read(samples.written(rows), name="chat.json")
    assert ([each.role for each in records], skips) == (["system", "user", "assistant"], [])


def test_langchain_pictures(read):
    parts = [
        "Look",
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
    ]
    row = {"type": "human", "data": {"content": parts, "additional_kwargs": {}}}
    records, skips = read(samples.written([row]))
    assert skips == []
    assert records[0].content == (
        Text(text="Look"),
        Media(modality="image", data="AAAA", media_type="image/png"),
        Media(modality="image", url="https://a.example/b.png"),
    )


def test_llamaindex_messages_and_stores(read):
    expected = [(role, "", content) for role, _, content in TALK]
    records, skips = read(samples.written(samples.llamaindex_messages()), name="chat.json")
    assert (messages_in(records, "chat"), skips) == (expected, [])
    assert records[2].metadata == {"thoughts": "Tea?"}
    for indent in (None, 1):
        records, skips = read(samples.written(samples.llamaindex_store(), indent=indent), name="store.json")
        assert (messages_in(records, "store/ada"), messages_in(records, "store/bob"), skips) == (
            expected,
            [("user", "", "Hi")],
            [],
        )
