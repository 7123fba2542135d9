"""Data without a field of its own is stored in the metadata."""

import json

from brimful.core.content import Media, Text
from brimful.records import Message, Room
from formats import samples
from formats.conftest import lines_of

HI = {"role": "user", "content": "Hi"}


def test_openai_keeps_what_a_message_says_beside_its_text(read):
    beside = {"reasoning_content": "Hm.", "annotations": [{"type": "url_citation"}], "weight": 0}
    records, skips = read(lines_of([{"role": "assistant", "content": "A", "audio": None, **beside}]))
    assert (records[0].metadata, skips) == (beside, [])


def test_openai_keeps_what_a_request_asks_for(read):
    records, _ = read(json.dumps({"model": "gpt-4o", "temperature": 0, "tools": [], "messages": [HI]}).encode())
    assert records[0] == Room(id="chat", metadata={"model": "gpt-4o", "temperature": 0})


def test_openai_reads_the_lines_of_a_batch(read):
    body = {"model": "gpt-4o", "messages": [HI]}
    line = {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": body}
    (room, message), skips = read(lines_of([line]))
    assert (room.id, room.metadata, message.room, message.content) == (
        "chat/r-1",
        {"model": "gpt-4o"},
        "chat/r-1",
        "Hi",
    )
    assert skips == []


def test_langchain_keeps_what_is_beside_a_message(read):
    answer = {
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "A"}],
        "additional_kwargs": {"refusal": "no"},
        "response_metadata": {"model_name": "gpt-4o", "finish_reason": "stop"},
        "invalid_tool_calls": [{"name": "f", "args": "{"}],
    }
    tool = {"content": "4", "tool_call_id": "q", "artifact": {"rows": [1]}, "additional_kwargs": {}}
    records, skips = read(samples.written([{"type": "ai", "data": answer}, {"type": "tool", "data": tool}]))
    assert skips == []
    assert records[0].metadata == {
        "model": "gpt-4o",
        "thoughts": "Hm.",
        "additional_kwargs": {"refusal": "no"},
        "response_metadata": {"finish_reason": "stop"},
        "invalid_tool_calls": [{"name": "f", "args": "{"}],
    }
    assert records[1].metadata == {"artifact": {"rows": [1]}}


def test_langchain_may_name_a_picture_by_its_bare_address(read):
    look = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": "https://example.org/a.png"}]
    row = {"type": "human", "data": {"content": look, "additional_kwargs": {}}}
    (message,), skips = read(samples.written([row]))
    assert skips == []
    assert message.content == (Text(text="Look"), Media(modality="image", url="https://example.org/a.png"))


def test_langchain_roles_of_ones_own_are_the_nearest_of_ours(read):
    rows = [
        {"type": "chat", "data": {"content": "x", "role": role, "additional_kwargs": {}}}
        for role in ("Bot", "narrator", "human", "system")
    ]
    records, skips = read(samples.written(rows))
    assert skips == []
    assert [(each.role, each.metadata) for each in records] == [
        ("assistant", {"role": "Bot"}),
        ("user", {"role": "narrator"}),
        ("user", {"role": "human"}),
        ("system", {}),
    ]


def test_llamaindex_keeps_arguments_and_documents(read):
    document = {"block_type": "document", "data": "QQ==", "title": "d.pdf"}
    row = {"role": "user", "blocks": [document], "additional_kwargs": {"lang": "en"}}
    (message,), _ = read(samples.written([row]))
    assert isinstance(message, Message)
    assert (message.content, message.metadata) == ("d.pdf", {"blocks": [document], "additional_kwargs": {"lang": "en"}})


def slack_day(*messages):
    common = {"type": "message", "user": "U1"}
    return samples.written([{**common, "ts": f"170000000{at}.0", **each} for at, each in enumerate(messages)])


CARD = {"pretext": "Build", "title": "main", "fields": [{"title": "State", "value": "ok"}], "fallback": "no"}
PREVIEW = {"from_url": "https://a.example", "title": "A page", "text": "About it"}
RICH = {
    "type": "rich_text",
    "elements": [
        {"type": "rich_text_section", "elements": [{"type": "text", "text": "Hi "}, {"type": "user", "user_id": "U2"}]},
        {
            "type": "rich_text_list",
            "elements": [
                {"type": "rich_text_section", "elements": [{"type": "link", "url": "https://b", "text": "b"}]}
            ],
        },
    ],
}
SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*Deployed*"}, "fields": [{"text": "1.2"}]}


def test_slack_says_what_stands_in_blocks_and_attachments(read):
    messages, skips = read(
        slack_day(
            {"text": "Done", "attachments": [CARD]},
            {"text": "See <https://a.example>", "attachments": [PREVIEW]},
            {"text": "", "attachments": [PREVIEW]},
            {"text": "", "blocks": [RICH]},
            {"text": "", "blocks": [SECTION]},
            {"text": "Deployed", "blocks": [SECTION]},
        ),
        name="2023-11-14.json",
    )
    assert skips == []
    assert [each.content for each in messages] == [
        "Done\nBuild\nmain\nState: ok",
        "See https://a.example",
        "A page\nAbout it",
        "Hi @U2\n- b (https://b)",
        "*Deployed*\n1.2",
        "Deployed",
    ]
    assert [each.metadata.get("attachments") for each in messages[:3]] == [[CARD], [PREVIEW], [PREVIEW]]
    assert messages[5].metadata["blocks"] == [SECTION]


def test_slack_blocks_without_end_are_left_where_that_shows(read):
    deep = {"type": "context", "text": "in"}
    for _ in range(60):
        deep = {"type": "context", "elements": [deep]}
    _, skips = read(slack_day({"text": "", "blocks": [deep]}), name="2023-11-14.json")
    assert [reason for _, reason in skips] == ["is empty"]


def test_slack_rooms_know_what_is_pinned(read):
    channel = {"id": "C1", "name": "general", "members": [], "pins": [{"id": "1700000000.1", "type": "C"}]}
    (room,), _ = read(samples.written([channel]), name="channels.json")
    assert room.metadata["pins"] == ["slack/general/1700000000.1"]


def test_discord_keeps_embeds_whole_and_reads_what_was_forwarded(read):
    embed = {
        "title": "",
        "author": {"name": "CI"},
        "fields": [{"name": "State", "value": "ok", "isInline": True}],
        "footer": {"text": "now"},
        "images": [{"url": "https://i"}],
    }
    forwarded = {
        "content": "Tea at five",
        "timestamp": "2024-01-15T09:00:00+00:00",
        "attachments": [{"fileName": "t.png"}],
    }
    channel = samples.discord_channel()
    channel["messages"] = [
        samples.discord_message("1", "", 1, embeds=[embed]),
        samples.discord_message("2", "Look", 2, embeds=[embed]),
        samples.discord_message("3", "", 3, embeds=[{"image": {"url": "https://i"}}]),
        samples.discord_message("4", "", 4, forwardedMessage=forwarded),
    ]
    (_, *messages), skips = read(samples.written(channel), name="general.json")
    assert skips == []
    assert [each.content for each in messages] == [
        "CI\nState: ok\nnow",
        "Look",
        "[image https://i]",
        "[forwarded]\nTea at five\n[file t.png]",
    ]
    assert messages[1].metadata["embeds"] == [{key: value for key, value in embed.items() if value}]
    assert messages[3].metadata["forwarded"] == forwarded
