"""OpenAI's format, complete and damaged."""

import gzip
import json
import tempfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.errors import InvalidValue
from brimful.formats import Limits, Skipped, Source, openai
from brimful.records import Message, Room
from formats.conftest import lines_of

HI = {"role": "user", "content": "Hi"}
HELLO = {"role": "assistant", "content": "Hello"}
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}


def message_rows(records):
    return [(each.room, each.role, each.content) for each in records if isinstance(each, Message)]


TWO = [("chat", "user", "Hi"), ("chat", "assistant", "Hello")]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([HI, HELLO]).encode(),
        json.dumps([HI, HELLO], indent=2).encode(),
        json.dumps({"messages": [HI, HELLO]}).encode(),
        json.dumps({"model": "gpt-4o", "messages": [HI, HELLO], "tools": []}, indent=2).encode(),
        lines_of([HI, HELLO]),
        lines_of([HI, HELLO]).rstrip(),
        lines_of([HI, HELLO]).replace(b"\n", b"\r\n\r\n"),
        b"\xef\xbb\xbf" + lines_of([HI, HELLO]),
        b"\xef\xbb\xbf" + json.dumps([HI, HELLO]).encode(),
        gzip.compress(lines_of([HI, HELLO])),
    ],
    ids=["array", "pretty", "request", "pretty-request", "lines", "no-end", "crlf", "bom", "bom-array", "gzip"],
)
def test_every_shape_says_the_same(read, data):
    records, skips = read(data)
    assert (message_rows(records), skips) == (TWO, [])


@pytest.mark.parametrize("data", [lines_of, lambda rows: json.dumps(rows).encode()], ids=["lines", "array"])
def test_conversations_are_a_room_each(read, data):
    rows = [{"messages": [HI]}, {"messages": [HELLO]}, {"id": "c-9", "messages": [HI, HELLO]}, [HI]]
    records, skips = read(data(rows), name="train.jsonl")
    assert [room for room, _, _ in message_rows(records)] == ["train", "train/2", "train/c-9", "train/c-9", "train/4"]
    assert not skips


def test_tools_stay_with_the_room(read):
    records, _ = read(json.dumps({"messages": [HI], "tools": [TOOL]}, indent=1).encode(), name="r.json")
    assert records[0] == Room(id="r", metadata={"tools": [TOOL]})  # first, for a message makes a room of its own


def test_the_room_can_be_named(read):
    assert message_rows(read(lines_of([HI]), room="lobby")[0])[0][0] == "lobby"


@pytest.mark.parametrize("nothing", [None, "", []])
def test_a_refusal_is_kept_whatever_stands_beside_it(read, nothing):
    rows = [
        {"role": "assistant", "content": nothing, "refusal": "I cannot."},
        {"role": "assistant", "content": "Half of it.", "refusal": "No more."},
        {"role": "assistant", "content": "All of it.", "refusal": ""},
    ]
    records, skips = read(lines_of(rows))
    assert skips == []
    assert [(each.content, each.metadata) for each in records] == [
        ("I cannot.", {"refusal": True}),
        ("Half of it.", {"refusal": "No more."}),
        ("All of it.", {}),
    ]


def test_parts_calls_results_names_and_refusals(read):
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    rows = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ada L.", "content": [{"type": "input_text", "text": "Look"}, image, sound]},
        {"role": "assistant", "content": None, "tool_calls": [call], "function_call": None},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "assistant", "content": None, "refusal": "I cannot."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "metadata": {"k": 1}},
        {"role": "assistant", "content": None},
    ]
    records, skips = read(lines_of(rows))
    assert skips == []
    system, look, calls, result, refused, part, nothing = records
    assert (system.role, look.sender) == ("system", "Ada L.")
    assert look.content == (
        Text(text="Look"),
        Media(modality="image", url="https://example.org/a.png"),
        Media(modality="audio", data="AAAA", media_type="audio/wav"),
    )
    assert calls.content == (ToolCall(id="c1", name="search", arguments="{}"),)
    assert result.content == (ToolResult(id="c1", content="found", name="search"),)
    assert (refused.content, refused.metadata) == ("I cannot.", {"refusal": True})
    assert (part.content, part.metadata) == ("No.", {"k": 1})
    assert nothing.content == ""


def test_an_unknown_part_is_replaced_by_its_type_and_kept_in_the_metadata(read):
    file = {"type": "file", "file": {"file_id": "f1"}}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    look, see = {"type": "text", "text": "Look: "}, {"type": "output_text", "text": "I see. "}
    rows = [{"role": "user", "content": [look, file]}, {"role": "assistant", "content": [see, image]}]
    found, skipped = read(lines_of(rows))
    assert [each.content for each in found] == [
        (Text(text="Look: "), Text(text="[file]")),
        (Text(text="I see. "), Text(text="[image_url]")),
    ]
    assert [reason for _, reason in skipped] == [
        f"has a part of the unknown type '{kind}': only its type is in the text" for kind in ("file", "image_url")
    ]
    assert [each.metadata for each in found] == [{"unknown_parts": [file]}, {"unknown_parts": [image]}]


def test_times_of_every_sort_and_none(read):
    rows = [
        HI,
        {**HI, "timestamp": 1700000000},
        HELLO,
        {**HI, "created": 1700000060000},
        {**HI, "created_at": "2023-11-14T22:15:20Z"},
        {**HI, "created_at": "2023-11-14T23:16:20+01:00"},
        {**HI, "timestamp": "soon"},
        {**HI, "timestamp": 10**400},
    ]
    records, _ = read(json.dumps(rows).encode())
    first, *rest = [record.at for record in records]
    assert first > 1700000000  # the file's own
    assert [at - 1700000000 for at in rest] == [0, 0, 60, 120, 180, 180, 180]


def test_ids_are_the_same_again_and_grow_with_the_file(read):
    rows = [HI, HELLO, HI, HI]
    ids = [record.id for record in read(lines_of(rows))[0]]
    assert len(set(ids)) == 4
    assert [record.id for record in read(json.dumps(rows).encode())[0]] == ids
    assert [record.id for record in read(lines_of([*rows, HELLO]))[0]][:4] == ids
    assert not set(ids) & {record.id for record in read(lines_of(rows), room="other")[0]}
    assert not set(ids) & {record.id for record in read(lines_of([HELLO, HELLO, HI, HI]))[0]}


def test_ids_of_the_file_are_kept_within_its_room(read):
    records, _ = read(lines_of([{**HI, "id": "a"}, {**HELLO, "id": 7}, {**HI, "id": ""}, {**HI, "id": True}]))
    assert [record.id for record in records[:2]] == ["chat/a", "chat/7"]
    assert all(record.id.startswith("msg-") for record in records[2:])


DAMAGE = [
    (b'{"role": "user", "content": "Hi', "is not JSON: Input data was truncated"),
    (b'{"role": "user", "content": NaN}', "is not JSON: JSON is malformed: invalid character"),
    (b'{"role": "user", "content": "\xfcber"}', "is not UTF-8 text: invalid start byte"),
    (b"[" * 100_000, "is nested more than 128 levels deep"),
    (b"7", "must be a JSON object, not a number"),
    (b'"text"', "must be a JSON object, not a string"),
    (b"{}", "has neither a role nor a list of messages"),
    (b'{"role": "robot"}', "role: must be one of system, developer, user, assistant, tool, not 'robot'"),
    (b'{"role": "user", "content": 7}', "content: must be a string or a list of parts, not a number"),
    (b'{"role": "user", "content": "x", "id": "a\\u0000b"}', "id: must not contain a null character"),
    (b'{"messages": 7}', "has neither a role nor a list of messages"),
    (b'{"role": "tool", "content": "x"}', "tool_call_id: must be a string, but is missing"),
]


@pytest.mark.parametrize(("line", "reason"), DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_line_costs_itself_alone(read, line, reason):
    records, skips = read(b"\n".join((json.dumps(HI).encode(), line, json.dumps(HELLO).encode())))
    assert message_rows(records) == TWO
    assert skips == [(":2", reason)]


def test_a_damaged_element_costs_itself_alone(read):
    records, skips = read(
        b'[{"role": "user", "content": "Hi"}, {"role": NaN}, {"role": "assistant", "content": "Hello"}]'
    )
    assert message_rows(records) == TWO
    assert skips == [("[1]", "is not JSON: JSON is malformed: invalid character")]


def test_a_damaged_message_costs_itself_alone(read):
    records, skips = read(lines_of([{"messages": [HI, 7, {**HI, "role": "robot"}, HELLO]}]))
    assert message_rows(records) == TWO
    assert [place for place, _ in skips] == [":1: messages[1]", ":1: messages[2]"]


def test_a_truncated_array_keeps_what_is_whole(read):
    records, skips = read(json.dumps([HI, HELLO, HI]).encode()[:-8])
    assert message_rows(records) == TWO
    assert skips == [("[2]", "the file ends in the middle of its array")]


def test_a_truncated_object_says_so(read):
    records, skips = read(json.dumps({"messages": [HI]}, indent=2).encode()[:-8])
    assert (records, skips) == ([], [("", "is not JSON: Input data was truncated")])


def test_a_record_that_is_too_long_says_so(read):
    long = {**HI, "content": "x" * 2000}
    for data, place in (
        (lines_of([HI, long]), ":2"),
        (json.dumps([HI, long]).encode(), "[1]"),
        (json.dumps({"messages": [long]}, indent=1).encode(), ""),
    ):
        _, skips = read(data, limits=Limits(piece_bytes=1000))
        assert skips == [(place, "is longer than 0 MiB")]


def test_half_a_pair_of_surrogates_is_mended(read):
    assert message_rows(read(b'{"role": "user", "content": "a\\ud83d"}')[0]) == [("chat", "user", "a�")]


def test_a_truncated_archive_keeps_what_is_whole(read):
    packed = gzip.compress(lines_of([{**HI, "id": at} for at in range(20_000)]))
    records, skips = read(packed[: len(packed) // 2])
    assert 0 < len(records) < 20_000
    assert len(skips) == 1
    assert skips[0][1].startswith("cannot be read further: ")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "messages", "type", "text", "tool_calls", "id", "tools", "metadata", "name"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.lists(VALUES, max_size=4), st.booleans(), st.binary(max_size=6), st.integers(0, 200))
def test_whatever_stands_in_a_file_is_a_record_or_is_skipped(values, as_lines, damage, at):
    data = lines_of(values) if as_lines else json.dumps(values).encode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(data[:at] + damage + data[at:])
        file.flush()
        found = []
        with suppress(InvalidValue), Source(file.name, room="r") as source:  # which is raised by the first bytes alone
            found = list(openai.FORMAT.read(source))
    assert all(isinstance(each, Message | Room | Skipped) for each in found)


# -- batches ---------------------------------------------------------------------------------------------------------


def answered(id, *said, **more):
    choices = [
        {"index": at, "message": {"role": "assistant", "content": each}, "finish_reason": "stop"}
        for at, each in enumerate(said)
    ]
    body = {"id": f"chatcmpl-{id}", "created": 1763200000, "model": "gpt-4o", "choices": choices, "usage": {"a": 1}}
    return {"id": "batch_req_1", "custom_id": id, "response": {"status_code": 200, "body": body}, "error": None, **more}


def test_answers_of_a_batch_go_where_its_requests_went(read):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    request = {"custom_id": "q1", "method": "POST", "body": body}
    asked, _ = read(lines_of([request]), room="batch")
    records, skips = read(lines_of([answered("q1", "Hello!", "Good day!")]), room="batch")
    assert skips == []
    assert [(each.id, each.room, each.role, each.content, each.at) for each in records] == [
        ("batch/q1/chatcmpl-q1", "batch/q1", "assistant", "Hello!", 1763200000),
        ("batch/q1/2/chatcmpl-q1", "batch/q1/2", "assistant", "Good day!", 1763200000),
    ]
    assert records[0].metadata == {"model": "gpt-4o", "finish_reason": "stop", "usage": {"a": 1}}
    assert asked[-1].room == records[0].room


def test_a_failed_batch_request_is_reported_with_its_reason(read):
    lost = answered("q2", response=None, error={"code": "expired", "message": "It took too long."})
    refused = answered("q3", response={"status_code": 400, "body": {"error": {"message": "No such model."}}})
    records, skips = read(lines_of([answered("q1", "Hello!"), lost, refused]))
    assert len(records) == 1
    assert skips == [
        (":2", "is a batch response without an answer: It took too long."),
        (":3", "is a batch response without an answer: No such model."),
    ]
