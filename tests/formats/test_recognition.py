"""Format detection if a file does not begin with its distinctive keys."""

import json

import pytest

from brimful.formats import Limits, Source, detect_format
from brimful.records import Message, User
from formats import samples
from formats.conftest import lines_of

LONG = "x" * 100_000
FAR = {str(at): "y" * 50 for at in range(5000)}


def big_conversation():
    conversation = samples.chatgpt_conversation()
    conversation["mapping"] = samples.tree(
        samples.node("q", None, "user", LONG), samples.node("a", "q", "assistant", "A")
    )
    return [conversation]


BIG = {
    "chatgpt": samples.written(big_conversation()),
    "openai": lines_of([{"content": LONG, "role": "user"}]),
    "card": samples.written({"description": LONG, **samples.v1_card(), "name": "Nova"}),
    "langchain": samples.written(
        [{"content": LONG, "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": None, "id": None}]
    ),
    "llamaindex": samples.written(
        [{"additional_kwargs": {}, "blocks": [{"text": LONG, "block_type": "text"}], "role": "user"}]
    ),
}


@pytest.mark.parametrize("format", BIG)
def test_a_long_text_hides_nothing(tmp_path, format):
    path = tmp_path / "chat.json"
    path.write_bytes(BIG[format])
    with Source(str(path)) as source:
        importer = detect_format(source)
        assert importer.name == format
        assert list(importer.read(source))
        assert len(source.outline) < 2**16


@pytest.mark.parametrize("end", [b"x", b"\\\\", b'\\"', b"\\u00fc"])
def test_a_text_of_many_mib_hides_nothing(tmp_path, end):
    path = tmp_path / "chat.json"
    path.write_bytes(b'{"content": "' + b"x" * (5 * 2**20) + end * 70_000 + b'", "role": "user"}')
    with Source(str(path)) as source:
        assert source.outline == b'{"content": "", "role": "user"}'
        assert source.keys == {"content", "role"}


def test_an_endless_string_is_read_no_further_than_the_limit(tmp_path):
    path = tmp_path / "chat.json"
    path.write_bytes(b'{"content": "' + b"x" * 2**21 + b'", "role": "user"}')
    with Source(str(path), limits=Limits(outline_bytes=2**20)) as source:
        assert source.outline == b'{"content": ""'


def test_settings_are_known_however_much_stands_before_the_user(read):
    settings = {"first": FAR, "power_user": {"personas": {"a.png": "Ada"}, "persona_descriptions": {}}}
    records, skips = read(samples.written(settings, indent=1), name="settings.json")
    assert ([each.name for each in records if isinstance(each, User)], skips) == (["Ada"], [])


CALL = {"id": "q", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OLD = [
    {"role": "user", "content": "hi", "additional_kwargs": {}},
    {"role": "assistant", "content": None, "additional_kwargs": {"tool_calls": [CALL]}},
    {"role": "tool", "content": "4", "additional_kwargs": {"tool_call_id": "q", "name": "f"}},
]
BLOCKS = [
    {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "hi"}]},
    {
        "role": "assistant",
        "additional_kwargs": {"tool_calls": [CALL]},
        "blocks": [{"block_type": "text", "text": "yo"}],
    },
    {"role": "chatbot", "content": "old"},
]


@pytest.mark.parametrize(
    "data", [OLD, BLOCKS, {"store": {"k": OLD}}, {"store": {"k": BLOCKS}}], ids=["old", "blocks", "store", "both"]
)
def test_calls_of_llamaindex_are_not_taken_for_messages_of_langchain(read, data):
    records, skips = read(samples.written(data), name="chat.json")
    assert (len(records), skips) == (3, [])
    assert all(each.content for each in records if isinstance(each, Message))


def test_a_form_that_is_not_known_is_skipped_and_no_empty_message(read):
    strange = [*samples.langchain_dicts()[:1], {"role": "user", "words": "Hi"}]
    for rows in (strange, [{"role": "user", "words": "Hi"}]):
        records, skips = read(json.dumps(rows).encode())
        assert all(each.content for each in records)
        assert len(skips) == 1
