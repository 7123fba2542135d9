"""What has no place of its own is kept beside the message or the room."""

import json

from brimful.records import Message, Room
from importers import samples
from importers.conftest import lines_of

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
