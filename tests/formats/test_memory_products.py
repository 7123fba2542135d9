"""Memories of mem0, Letta, claude-mem, Zep and Graphiti."""

import os
import pickle
import sqlite3
from contextlib import closing

import pytest

from brimful.formats import Reader, Skipped
from brimful.formats.mem0 import load_point
from brimful.records import Memory, Message, User
from formats import memory_samples as samples
from formats.conftest import packed
from formats.samples import lines, written

JANUARY_2 = 1_767_312_000.0  # 2026
DAY = 86_400.0


@pytest.fixture
def read_path():
    """Return the records and the reasons of what was skipped, for a path."""

    def reading(path, **options):
        with Reader([str(path)], **options) as reader:
            items = list(reader.records())
        return [item for item in items if not isinstance(item, Skipped)], [
            item.reason for item in items if isinstance(item, Skipped)
        ]

    return reading


@pytest.fixture
def read_data(tmp_path, read_path):
    def reading(data, name="export.json", **options):
        path = tmp_path / name
        path.write_bytes(data)
        os.utime(path, (JANUARY_2 + 100 * DAY,) * 2)
        return read_path(path, **options)

    return reading


@pytest.mark.parametrize("name", samples.files())
def test_every_kind_of_file_is_recognized(read_data, name):
    records, _ = read_data(samples.files()[name], name)
    assert records


# -- mem0 ------------------------------------------------------------------------------------------------------------


def test_mem0_keeps_owners_times_and_metadata(read_data):
    (tea, works, trip), skips = read_data(written(samples.mem0_get_all()))
    assert tea == Memory(
        id=f"mem0/{samples.TEA}",
        content="Ada loves tea.",
        user="ada",
        source="mem0",
        at=JANUARY_2,
        metadata={"category": "drinks", "role": "user", "hash": "e66b616e958955968699f54f8ae2b5dd"},
    )
    assert (works.persona, works.room, works.edited) == ("helper", "r1", JANUARY_2 + DAY)
    assert (trip.archived, trip.ended) == (True, JANUARY_2 + 30 * DAY)
    assert skips == []


def test_mem0_keeps_a_memory_that_has_not_expired_yet(read_data):
    (memory,), _ = read_data(written([samples.mem0_memory(expiration_date="2999-01-01")]))
    assert (memory.archived, memory.ended is None) == (False, False)


@pytest.mark.parametrize(
    "data",
    [
        written(samples.mem0_memory(), indent=2),
        written([samples.mem0_memory()]),
        lines([samples.mem0_memory()] * 2),
        lines([{"results": [samples.mem0_memory()]}, {"results": [samples.mem0_memory()]}]),
    ],
)
def test_mem0_may_be_one_memory_a_list_or_lines(read_data, data):
    records, skips = read_data(data)
    assert {memory.content for memory in records} == {"Ada loves tea."}
    assert skips == []


def test_a_local_collection_gives_the_same_memory_as_the_api(tmp_path, read_path, read_data):
    (stored,), skips = read_path(samples.mem0_qdrant(tmp_path / "storage.sqlite"))
    (returned,), _ = read_data(written([samples.mem0_memory()]))
    assert (stored, skips) == (returned, [])


def test_a_point_runs_no_code(tmp_path, read_path):
    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "evil"),))

    assert load_point(pickle.dumps(Evil())) == {}
    records, skips = read_path(samples.mem0_qdrant(tmp_path / "s.sqlite", pickle.dumps(Evil()), b"junk", "text", None))
    assert (records, set(skips), len(skips)) == ([], {"is not a point with a payload"}, 4)
    assert not (tmp_path / "evil").exists()


def test_the_history_gives_what_memories_said_before(tmp_path, read_path):
    (old,), skips = read_path(samples.mem0_history(tmp_path / "history.db"), user="ada")
    assert (old.content, old.archived, old.ended, old.user) == ("Ada works at Acme.", True, JANUARY_2 + DAY, "ada")
    assert old.metadata["replaced_by"] == "mem0/w"
    assert skips == ["is a current memory, which mem0 keeps in its vector store: import that", "was deleted in mem0"]


# -- Letta -----------------------------------------------------------------------------------------------------------


def test_letta_pins_core_memory_for_its_agent(read_data):
    (human, persona), skips = read_data(written(samples.letta_file()), "sam.af")
    assert (human.id, human.content, human.persona, human.pinned) == ("letta/sam/human", "Ada is a pilot.", "sam", True)
    assert human.metadata == {"label": "human", "description": "About the user"}
    assert persona.metadata["read_only"] is True
    assert set(skips) == {"is a message of a Letta agent, and no memory", "is a tool of a Letta agent, and no memory"}


def test_an_agent_from_the_api_has_the_ids_of_its_file(read_data):
    (block,), _ = read_data(written(samples.letta_state(), indent=1))
    assert (block.id, block.edited) == ("letta/sam/human", JANUARY_2 + DAY)


def test_letta_keeps_archival_memory(read_data):
    (passage,), skips = read_data(written(samples.letta_passages()))
    assert (passage.id, passage.content, passage.pinned, passage.at) == (
        "letta/passage-1",
        "Ada flew to Rome.",
        False,
        JANUARY_2,
    )
    assert passage.metadata == {"trip": 1, "tags": ["travel"], "archive": "archive-1"}
    assert skips == ["was deleted in Letta"]


# -- claude-mem ------------------------------------------------------------------------------------------------------


def test_claude_mem_gives_the_same_memories_from_its_database_and_its_export(tmp_path, read_path, read_data):
    stored, reasons = read_path(samples.claude_mem_database(tmp_path / "claude-mem.db"))
    exported, _ = read_data(written(samples.claude_mem_export(), indent=2))
    assert stored == exported
    observation, summary = stored
    assert observation.content == (
        "Tests share a store: fixtures\n\nThe fixtures copy an empty store.\n\n"
        "- It is a copy\n- password=[masked: password]"
    )
    assert (observation.type, observation.at) == ("semantic", JANUARY_2)
    assert observation.metadata == {
        "session": "mem-1",
        "project": "brimful",
        "type": "discovery",
        "concepts": ["testing"],
        "files_read": ["tests/conftest.py"],
    }
    assert (summary.type, summary.content) == (
        "episodic",
        "Request: Make the tests fast\nLearned: Copies are cheap\nNext steps: Measure",
    )
    assert "a secret in it was masked (password)" in reasons
    assert "is a prompt that a user typed, and no memory" in reasons


def test_the_newest_records_of_claude_mem_are_read_from_its_log(tmp_path, read_path):
    path = samples.claude_mem_database(tmp_path / "claude-mem.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO observations (memory_session_id, title, type) VALUES ('mem-2', 'New', 'bugfix')")
        db.commit()
        assert (tmp_path / "claude-mem.db-wal").stat().st_size > 0
        records, _ = read_path(path)
    assert [record.content for record in records if record.metadata["session"] == "mem-2"] == ["New"]


def test_a_database_may_be_in_an_archive(tmp_path, read_path):
    path = samples.claude_mem_database(tmp_path / "claude-mem.db")
    archive = packed(tmp_path / "backup.zip", {"claude-mem.db": path.read_bytes()})
    assert read_path(archive) == read_path(path)


def test_a_database_that_is_cut_off_is_damaged(tmp_path):
    many = [{**samples.claude_mem_observation(), "id": id} for id in range(1, 400)]
    path = samples.claude_mem_database(tmp_path / "claude-mem.db", many)
    path.write_bytes(path.read_bytes()[:100_000])
    with Reader([str(path)], format="claude-mem") as reader:
        assert any(isinstance(item, Skipped) and item.damaged for item in reader.records())


def test_another_database_is_not_recognized(tmp_path, read_path):
    with closing(sqlite3.connect(tmp_path / "x.db")) as db, db:
        db.execute('CREATE TABLE observations (id, "role")')
        db.execute('INSERT INTO observations VALUES (1, \'{"role": "user", "content": "Hi"}\')')
    records, (reason,) = read_path(tmp_path / "x.db")
    assert (records, reason) == ([], "has an unknown format; name it with `--format`")


def test_a_large_database_is_read_with_progress_and_in_little_memory(tmp_path):
    text = "x" * 2_000
    many = [{**samples.claude_mem_observation(), "id": id, "narrative": f"{id} {text}"} for id in range(1, 3_001)]
    path = samples.claude_mem_database(tmp_path / "claude-mem.db", many)
    with Reader([str(path)]) as reader:
        places = [reader.done_bytes for record in reader.records() if isinstance(record, Memory)]
    assert len(set(places)) > 4
    assert places == sorted(places[:-1]) + places[-1:]  # summaries are another table


# -- Zep and Graphiti ------------------------------------------------------------------------------------------------


def test_a_fact_that_is_no_longer_true_is_archived_with_the_time_when_it_ended(read_data):
    (paris, rome, ada), skips = read_data(lines(samples.graphiti_lines()), "graph.jsonl")
    assert (paris.content, paris.user, paris.archived, paris.ended) == ("Ada lives in Paris.", "ada", False, None)
    assert (rome.archived, rome.at, rome.ended) == (True, 1_577_836_800.0, 1_735_689_600.0)
    assert rome.metadata["relation"] == "LIVES_IN"
    assert (ada.content, ada.metadata["entity"]) == ("Ada: A pilot.", "Ada")
    assert skips == ["is an episode: the text that facts were taken from"]


def test_zep_gives_facts_users_and_messages(read_data):
    (fact,), _ = read_data(written(samples.zep_page()))
    (user,), _ = read_data(written(samples.zep_users()))
    (message,), _ = read_data(written(samples.zep_messages()))
    assert (fact.id, fact.user) == ("zep/z1", "u-1")
    assert user == User(id="ada", name="Ada L.", metadata={"email": "a@x.org"})
    assert message == Message(id="zep/t1/m1", room="zep/t1", content="Hi", role="user", sender="Ada", at=JANUARY_2)


# -- all of them -----------------------------------------------------------------------------------------------------


def test_memories_of_nobody_belong_to_the_user_that_is_named(read_data):
    records, _ = read_data(written(samples.letta_file()), "sam.af", user="bob")
    assert {memory.user for memory in records} == {"bob"}
    (fact,), _ = read_data(written(samples.zep_page()), user="bob")
    assert fact.user == "u-1"


@pytest.mark.parametrize("name", samples.files())
def test_an_item_that_cannot_be_read_is_one_skip(read_data, name):
    records, reasons = read_data(samples.files()[name].replace(b'"Ada', b'"\\u0000Ada'), name)
    assert records or reasons
