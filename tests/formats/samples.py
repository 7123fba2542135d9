"""Exports of other programs, small, in the very forms in which those programs write them.

ChatGPT: the archive of "Export data"; nodes as documented in mitkury/chatgpt-export-parser (docs) and as seen in
published exports. Claude: the archive of "Export data" (conversations.json, memories.json, projects/ID.json,
users.json). SillyTavern: its own data folder (src/endpoints/chats.js, groups.js, characters.js, worldinfo.js). Slack:
https://slack.com/help/articles/220556107. Discord: DiscordChatExporter's JsonMessageWriter. LangChain:
langchain_core.messages.messages_to_dict and langchain_core.load.dumpd. LlamaIndex: ChatMessage.model_dump and
SimpleChatStore.persist.
"""

import base64
import json
import struct
import zlib

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def written(data, *, indent=None):
    return json.dumps(data, ensure_ascii=False, indent=indent).encode()


def lines(rows):
    return b"".join(written(row) + b"\n" for row in rows)


# -- ChatGPT ---------------------------------------------------------------------------------------------------------


def node(id, parent, role=None, content=None, at=None, **more):
    message = None
    if role is not None:
        message = {
            "id": id,
            "author": {"role": role, "name": more.pop("name", None), "metadata": {}},
            "create_time": at,
            "update_time": None,
            "content": content if isinstance(content, dict) else {"content_type": "text", "parts": [content]},
            "status": "finished_successfully",
            "end_turn": None,
            "weight": more.pop("weight", 1.0),
            "metadata": more.pop("metadata", {}),
            "recipient": more.pop("recipient", "all"),
            "channel": None,
        }
    return {"id": id, "message": message, "parent": parent, "children": []}


def tree(*nodes):
    mapping = {each["id"]: each for each in nodes}
    for each in nodes:
        if each["parent"] in mapping:
            mapping[each["parent"]]["children"].append(each["id"])
    return mapping


def chatgpt_conversation():
    pointer = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "sediment://file_0000abc",
        "size_bytes": 70,
        "width": 1,
        "height": 1,
        "fovea": None,
        "metadata": None,
    }
    mapping = tree(
        node("root", None),
        node("sys", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        node(
            "me",
            "sys",
            "user",
            {
                "content_type": "user_editable_context",
                "user_profile": "I am Ada.",
                "user_instructions": "Be brief.",
            },
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        node("q1", "me", "user", "What is 2 to the 10?", 1_700_000_000.5),
        node("a1-old", "q1", "assistant", "About a thousand.", 1_700_000_001.0, metadata={"model_slug": "gpt-4"}),
        node("u-old", "a1-old", "user", "Exactly, please.", 1_700_000_002.0),
        node(
            "think",
            "q1",
            "assistant",
            {"content_type": "thoughts", "thoughts": [{"summary": "Powers", "content": "Let me compute."}]},
            1_700_000_003.0,
        ),
        node(
            "call",
            "think",
            "assistant",
            {"content_type": "code", "language": "unknown", "text": "print(2**10)"},
            1_700_000_004.0,
            recipient="python",
        ),
        node(
            "out", "call", "tool", {"content_type": "execution_output", "text": "1024"}, 1_700_000_005.0, name="python"
        ),
        node("a1", "out", "assistant", "It is 1024.", 1_700_000_006.0, metadata={"model_slug": "gpt-5"}),
        node(
            "q2",
            "a1",
            "user",
            {"content_type": "multimodal_text", "parts": [pointer, "What is on it?"]},
            1_700_000_007.0,
            metadata={"attachments": [{"id": "file_0000abc", "name": "dot.png", "mime_type": "image/png"}]},
        ),
        node("a2", "q2", "assistant", "A dot.", None, metadata={"model_slug": "gpt-5"}),
    )
    return {
        "title": "Powers of two",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_009.0,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": "a2",
        "plugin_ids": None,
        "conversation_id": "c-1",
        "conversation_template_id": None,
        "gizmo_id": None,
        "is_archived": False,
        "safe_urls": [],
        "default_model_slug": "gpt-5",
        "id": "c-1",
    }


def chatgpt_export():
    return {
        "conversations.json": written([chatgpt_conversation()]),
        "user.json": written({"id": "user-1", "email": "ada@example.org", "chatgpt_plus_user": True}),
        "chat.html": b"<html></html>",
        "file_0000abc-dot.png": PICTURE,
    }


# -- Claude ----------------------------------------------------------------------------------------------------------

ROOT = "00000000-0000-4000-8000-000000000000"


def claude_message(id, parent, sender, content, second, **more):
    return {
        "uuid": id,
        "text": "",
        "content": content,
        "sender": sender,
        "created_at": f"2026-03-29T07:06:{second:02d}.552627Z",
        "updated_at": f"2026-03-29T07:06:{second:02d}.552627Z",
        "attachments": more.get("attachments", []),
        "files": more.get("files", []),
        "parent_message_uuid": parent,
    }


def claude_text(said):
    return {
        "start_timestamp": None,
        "stop_timestamp": None,
        "flags": None,
        "type": "text",
        "text": said,
        "citations": [],
    }


def claude_conversation():
    use = {"type": "tool_use", "id": "toolu_1", "name": "tool_search", "input": {"query": "calendar"}, "message": "…"}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "name": "tool_search",
        "content": [{"type": "text", "text": "One event.", "uuid": "x"}],
        "is_error": False,
    }
    paste = {"file_name": "", "file_size": 9, "file_type": "txt", "extracted_content": "Monday: tea"}
    messages = [
        claude_message("m1", ROOT, "human", [claude_text("What is on Monday?")], 10, attachments=[paste]),
        claude_message("m2-old", "m1", "assistant", [claude_text("I cannot see.")], 11),
        claude_message(
            "m2",
            "m1",
            "assistant",
            [
                {"type": "thinking", "thinking": "Look it up."},
                claude_text("Looking."),
                use,
                result,
                claude_text("Tea."),
            ],
            12,
        ),
        claude_message("m3", "m2", "human", [claude_text("Thanks.")], 13, files=[{"file_name": "cup.png"}]),
    ]
    return {
        "uuid": "conv-1",
        "name": "Calendar",
        "summary": "About Monday.",
        "created_at": "2026-03-29T07:06:00.000000Z",
        "updated_at": "2026-03-29T07:07:00.000000Z",
        "account": {"uuid": "acct-1"},
        "chat_messages": messages,
    }


def claude_export():
    project = {
        "uuid": "proj-1",
        "name": "Planning",
        "description": "Plans.",
        "is_private": True,
        "is_starter_project": False,
        "prompt_template": "You plan weeks.",
        "created_at": "2026-03-01T00:00:00Z",
        "updated_at": "2026-03-01T00:00:00Z",
        "creator": {"uuid": "acct-1", "full_name": "Ada"},
        "docs": [{"uuid": "doc-1", "filename": "week.md", "content": "# Week", "created_at": "2026-03-01T00:00:00Z"}],
    }
    return {
        "conversations.json": written([claude_conversation()]),
        "projects/proj-1.json": written(project, indent=1),
        "memories.json": written(
            [
                {
                    "conversations_memory": "Ada drinks tea.",
                    "project_memories": {"proj-1": "Weeks begin on Monday."},
                    "account_uuid": "acct-1",
                }
            ]
        ),
        "users.json": written(
            [{"uuid": "acct-1", "full_name": "Ada", "email_address": "ada@example.org", "verified_phone_number": None}]
        ),
    }


# -- SillyTavern -----------------------------------------------------------------------------------------------------


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks):
    """A PNG with more chunks before its end."""
    return PICTURE[:-12] + b"".join(chunks) + PICTURE[-12:]


def text_chunk(keyword, card, kind=b"tEXt"):
    said = base64.b64encode(json.dumps(card).encode())
    match kind:
        case b"tEXt":
            return chunk(kind, keyword.encode() + b"\0" + said)
        case b"zTXt":
            return chunk(kind, keyword.encode() + b"\0\0" + zlib.compress(said))
        case _:
            return chunk(b"iTXt", keyword.encode() + b"\0\1\0en\0\0" + zlib.compress(said))


def v1_card(name="Nova"):
    return {
        "name": name,
        "description": "{{char}} is a pilot.",
        "personality": "Calm.",
        "scenario": "In orbit.",
        "first_mes": "Hello, {{user}}!",
        "mes_example": "<START>\n{{user}}: Hi\n{{char}}: Hello.",
    }


def book_entry(id, keys, content, **more):
    return {
        "id": id,
        "keys": keys,
        "secondary_keys": [],
        "comment": "",
        "content": content,
        "constant": False,
        "selective": False,
        "insertion_order": 100,
        "enabled": True,
        "position": "before_char",
        "extensions": {"display_index": id, "probability": 100, "useProbability": True},
        **more,
    }


def v2_card(name="Nova", *, book=True, world=""):
    data = {
        **v1_card(name),
        "creator_notes": "Made for tests.",
        "system_prompt": "You are {{char}}. {{original}}",
        "post_history_instructions": "Stay calm.",
        "alternate_greetings": ["Ahoy!", "Welcome aboard."],
        "tags": ["space"],
        "creator": "ada",
        "character_version": "1.2",
        "extensions": {"talkativeness": "0.5", "world": world, "fav": False, "unheard_of": {"a": [1, None]}},
    }
    if book:
        data["character_book"] = {
            "name": "Ship",
            "extensions": {},
            "entries": [book_entry(0, ["engine", "drive"], "The engine sings."), book_entry(1, ["moon"], "It is far.")],
        }
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": data, "create_date": "2024-01-01", "chat": "x"}


def v3_card(name="Nova", *, world=""):
    card = v2_card(name, world=world)
    data = {**card["data"], "assets": [{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}]}
    data |= {"group_only_greetings": [], "nickname": "Nov", "creation_date": 1_700_000_000}
    data["character_book"]["entries"] = [{**each, "use_regex": False} for each in data["character_book"]["entries"]]
    return {"spec": "chara_card_v3", "spec_version": "3.0", "data": data}


def world_info():
    entry = {
        "uid": 0,
        "key": ["eldoria", "forest"],
        "keysecondary": [],
        "comment": "the forest",
        "content": "Eldoria is a forest.",
        "constant": False,
        "vectorized": False,
        "selective": True,
        "selectiveLogic": 0,
        "addMemo": True,
        "order": 100,
        "position": 0,
        "disable": False,
        "probability": 100,
        "useProbability": True,
        "depth": 4,
        "displayIndex": 0,
    }
    return {"entries": {"0": entry}}


def tavern_message(name, said, when, *, user=False, **more):
    return {
        "name": name,
        "is_user": user,
        "is_system": more.pop("hidden", False),
        "send_date": when,
        "mes": said,
        "extra": more.pop("extra", {}),
        **more,
    }


def tavern_chat(name="Nova"):
    return [
        {
            "user_name": "Ada",
            "character_name": name,
            "create_date": "2024-1-5 @14h 56m 50s 682ms",
            "chat_metadata": {"note_prompt": "", "world_info": "Eldoria"},
        },
        tavern_message(
            name,
            "Welcome aboard.",
            "January 5, 2024 2:56pm",
            swipes=["Hello, Ada!", "Welcome aboard."],
            swipe_id=1,
            swipe_info=[{"send_date": "January 5, 2024 2:56pm"}, {"send_date": "January 5, 2024 2:56pm"}],
        ),
        tavern_message("Ada", "Where is the forest?", "2024-01-05T14:57:00.000Z", user=True),
        tavern_message(name, "(a note that nobody is to see)", "2024-01-05@14h58m00s", hidden=True),
        tavern_message(name, "Below us.", 1_704_466_740_000, extra={"model": "gpt-4"}),
    ]


def tavern_group():
    return {
        "id": "1700000000001",
        "name": "Adventurers",
        "members": ["Nova.png", "Luna.png"],
        "avatar_url": "grp.png",
        "allow_self_responses": False,
        "activation_strategy": 1,
        "disabled_members": [],
        "chat_id": "2024-2-1 @10h 00m 00s 000ms",
        "chats": ["2024-2-1 @10h 00m 00s 000ms"],
        "date_added": 1_700_000_000_001.0,
    }


def tavern_folder():
    settings = {
        "username": "Ada",
        "user_avatar": "ada.png",
        "power_user": {
            "personas": {"ada.png": "Ada"},
            "persona_descriptions": {"ada.png": {"description": "{{user}} is an engineer.", "position": 0}},
        },
        "world_info_settings": {
            "world_info": {"globalSelect": ["Rules"], "charLore": [{"name": "Luna", "extraBooks": ["Rules"]}]}
        },
    }
    group_chat = [
        {"chat_metadata": {"integrity": "x"}, "user_name": "unused", "character_name": "unused"},
        tavern_message("Ada", "Ready?", "2024-02-01T10:00:00.000Z", user=True),
        tavern_message("Luna", "Here.", "2024-02-01T10:01:00.000Z", original_avatar="Luna.png"),
        tavern_message("Nova", "Always.", "2024-02-01T10:02:00.000Z", original_avatar="Nova.png"),
    ]
    return {
        "characters/Nova.png": png(
            text_chunk("chara", v2_card(world="Eldoria")), text_chunk("ccv3", v3_card(world="Eldoria"))
        ),
        "characters/Luna.png": png(text_chunk("chara", v1_card("Luna"))),
        "chats/Nova/Nova - 2024-1-5 @14h 56m 50s 682ms.jsonl": lines(tavern_chat()),
        "group chats/2024-2-1 @10h 00m 00s 000ms.jsonl": lines(group_chat),
        "groups/1700000000001.json": written(tavern_group(), indent=4),
        "worlds/Eldoria.json": written(world_info(), indent=4),
        "worlds/Rules.json": written(world_info(), indent=4),
        "settings.json": written(settings, indent=4),
        "backups/chat_nova_20240105.jsonl": lines(tavern_chat()),
        "User Avatars/ada.png": PICTURE,
        "themes/Dark.json": written({"name": "Dark", "blur_strength": 10}, indent=4),
    }


# -- Slack and Discord -----------------------------------------------------------------------------------------------


def slack_export():
    users = [
        {"id": "U1", "team_id": "T1", "name": "ada", "profile": {"real_name": "Ada L.", "display_name": "Ada"}},
        {"id": "U2", "team_id": "T1", "name": "bob", "profile": {"real_name": "Bob B.", "display_name": ""}},
    ]
    channel = {
        "id": "C1",
        "name": "general",
        "created": 1_600_000_000,
        "creator": "U1",
        "is_archived": False,
        "members": ["U1", "U2"],
        "topic": {"value": "Everything", "creator": "U1", "last_set": 1_600_000_001},
        "purpose": {"value": "All of us", "creator": "", "last_set": 0},
    }
    first = [
        {
            "user": "U1",
            "type": "message",
            "ts": "1700000000.000100",
            "client_msg_id": "6cb0fa34",
            "text": "<@U2> see <#C1|general> &amp; <https://a.example|this>",
            "team": "T1",
            "thread_ts": "1700000000.000100",
            "reply_count": 1,
            "edited": {"user": "U1", "ts": "1700000009.000000"},
            "blocks": [{"type": "rich_text", "block_id": "b", "elements": []}],
            "reactions": [{"name": "tada", "users": ["U2"], "count": 1}],
        },
        {
            "user": "U2",
            "type": "message",
            "ts": "1700000010.000200",
            "text": "Here it is.",
            "thread_ts": "1700000000.000100",
            "parent_user_id": "U1",
            "files": [{"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf", "url_private": "https://f/1"}],
        },
        {
            "type": "message",
            "subtype": "channel_join",
            "ts": "1700000020.000300",
            "user": "U2",
            "text": "<@U2> has joined",
        },
    ]
    second = [
        {
            "type": "message",
            "subtype": "bot_message",
            "ts": "1700090000.000100",
            "bot_id": "B1",
            "username": "deploy",
            "text": "",
            "attachments": [{"fallback": "Deployed 1.2", "id": 1}],
        },
        {"type": "message", "subtype": "tombstone", "ts": "1700090001.000100", "user": "USLACKBOT", "text": ""},
    ]
    return {
        "users.json": written(users, indent=4),
        "channels.json": written([channel], indent=4),
        "dms.json": written([{"id": "D1", "created": 1_600_000_000, "members": ["U1", "U2"]}], indent=4),
        "general/2023-11-14.json": written(first, indent=4),
        "general/2023-11-15.json": written(second, indent=4),
        "D1/2023-11-14.json": written(
            [{"type": "message", "ts": "1700000000.1", "user": "U1", "text": "Hi"}], indent=4
        ),
        "integration_logs.json": written([], indent=4),
    }


def discord_message(id, said, minute, **more):
    return {
        "id": id,
        "type": more.pop("type", "Default"),
        "timestamp": f"2024-01-15T10:{minute:02d}:00+00:00",
        "timestampEdited": more.pop("edited", None),
        "callEndedTimestamp": None,
        "isPinned": False,
        "content": said,
        "author": {
            "id": "111",
            "name": "ada",
            "discriminator": "0000",
            "nickname": more.pop("nickname", "Ada"),
            "color": None,
            "isBot": False,
            "roles": [],
            "avatarUrl": "https://cdn.example/a.png",
        },
        "attachments": more.pop("attachments", []),
        "embeds": more.pop("embeds", []),
        "stickers": [],
        "reactions": more.pop("reactions", []),
        "mentions": [],
        "inlineEmojis": [],
        **more,
    }


def discord_channel():
    return {
        "guild": {"id": "1", "name": "Test Guild", "iconUrl": ""},
        "channel": {
            "id": "2",
            "type": "GuildTextChat",
            "categoryId": None,
            "category": "Text",
            "name": "general",
            "topic": "tea",
        },
        "dateRange": {"after": None, "before": None},
        "exportedAt": "2024-02-01T00:00:00+00:00",
        "messages": [
            discord_message("1001", "Hello Discord!", 30),
            discord_message(
                "1002",
                "Hi Ada!",
                31,
                type="Reply",
                nickname="Bob",
                edited="2024-01-15T10:32:00+00:00",
                reference={"messageId": "1001", "channelId": "2", "guildId": "1"},
                reactions=[{"emoji": {"id": "", "name": "👍", "code": "thumbsup", "isAnimated": False}, "count": 3}],
                attachments=[{"id": "9", "url": "https://cdn.example/i.png", "fileName": "i.png", "fileSizeBytes": 5}],
            ),
            discord_message(
                "1003", "", 33, embeds=[{"title": "Lobby", "url": None, "description": "Ready!", "fields": []}]
            ),
            discord_message("1004", "", 34, type="RecipientAdd"),
        ],
        "messageCount": 4,
    }


# -- LangChain and LlamaIndex ----------------------------------------------------------------------------------------

CALL = {"name": "search", "args": {"q": "tea"}, "id": "call_1", "type": "tool_call"}


def langchain_messages():
    common = {"additional_kwargs": {}, "response_metadata": {}}
    return [
        ("system", "SystemMessage", {"content": "Be brief.", **common, "type": "system", "name": None, "id": None}),
        ("human", "HumanMessage", {"content": "Find tea.", **common, "type": "human", "name": "Ada", "id": "h1"}),
        (
            "ai",
            "AIMessage",
            {
                "content": "",
                "additional_kwargs": {},
                "response_metadata": {"model_name": "gpt-4o"},
                "type": "ai",
                "name": None,
                "id": "run-1",
                "tool_calls": [CALL],
                "invalid_tool_calls": [],
                "usage_metadata": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
            },
        ),
        (
            "tool",
            "ToolMessage",
            {
                "content": "Green tea.",
                **common,
                "type": "tool",
                "name": "search",
                "id": None,
                "tool_call_id": "call_1",
                "artifact": None,
                "status": "success",
            },
        ),
        (
            "ai",
            "AIMessage",
            {"content": [{"type": "text", "text": "Green."}], **common, "type": "ai", "name": None, "id": "run-2"},
        ),
    ]


def langchain_dicts():
    return [{"type": kind, "data": fields} for kind, _, fields in langchain_messages()]


def langchain_dumped():
    return [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields}
        for _, name, fields in langchain_messages()
    ]


def langchain_models():
    return [fields for _, _, fields in langchain_messages()]


def llamaindex_messages():
    return [
        {"role": "system", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Be brief."}]},
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Find tea."}]},
        {
            "role": "assistant",
            "additional_kwargs": {},
            "blocks": [
                {"block_type": "thinking", "content": "Tea?", "num_tokens": None, "additional_information": {}},
                {
                    "block_type": "tool_call",
                    "tool_call_id": "call_1",
                    "tool_name": "search",
                    "tool_kwargs": {"q": "tea"},
                },
            ],
        },
        {
            "role": "tool",
            "additional_kwargs": {"name": "search", "tool_call_id": "call_1"},
            "blocks": [{"block_type": "text", "text": "Green tea."}],
        },
        {"role": "assistant", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Green."}]},
    ]


def llamaindex_store():
    return {
        "store": {"ada": llamaindex_messages(), "bob": [{"role": "user", "content": "Hi", "additional_kwargs": {}}]},
        "class_name": "SimpleChatStore",
    }


def files():
    """A file of each kind that is one JSON value, by its path."""
    return {
        "claude.json": claude_export()["conversations.json"],
        "projects.json": claude_export()["projects/proj-1.json"],
        "memories.json": claude_export()["memories.json"],
        "nova.json": written(v3_card(), indent=1),
        "worlds/Eldoria.json": written(world_info(), indent=1),
        "settings.json": tavern_folder()["settings.json"],
        "groups/g.json": written(tavern_group(), indent=1),
        "users.json": slack_export()["users.json"],
        "channels.json": slack_export()["channels.json"],
        "general/2023-11-14.json": slack_export()["general/2023-11-14.json"],
        "discord.json": written(discord_channel(), indent=1),
        "langchain.json": written(langchain_dicts()),
        "llamaindex.json": written(llamaindex_store()),
    }
