"""Memories as Markdown files: written, read, and edited by people."""

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brimful.errors import BrimfulError
from brimful.formats import Reader, Skipped, file_name, is_unedited, write_memory
from brimful.formats.markdown import read_memory
from brimful.records import Memory
from strategies import examples

TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["---", "\n", "\r\n", "\r", " ", "\t", "…", "\ufeff", "\x00", "\x85", "\u2028", "# a", 'id: "x"']
        ),
        max_size=12,
    ).map("".join),
).filter(str.strip)
IDS = st.text(min_size=1, max_size=30).filter(lambda name: "\0" not in name)
TIMES = st.one_of(st.floats(-1e9, 1e11), st.integers(0, 2_000_000_000).map(float))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def memories(draw):
    fields = {
        "id": draw(IDS),
        "content": draw(TEXTS),
        "type": draw(st.sampled_from(["semantic", "episodic", "procedural"])),
        "importance": draw(st.floats(0, 1)),
        "source": draw(st.text()),
        "at": draw(TIMES),
        "accesses": draw(st.integers(0, 10**6)),
        "metadata": draw(st.dictionaries(st.text(), JSON, max_size=3)),
        **{name: draw(st.none() | IDS) for name in ("persona", "user", "room", "source_message", "cluster")},
        **{name: draw(st.none() | TIMES) for name in ("edited", "ended", "accessed")},
        **{name: draw(st.booleans()) for name in ("pinned", "archived")},
    }
    try:
        return Memory(**fields, summary=fields["cluster"] is not None and draw(st.booleans()))
    except BrimfulError:  # an id that no record may have
        return Memory(
            **{**fields, **dict.fromkeys(("persona", "user", "room", "source_message", "cluster")), "id": "m"}
        )


PLAIN = Memory(id="nut", content="Ada is allergic to hazelnut.", user="ada", at=1_790_845_200.0, pinned=True)


@settings(max_examples=examples(300), deadline=None)
@given(memories())
@example(Memory(id="a", content="---\r\nid: 1\r\n---\r\n \n", at=0.1 + 0.2))
@example(Memory(id="b", content="\n\n\n"))
def test_a_memory_is_read_as_it_was_written(memory):
    text = write_memory(memory)
    assert read_memory(text, place="x.md", modified=9e9) == memory
    assert is_unedited(text)


@settings(max_examples=examples(200), deadline=None)
@given(memories())
def test_a_file_name_is_safe_on_every_system(memory):
    name = file_name(memory)
    assert name.endswith(".md")
    assert not set(name) & set('/\\:*?"<>|\0\n\r \t')
    assert not name.startswith((".", "-"))
    assert len(name.encode()) <= 255


def test_memories_with_the_same_text_have_files_of_their_own():
    names = {file_name(Memory(id=str(number), content="Same")) for number in range(100)}
    assert len(names) == 100


def test_a_file_is_easy_to_read():
    assert write_memory(PLAIN).splitlines() == [
        "---",
        'record: "memory"',
        'id: "nut"',
        'type: "semantic"',
        'user: "ada"',
        "importance: 0.5",
        'source: ""',
        "summary: false",
        'at: "2026-10-01T09:00:00+00:00"',
        "pinned: true",
        "accesses: 0",
        'state: "active"',
        "archived: false",
        "metadata: {}",
        'unedited: "' + write_memory(PLAIN).split('unedited: "')[1][:16] + '"',
        "---",
        "Ada is allergic to hazelnut.",
    ]
    assert file_name(PLAIN).startswith("ada-is-allergic-to-hazelnut-")


@pytest.mark.parametrize(
    ("old", "new", "field", "value"),
    [
        ("hazelnut", "all nuts", "content", "Ada is allergic to all nuts."),
        ("pinned: true", "pinned: false", "pinned", False),
        ('at: "2026-10-01T09:00:00+00:00"', 'at: "2026-10-02"', "at", 1_790_899_200.0),
        ("metadata: {}", 'metadata: {"a": 1}', "metadata", {"a": 1}),
    ],
)
def test_an_edit_is_read_with_the_time_of_the_file(old, new, field, value):
    text = write_memory(PLAIN).replace(old, new)
    memory = read_memory(text, place="x.md", modified=1_800_000_000.0)
    assert (getattr(memory, field), memory.edited) == (value, 1_800_000_000.0)
    assert not is_unedited(text)


def test_automatic_changes_of_editors_are_no_edits():
    text = write_memory(PLAIN)
    for saved in (text.replace("\n", "\r\n"), text.removesuffix("\n")):
        assert read_memory(saved, place="x.md", modified=9e9) == PLAIN


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("pinned: true", "pinned: maybe", "pinned"),
        ("pinned: true", "pined: true", "is not a field of a memory"),
        ("importance: 0.5", "importance: 7", "importance"),
        ('at: "2026-10-01T09:00:00+00:00"', "at: soon", "must be a time"),
        ('id: "nut"\n', "", "id"),
    ],
)
def test_a_bad_field_is_one_clear_skip(tmp_path, old, new, reason):
    path = tmp_path / "nut.md"
    path.write_text(write_memory(PLAIN).replace(old, new), encoding="utf-8")
    (skipped,) = Reader([str(path)]).records()
    assert isinstance(skipped, Skipped)
    assert reason in skipped.reason
    assert skipped.location == str(path)


def test_a_file_without_front_matter_is_a_new_memory(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("tea.md", "a/tea.md", ".obsidian", "picture.png"):
        (tmp_path / name).write_text("Ada likes tea.\n", encoding="utf-8")
        os.utime(tmp_path / name, (5.0, 5.0))
    items = list(Reader([str(tmp_path)], format="markdown").records())
    memories = [item for item in items if isinstance(item, Memory)]
    assert [(each.content, each.at, each.source) for each in memories] == [("Ada likes tea.", 5.0, "tea.md")] * 2
    assert len({each.id for each in memories}) == 2
    assert {item.reason for item in items if isinstance(item, Skipped)} == {"is not a .md file"}


def test_front_matter_of_others_is_kept_as_metadata():
    text = "---\nname: Tea\ntags:\n  - drink\n  - hot\nrating: 5\n---\nAda likes tea.\n"
    memory = read_memory(text, place="tea.md", modified=1.0)
    assert (memory.content, memory.metadata) == (
        "Ada likes tea.",
        {"name": "Tea", "tags": "- drink\n- hot", "rating": 5},
    )


def test_bytes_that_are_not_text_are_damage(tmp_path):
    path = tmp_path / "x.md"
    path.write_bytes(write_memory(PLAIN).encode() + b"\xff")
    (skipped,) = Reader([str(path)]).records()
    assert skipped.damaged
