import datetime as dt
import enum
import math
from types import MappingProxyType

import msgspec
import pytest

from brimful import ContentPackage, Count, Flex, Media, Text, Tool, ToolCall, ToolResult
from brimful.core.content import KNOWN_KINDS, content_hashes, with_search
from brimful.core.validation import clean_text
from brimful.errors import InvalidPackage, InvalidValue

ONE = Count(tokens=1, basis="exact")
HUGE = 10**5000  # Python does not even write it out
BROKEN = "a\ud800"


def make(**changes):
    return ContentPackage(**{"id": "a", "kind": "message-recent", "content": "hi", "tokens": ONE} | changes)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("id", {"id": ""}),
        ("kind", {"kind": ""}),
        ("tokens", {"tokens": None}),
        ("tokens", {"tokens": 7}),
        ("importance", {"importance": 1.01}),
        ("importance", {"importance": -0.01}),
        ("importance", {"importance": math.nan}),
        ("importance", {"importance": "high"}),
        ("importance", {"importance": True}),
        ("relevance", {"relevance": math.inf}),
        ("relevance", {"relevance": 2}),
        ("timestamp", {"timestamp": math.nan}),
        ("timestamp", {"timestamp": math.inf}),
        ("timestamp", {"timestamp": "yesterday"}),
        ("content", {"content": "lone \ud800 surrogate"}),
        ("content", {"content": 12}),
        ("content", {"content": None}),
        ("content", {"role": "tool"}),
        ("content", {"kind": "tool-result", "content": (Text(text="x"),)}),
        ("position", {"position": "first"}),
        ("name", {"name": 7}),
        ("group", {"group": 7}),
        ("role", {"role": "wizard"}),
        ("role", {"role": []}),
        ("name", {"name": None}),
        ("id", {"id": 7}),
        ("kind", {"kind": []}),
        ("cluster", {"cluster": 7}),
        ("flex", {"flex": None}),
        ("timestamp", {"timestamp": True}),
        ("timestamp", {"timestamp": None}),
        ("covers", {"covers": None}),
        ("covers", {"covers": "ab"}),
        ("covers[1]", {"covers": ("a", 2)}),
        ("metadata", {"metadata": None}),
        ("metadata", {"metadata": []}),
        ("metadata", {"metadata": 7}),
        ("hash", {"hash": 7}),
        ("content", {"content": [Text(text="x")]}),
        ("id", {"id": BROKEN}),
        ("kind", {"kind": BROKEN}),
        ("name", {"name": BROKEN}),
        ("cluster", {"cluster": BROKEN}),
        ("group", {"group": BROKEN}),
        ("covers[0]", {"covers": (BROKEN,)}),
        ("content", {"content": (ToolCall(id="c", name="f", arguments=BROKEN),), "role": "assistant"}),
        ("timestamp", {"timestamp": HUGE}),
        ("position", {"position": HUGE}),
        ("position", {"position": -HUGE}),
        ("importance", {"importance": HUGE}),
        ("metadata", {"metadata": {"n": HUGE}}),
        ("role", {"content": (ToolResult(id="c", content="x"),)}),
        ("role", {"content": (ToolCall(id="c", name="f"),), "role": "user"}),
    ],
)
def test_refuses_out_of_range_values_by_name(field, changes):
    with pytest.raises(InvalidPackage) as caught:
        make(**changes)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize("priority", [0, 11, -1, 5.5, None, True])
def test_refuses_a_priority_outside_one_to_ten(priority):
    with pytest.raises(InvalidPackage, match=r"^flex\.priority"):
        Flex(priority=priority)


@pytest.mark.parametrize("can_drop", [None, 0, "no"])
def test_refuses_what_is_neither_true_nor_false(can_drop):
    with pytest.raises(InvalidPackage, match=r"^flex\.can_drop: must be true or false"):
        Flex(can_drop=can_drop)


@pytest.mark.parametrize("least", [0, -4, 1.5, 2**53])
def test_refuses_a_minimum_that_is_none(least):
    with pytest.raises(InvalidPackage, match=r"^flex\.min_tokens"):
        Flex(min_tokens=least)


@pytest.mark.parametrize("tokens", [-1, 1.5, None, math.nan, True, 2**53])
def test_refuses_counts_that_are_none(tokens):
    with pytest.raises(InvalidPackage, match=r"^tokens"):
        Count(tokens=tokens, basis="exact")


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("tokens.margin", {"margin": -1}),
        ("tokens.basis", {"basis": "guess"}),
        ("tokens.tokenizer", {"tokenizer": None}),
        ("tokens.tokenizer", {"tokenizer": BROKEN}),
    ],
)
def test_refuses_the_rest_of_a_count_by_name(field, changes):
    with pytest.raises(InvalidPackage) as caught:
        Count(**{"tokens": 1, "basis": "calibrated"} | changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("part", "field", "values"),
    [
        (Text, "text", {"text": 7}),
        (Text, "text", {"text": None}),
        (Media, "media", {"url": ""}),
        (Media, "media", {"data": "d"}),
        (Media, "url", {"url": 7}),
        (Media, "url", {"url": BROKEN}),
        (Media, "data", {"data": b"d"}),
        (Media, "media_type", {"media_type": None}),
        (Media, "detail", {"detail": 1}),
        (Media, "modality", {"modality": "smell"}),
        (Media, "modality", {"modality": None}),
        (Media, "width", {"width": 0}),
        (Media, "width", {"width": 3.0}),
        (Media, "width", {"width": True}),
        (Media, "height", {"height": "3"}),
        (Media, "height", {"height": HUGE}),
        (Media, "seconds", {"seconds": math.nan}),
        (Media, "seconds", {"seconds": -1}),
        (Media, "seconds", {"seconds": HUGE}),
        (Media, "seconds", {"seconds": "3"}),
        (ToolCall, "id", {"id": 7}),
        (ToolCall, "id", {"id": BROKEN}),
        (ToolCall, "name", {"name": None}),
        (ToolCall, "name", {"name": BROKEN}),
        (ToolCall, "arguments", {"arguments": {"q": "tea"}}),
        (ToolResult, "id", {"id": None}),
        (ToolResult, "content", {"content": {"state": "shipped"}}),
        (ToolResult, "name", {"name": 7}),
        (ToolResult, "is_error", {"is_error": 1}),
    ],
)
def test_refuses_what_is_no_part_by_name(part, field, values):
    right = {
        Text: {},
        Media: {"modality": "image", "url": "u"},
        ToolCall: {"id": "c", "name": "f"},
        ToolResult: {"id": "c", "content": "x"},
    }
    with pytest.raises(InvalidPackage) as caught:
        part(**right[part] | values)
    assert caught.value.field == f"content.{field}"


def test_arguments_that_are_no_text_yet_get_a_hint():
    with pytest.raises(InvalidPackage, match=r"must be a JSON string \(use json\.dumps\), not {'q': 'tea'}"):
        ToolCall(id="c", name="f", arguments={"q": "tea"})


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", {"name": None}),
        ("name", {"name": BROKEN}),
        ("description", {"description": 7}),
        ("parameters", {"parameters": None}),
        ("parameters", {"parameters": []}),
        ("parameters", {"parameters": {1: 2}}),
        ("parameters", {"parameters": {"properties": {1: 2}}}),
        ("parameters", {"parameters": {"default": print}}),
        ("parameters", {"parameters": {"default": HUGE}}),
    ],
)
def test_refuses_what_is_no_tool_by_name(field, values):
    with pytest.raises(InvalidValue) as caught:
        Tool(**{"name": "f"} | values)
    assert caught.value.field == f"tools.{field}"


def test_a_schema_that_holds_itself_is_refused():
    cycle = {}
    cycle["items"] = [cycle]
    with pytest.raises(InvalidValue, match=r"^tools\.parameters: is nested more than 128 levels deep"):
        Tool(name="f", parameters=cycle)


def test_a_schema_becomes_plain_data_of_its_own():
    data = {"enum": ("a", BROKEN), "maximum": math.nan, BROKEN: 1}
    tool = Tool(name="f", description=BROKEN, parameters=MappingProxyType(data))
    data["enum"] = ()
    assert tool.parameters == {"enum": ["a", "a\ufffd"], "maximum": None, "a\ufffd": 1}
    assert tool.description == "a\ufffd"
    assert msgspec.json.decode(msgspec.json.encode(tool), type=Tool) == tool


def test_metadata_becomes_plain_data_of_its_own():
    data = {"when": dt.date(2026, 11, 1), "pair": (1, 2), "odd": math.nan}
    package = make(metadata=data)
    data["when"] = "changed"
    assert package.metadata == {"when": "2026-11-01", "pair": [1, 2], "odd": None}


def test_refuses_metadata_that_cannot_be_recorded():
    cycle = {}
    cycle["self"] = cycle
    for bad in (cycle, {"f": print}, {"text": "\ud800"}):
        with pytest.raises(InvalidPackage, match=r"^metadata"):
            make(metadata=bad)


def test_any_string_is_a_kind():
    assert make(kind="weather-report").kind == "weather-report"
    assert "code-snippet" in KNOWN_KINDS


def test_values_are_equal_by_content_and_survive_json():
    package = make(content=(Text(text="see"), Media(modality="image", url="u", width=3, height=4)), relevance=0.25)
    again = msgspec.json.decode(msgspec.json.encode(package), type=ContentPackage)
    assert again == package
    assert again.hash == package.hash


class Kind(enum.StrEnum):
    WEATHER = "weather"


class Odd(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": Kind.WEATHER, "id": Odd("x"), "name": Odd("Ada"), "group": Odd("g"), "cluster": Kind.WEATHER},
        {"timestamp": 5, "importance": 1, "relevance": 0, "metadata": MappingProxyType({"a": (1,)})},
        {"content": (Media(modality="audio", url=Odd("u"), seconds=30), Text(text=Odd("x")))},
        {"content": (ToolResult(id=Odd("c"), content=Odd("x")),), "kind": "tool-result"},
    ],
)
def test_nearly_valid_values_are_stored_normalized(changes):
    package = make(**changes)
    again = msgspec.json.decode(msgspec.json.encode(package), type=ContentPackage)
    assert again == package
    assert repr(again) == repr(package)


def test_text_and_parts_are_two_views_of_one_content():
    assert make().parts == (Text(text="hi"),)
    assert make(content=(Text(text="a"), Media(modality="image", url="u"), Text(text="b"))).text == "a\nb"


def test_normalized_hash_ignores_case_form_and_spacing_only():
    def normalized(text):
        return content_hashes(text)[1]

    assert normalized("The  CAF\u00c9\n") == normalized("the cafe\u0301")
    assert normalized("one") != normalized("two")
    parts = (Text(text="A  b"), Media(modality="image", url="u"))
    assert content_hashes(parts)[1] == content_hashes((Text(text="a b"), parts[1]))[1]
    assert content_hashes(parts)[1] != content_hashes((Text(text="a b"), Media(modality="image", url="v")))[1]


def test_clean_text_replaces_lone_surrogates_and_nothing_else():
    assert clean_text("ok \U0001f600 \udc00!") == "ok \U0001f600 \ufffd!"
    assert clean_text("plain") == "plain"


def test_exactness_is_in_the_count():
    assert Count(tokens=3, basis="provider").exact
    assert not Count(tokens=3, basis="approximate").exact


def test_a_number_too_long_to_write_is_refused_too():
    with pytest.raises(InvalidPackage, match=r"^tokens: must be at most 9,007,199,254,740,991"):
        Count(tokens=HUGE, basis="exact")
    with pytest.raises(InvalidPackage, match=r"^flex\.min_tokens: .*, not one beyond 9,007,199,254,740,991"):
        Flex(min_tokens=HUGE)


def test_a_very_long_text_is_compared_as_it_is():
    long = "Tea. " * 30_000
    assert content_hashes(long)[1] != content_hashes(long.upper())[1]
    assert content_hashes(long)[1] == content_hashes("".join(["Tea. "] * 30_000))[1]


def test_texts_of_other_types_become_plain_in_what_tools_say():
    call = ToolCall(id=Odd("c1"), name=Odd("look"), arguments=Odd("{}"))
    result = ToolResult(id=Odd("c1"), name=Odd("look"), content=Odd("tea"))
    assert {type(text) for text in (call.id, call.name, call.arguments)} == {str}
    assert {type(text) for text in (result.id, result.name, result.content)} == {str}
    assert (call.arguments, result.content) == ("{}", "tea")


def test_whether_a_package_can_shrink_is_true_or_false():
    with pytest.raises(InvalidPackage, match=r"flex\.can_shrink: must be true or false, not 'no'"):
        Flex(can_shrink="no")


def test_search_adds_its_findings_to_a_package_and_leaves_the_package_as_it_is():
    package = make(metadata={"mood": "good"})
    found = with_search(package, relevance=0.5, metadata={"search": {"query": "message"}}, matches=((0, 2),))
    assert (found.relevance, found.matches, found.hash) == (0.5, ((0, 2),), package.hash)
    assert found.metadata == {"mood": "good", "search": {"query": "message"}}
    assert (package.relevance, package.metadata) == (None, {"mood": "good"})
