"""Lorebooks of other programs are exported as they were imported."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.formats.lorebooks import (
    LOREBOOK_FORMATS,
    detect_lorebook_format,
    read_lorebook,
    read_lorebook_entries,
    write_lorebook,
)
from brimful.records import Lorebook, LoreEntry

WORLD_INFO = {
    "entries": {
        "0": {
            "uid": 0,
            "key": ["dragon", "/wyrms?/i"],
            "keysecondary": ["gold"],
            "comment": "The dragon",
            "content": "Smaug sleeps on gold.",
            "constant": False,
            "vectorized": False,
            "selective": True,
            "selectiveLogic": 3,
            "addMemo": True,
            "order": 250,
            "position": 4,
            "disable": False,
            "ignoreBudget": False,
            "excludeRecursion": True,
            "preventRecursion": True,
            "matchPersonaDescription": False,
            "matchCharacterDescription": True,
            "matchCharacterPersonality": False,
            "matchCharacterDepthPrompt": False,
            "matchScenario": True,
            "matchCreatorNotes": False,
            "delayUntilRecursion": 2,
            "probability": 35,
            "useProbability": True,
            "depth": 4,
            "outletName": "",
            "group": "beasts, lairs",
            "groupOverride": True,
            "groupWeight": 60,
            "scanDepth": 8,
            "caseSensitive": True,
            "matchWholeWords": False,
            "useGroupScoring": None,
            "automationId": "a1",
            "role": 0,
            "sticky": 4,
            "cooldown": 6,
            "delay": 10,
            "triggers": ["normal", "swipe"],
            "displayIndex": 0,
            "characterFilter": {"isExclude": True, "names": ["Nova"], "tags": ["t1"]},
        }
    }
}

CARD_BOOK = {
    "name": "Eldoria",
    "scan_depth": 6,
    "token_budget": 800,
    "recursive_scanning": False,
    "extensions": {"chub": {"id": 7}},
    "entries": [
        {
            "keys": ["forest"],
            "content": "An old wood.",
            "extensions": {"depth": 3, "weight": 10},
            "enabled": False,
            "insertion_order": 12,
            "case_sensitive": True,
            "name": "Forest",
            "priority": 9,
            "id": 4,
            "selective": True,
            "secondary_keys": ["tree"],
            "constant": True,
            "position": "after_char",
        }
    ],
}


def round_trip(data, format=None):
    book, entries = read_lorebook(data, "w"), read_lorebook_entries(data, "w")
    return write_lorebook(book, list(reversed(entries)), format or detect_lorebook_format(data))


def test_every_field_of_world_info_is_read():
    (entry,) = read_lorebook_entries(WORLD_INFO, "w")
    assert msgspec.structs.asdict(entry) | {"settings": None} == {
        **msgspec.structs.asdict(LoreEntry(id="w/0", lorebook="w", content="Smaug sleeps on gold.")),
        "name": "The dragon",
        "keys": ("dragon", "/wyrms?/i"),
        "secondary": ("gold",),
        "logic": "and-all",
        "vector": False,
        "order": 250,
        "exclude_recursion": True,
        "prevent_recursion": True,
        "sources": ("description", "scenario"),
        "delay_until_recursion": 2,
        "probability": 0.35,
        "groups": ("beasts", "lairs"),
        "group_override": True,
        "group_weight": 60,
        "scan_depth": 8,
        "case_sensitive": True,
        "whole_words": False,
        "sticky": 4,
        "cooldown": 6,
        "delay": 10,
        "triggers": ("normal", "swipe"),
        "personas": ("Nova",),
        "tags": ("t1",),
        "exclude_personas": True,
        "settings": None,
    }
    kept = entry.settings["sillytavern"]["rest"]
    assert kept == {
        "uid": 0,
        "addMemo": True,
        "position": 4,
        "depth": 4,
        "outletName": "",
        "automationId": "a1",
        "role": 0,
        "displayIndex": 0,
    }


def test_every_field_of_a_character_book_is_read():
    book, (entry,) = read_lorebook(CARD_BOOK, "w"), read_lorebook_entries(CARD_BOOK, "w")
    assert (book.name, book.scan_depth, book.budget, book.recursion) == ("Eldoria", 6, 800, 0)
    assert (entry.id, entry.keys, entry.secondary, entry.enabled) == ("w/4", ("forest",), ("tree",), False)
    assert (entry.order, entry.priority, entry.case_sensitive, entry.constant) == (12, 9.0, True, True)
    assert entry.name == "Forest"


@pytest.mark.parametrize(
    "data",
    [
        WORLD_INFO,
        CARD_BOOK,
        {"spec": "lorebook_v3", "data": {"entries": [], "extensions": {}}, "more": 1},
        {"entries": [{"keys": ["a"], "content": "b", "use_regex": True}]},
        {"entries": [{"key": ["a"], "content": "b", "uid": "x"}, {"key": []}], "name": ""},
        {"entries": {"9": {"key": "not a list", "probability": "50", "order": 1.5, "sticky": -3}}},
        {"entries": [{"keys": [1, "a", None], "extensions": None, "enabled": "yes", "content": 7}]},
        {"entries": [{"id": 1}, {"id": 1}, {"id": True}, {"id": ""}], "scan_depth": -1, "token_budget": 0},
        {"entries": [{"keys": [], "content": "", "extensions": {"brimful": {"fields": {"order": "x"}}}}]},
        {"entries": [{"keys": [], "content": "", "extensions": {"brimful": "mine"}}], "extensions": {"brimful": []}},
    ],
    ids=detect_lorebook_format,
)
def test_a_file_is_given_back_as_it_was(data):
    before = json.dumps(data)
    assert round_trip(data) == data
    assert json.dumps(data) == before, "what was given is not changed"


def test_sillytavern_calls_plain_keys_patterns_and_means_those_between_slashes():
    entry = {"keys": ["c++"], "content": "x", "use_regex": True, "extensions": {"selectiveLogic": 0}}
    (read,) = read_lorebook_entries({"entries": [entry]}, "w")
    assert not read.regex
    (other,) = read_lorebook_entries({"entries": [{**entry, "extensions": {}}]}, "w")
    assert other.regex


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "must be a JSON object"),
        ({}, "has no entries"),
        ({"entries": 3}, "has no entries"),
        ({"entries": {"0": "text"}}, "entries[0]: must be a JSON object"),
        ({"spec": "lorebook_v3", "data": {"entries": {}}}, "has no list of entries"),
    ],
)
def test_other_files_than_lorebooks_are_refused(data, told):
    with pytest.raises(InvalidValue) as caught:
        read_lorebook_entries(data, "w")
    assert told in str(caught.value)


@pytest.mark.parametrize("field", ["key", "order", "unknown"])
def test_endless_nesting_is_refused(field):
    deep = []
    for _ in range(20_000):
        deep = [deep]
    with pytest.raises(InvalidValue, match=r"entries\[0\]"):
        read_lorebook_entries({"entries": {"0": {field: deep}}}, "w")
    with pytest.raises(InvalidValue, match="lorebook"):
        read_lorebook({"entries": {}, "name" if field == "key" else field: deep}, "w")


def test_no_two_books_share_an_id():
    one = {"entries": {"0": {"uid": "b/1"}, "1": {"uid": 1}, "2": {"uid": 1}}}
    ids = [entry.id for book in ("a", "a/b", "a/1") for entry in read_lorebook_entries(one, book)]
    assert len(set(ids)) == 9


def test_an_unknown_format_is_refused():
    with pytest.raises(InvalidValue, match="must be one of sillytavern, v2, v3"):
        write_lorebook(Lorebook(id="w"), [], "v4")


@pytest.mark.parametrize("format", LOREBOOK_FORMATS)
def test_only_changed_fields_are_written(format):
    data = WORLD_INFO if format == "sillytavern" else CARD_BOOK
    book, (entry,) = read_lorebook(data, "w"), read_lorebook_entries(data, "w")
    changed = msgspec.structs.replace(entry, probability=0.5, keys=("new",), sticky=0)
    (again,) = read_lorebook_entries(write_lorebook(book, [changed], format), "w")
    assert (again.probability, again.keys, again.sticky, again.secondary) == (0.5, ("new",), 0, entry.secondary)


# -- laws ------------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ST_KEYS = [*WORLD_INFO["entries"]["0"], "extensions", "other"]
CARD_KEYS = [*CARD_BOOK["entries"][0], "use_regex", "comment", "other"]
EXTENSIONS = ["selectiveLogic", "probability", "useProbability", "sticky", "group", "vectorized", "position", "other"]


def likely(keys, sample):
    """Entries with some of the fields: as usual, or anything at all."""
    fields = {key: st.just(sample[key]) | json_values if key in sample else json_values for key in keys}
    return st.fixed_dictionaries({}, optional=fields)


st_entries = likely(ST_KEYS, WORLD_INFO["entries"]["0"])
card_entries = st.builds(
    lambda entry, extensions: {**entry, **({"extensions": extensions} if extensions is not None else {})},
    likely(CARD_KEYS, CARD_BOOK["entries"][0]),
    st.none() | st.dictionaries(st.sampled_from(EXTENSIONS), json_values, max_size=5),
)
books = st.builds(
    lambda rest, entries: {**rest, "entries": entries},
    st.dictionaries(
        st.sampled_from(["name", "scan_depth", "token_budget", "extensions", "x"]), json_values, max_size=4
    ),
    st.dictionaries(st.text(max_size=3), st_entries, max_size=3) | st.lists(card_entries, max_size=3),
)


@given(books)
def test_whatever_a_file_says_is_given_back(data):
    stored = [
        msgspec.json.decode(msgspec.json.encode(entry), type=LoreEntry) for entry in read_lorebook_entries(data, "w")
    ]
    assert write_lorebook(read_lorebook(data, "w", "named"), stored, detect_lorebook_format(data)) == data


@given(books, st.sampled_from(LOREBOOK_FORMATS))
def test_a_detour_through_another_format_loses_nothing(data, format):
    there = round_trip(data, format)
    again = write_lorebook(read_lorebook(there, "w"), read_lorebook_entries(there, "w"), detect_lorebook_format(data))
    assert without_ours(again) == without_ours(data)


@pytest.mark.parametrize("format", LOREBOOK_FORMATS)
@pytest.mark.parametrize("data", [WORLD_INFO, CARD_BOOK, {"entries": {"3": WORLD_INFO["entries"]["0"]}, "name": "E"}])
def test_a_detour_through_another_format_adds_nothing(data, format):
    there = round_trip(data, format)
    assert (
        write_lorebook(read_lorebook(there, "w"), read_lorebook_entries(there, "w"), detect_lorebook_format(data))
        == data
    )


def without_ours(value):
    """Return JSON data without what we added under our own name."""
    if isinstance(value, list):
        return [without_ours(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {key: without_ours(each) for key, each in value.items() if key != "extensions"}
    extensions = value.get("extensions")
    if isinstance(extensions, dict):
        ours = extensions.get("brimful")
        left = {key: without_ours(each) for key, each in extensions.items() if key != "brimful"}
        instead = ours.get("replaced") if isinstance(ours, dict) else None
        if instead:
            plain["extensions"] = without_ours(instead[0])
        elif instead is None:
            plain["extensions"] = left
    elif "extensions" in value:
        plain["extensions"] = without_ours(extensions)
    return plain


entries = st.builds(
    LoreEntry,
    id=st.just("w/0"),
    lorebook=st.just("w"),
    content=st.text(),
    name=st.text(max_size=9),
    keys=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    secondary=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    logic=st.sampled_from(["and-any", "and-all", "not-any", "not-all"]),
    regex=st.booleans(),
    case_sensitive=st.sampled_from([None, True, False]),
    constant=st.booleans(),
    vector=st.booleans(),
    order=st.integers(-1000, 1000),
    priority=st.none() | st.floats(-10, 10),
    importance=st.floats(0, 1),
    probability=st.floats(0, 1),
    groups=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    sources=st.lists(st.sampled_from(["user", "description", "scenario"]), unique=True).map(tuple),
    sticky=st.integers(0, 9),
    personas=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    exclude_personas=st.booleans(),
)


@given(entries, st.sampled_from(LOREBOOK_FORMATS))
def test_whatever_an_entry_of_ours_says_comes_back(entry, format):
    book = Lorebook(id="w", name="W", recursion=3, names=False, budget=7)
    file = msgspec.json.decode(msgspec.json.encode(write_lorebook(book, [entry], format)))
    (again,) = read_lorebook_entries(file, "w")
    assert msgspec.structs.replace(again, settings={}) == entry
    assert msgspec.structs.replace(read_lorebook(file, "w"), settings={}) == book
