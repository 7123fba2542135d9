"""A damaged file is read as far as possible, and raises only our own errors."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.formats import ImportedRecord, Reader, Skipped, registry
from formats import samples
from formats.conftest import lay_out, packed
from strategies import examples

FILES = samples.files() | {
    "chatgpt.json": samples.chatgpt_export()["conversations.json"],
    "nova.png": samples.png(samples.text_chunk("chara", samples.v2_card(), b"zTXt")),
    "chats/Nova/x.jsonl": samples.lines(samples.tavern_chat()),
    "dumped.jsonl": samples.lines(samples.langchain_dumped()),
}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["\x00", "\ud800", "user", "../..", "x" * 5000]),
    st.lists(st.none() | st.text(max_size=2), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def reader(path):
    # To look for formats of other packages takes longer than to read a small file.
    return Reader([str(path)], formats=registry.BUILTIN_FORMATS)


def records_of(files):
    with tempfile.TemporaryDirectory() as place:
        found = list(reader(lay_out(Path(place), files)).records())
    for each in found:
        assert isinstance(each, ImportedRecord | Skipped)
    return found


def paths(data, way=()):
    """All places in JSON data."""
    yield way
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from paths(value, (*way, key))


def changed(data, way, value):
    if not way:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[way[0]] = changed(data[way[0]], way[1:], value)
    return copy


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_bytes_that_were_changed(name, data):
    whole = FILES[name]
    at = data.draw(st.integers(0, len(whole)))
    damage = data.draw(st.binary(max_size=8))
    removed = data.draw(st.integers(0, 40))
    records_of({name: whole[:at] + damage + whole[at + removed :]})


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_files_that_were_cut_off(name, data):
    whole = FILES[name]
    records_of({name: whole[: data.draw(st.integers(0, len(whole)))]})


@settings(max_examples=examples(120), deadline=None)
@given(st.sampled_from([name for name in sorted(FILES) if name.endswith(".json")]), st.data())
def test_fields_that_hold_something_else(name, data):
    result = json.loads(FILES[name])
    way = data.draw(st.sampled_from(list(paths(result))))
    records_of({name: json.dumps(changed(result, way, data.draw(JUNK))).encode()})


@pytest.mark.parametrize("name", [name for name in sorted(FILES) if name.endswith(".json")])
def test_any_field_may_hold_what_no_name_may(name):
    result = json.loads(FILES[name])
    for way in paths(result):
        records_of({name: json.dumps(changed(result, way, "\x00")).encode()})


@settings(max_examples=examples(80), deadline=None)
@given(st.sampled_from(samples.tavern_chat()), st.data())
def test_lines_that_hold_something_else(line, data):
    way = data.draw(st.sampled_from([way for way in paths(line) if way]))
    rows = [json.dumps(changed(line, way, data.draw(JUNK))), *map(json.dumps, samples.tavern_chat())]
    records_of({"chats/Nova/x.jsonl": "\n".join(rows).encode()})


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([samples.v1_card(), samples.v2_card(), samples.v3_card()]), st.data())
def test_cards_that_hold_something_else(card, data):
    way = data.draw(st.sampled_from([way for way in paths(card) if way]))
    records_of({"characters/x.png": samples.png(samples.text_chunk("chara", changed(card, way, data.draw(JUNK))))})


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_archives_that_were_changed(data):
    with tempfile.TemporaryDirectory() as place:
        path = packed(Path(place) / "x.zip", {name: FILES[name] for name in ("claude.json", "nova.png")})
        whole = path.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        damage = data.draw(st.binary(min_size=1, max_size=4))
        path.write_bytes(whole[:at] + damage + whole[at + len(damage) :])
        for each in reader(path).records():
            assert isinstance(each, ImportedRecord | Skipped)
