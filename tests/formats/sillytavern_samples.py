"""A SillyTavern folder with everything that reaches a model."""

from formats import samples

CHAT = "Nova/Nova - 2024-1-5 @14h 56m 50s 682ms"
GREETED = "Nova/Nova - new"
MEETING = "group/2024-3-1 @09h 00m 00s 000ms"


def entry(uid, key, content):
    return {**samples.world_info()["entries"]["0"], "uid": uid, "key": [key], "content": content}


def book(*entries):
    return {"entries": {str(each["uid"]): each for each in entries}}


def card():
    whole = samples.v2_card(world="Eldoria")
    whole["data"] |= {
        "post_history_instructions": "{{original}}\nStay calm, {{char}}.",
        "alternate_greetings": ["Ahoy, {{user}}!", "Welcome aboard."],
    }
    whole["data"]["extensions"]["depth_prompt"] = {
        "prompt": "{{char}} hides a map from {{user}}.",
        "depth": 3,
        "role": "user",
    }
    return whole


def chat():
    head, greeting, question, hidden, answer = samples.tavern_chat()
    head["chat_metadata"] = {
        "note_prompt": "A storm is near {{user}}.",
        "note_interval": 1,
        "note_position": 1,
        "note_depth": 2,
        "note_role": 0,
        "world_info": "Storms",
        "persona": "ada-pilot.png",
    }
    greeting |= {
        "mes": "Welcome aboard, {{user}}. I am <BOT>.",
        "swipes": ["Hi", "Welcome aboard, {{user}}. I am <BOT>."],
    }
    return [head, greeting, question, hidden, answer]


def greeted():
    """A chat in which nobody but the character spoke yet; newer versions name nobody in the head."""
    return [
        {"chat_metadata": {}, "user_name": "unused", "character_name": "unused"},
        samples.tavern_message("Nova", "Hello, {{User}}!", "2024-02-02T10:00:00.000Z"),
    ]


def settings():
    return {
        "username": "Ada",
        "user_avatar": "ada.png",
        "power_user": {
            "default_persona": "ada.png",
            "personas": {"ada.png": "Ada", "ada-pilot.png": "Ada", "eve.png": "Eve", "zoe.png": "Zoe"},
            "persona_descriptions": {
                "ada.png": {"description": "{{user}} is an engineer.", "position": 0},
                "ada-pilot.png": {
                    "description": "{{user}} flies with {{char}}.",
                    "position": 0,
                    "lorebook": "Sisters",
                    "connections": [{"type": "character", "id": "Nova.png"}],
                },
                "eve.png": {"description": "{{user}} is silent.", "position": 4, "depth": 1, "role": 1},
                "zoe.png": {"description": "Nobody knows {{user}}.", "position": 9},
            },
        },
        "extension_settings": {"note": {"default": "Write in the past tense.", "defaultDepth": 1, "chara": []}},
        "world_info_settings": {
            "world_info": {"globalSelect": ["Rules"], "charLore": []},
            "world_info_depth": 7,
            "world_info_budget": 25,
            "world_info_budget_cap": 512,
            "world_info_recursive": True,
            "world_info_max_recursion_steps": 3,
            "world_info_include_names": False,
            "world_info_case_sensitive": True,
            "world_info_match_whole_words": True,
            "world_info_use_group_scoring": True,
        },
    }


def folder():
    group = {
        **samples.tavern_group(),
        "id": "1700000000002",
        "name": "Newcomers",
        "chat_id": MEETING.partition("/")[2],
        "chats": [MEETING.partition("/")[2]],
    }
    return {
        **samples.tavern_folder(),
        "characters/Nova.png": samples.png(samples.text_chunk("chara", card())),
        f"chats/{CHAT}.jsonl": samples.lines(chat()),
        f"chats/{GREETED}.jsonl": samples.lines(greeted()),
        "groups/1700000000002.json": samples.written(group, indent=4),
        "worlds/Eldoria.json": samples.written(book(entry(0, "forest", "Eldoria is a forest that {{user}} knows."))),
        "worlds/Storms.json": samples.written(book(entry(0, "storm", "Storms last three days."))),
        "worlds/Sisters.json": samples.written(book(entry(0, "sister", "Her sister is Mira."))),
        "worlds/Rules.json": samples.written(book(entry(0, "law", "Nobody lies."))),
        "settings.json": samples.written(settings(), indent=4),
    }
