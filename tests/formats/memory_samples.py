"""Small files of memory products, with the fields that they have there.

mem0ai 2.2.1 (`Memory.get_all`, `SQLiteManager`, and qdrant-client 1.20 with a local path), letta 0.16.8
(`AgentFileSchema`, `AgentState`, `Passage`), claude-mem 13.25.3 (`SessionStore` and scripts/export-memories.ts),
graphiti-core 0.31.1 (`EntityEdge`, `EntityNode`, `EpisodicNode`) and zep-cloud 4.0.1 (`Edge`, `Message`, `User`).
"""

import pickle
import sqlite3
import sys
from contextlib import closing
from types import ModuleType

from formats.samples import lines, written

TEA = "835b19de-c12e-4db1-a570-80c5a882d1ae"
TRIP = "a0d1b0cc-7e5e-4491-8d33-46ead4373b53"


# -- mem0 ------------------------------------------------------------------------------------------------------------


def mem0_memory(id=TEA, memory="Ada loves tea.", **more):
    return {
        "id": id,
        "memory": memory,
        "hash": "e66b616e958955968699f54f8ae2b5dd",
        "metadata": {"category": "drinks"},
        "created_at": "2026-01-02T00:00:00+00:00",
        "updated_at": "2026-01-02T00:00:00+00:00",
        "user_id": "ada",
        "role": "user",
        **more,
    }


def mem0_get_all():
    works = mem0_memory("w", "Ada works.", agent_id="helper", run_id="r1", updated_at="2026-01-03T00:00:00+00:00")
    return {"results": [mem0_memory(), works, mem0_memory(TRIP, "A trip.", expiration_date="2026-02-01")]}


def mem0_history(path):
    """history.db, as `SQLiteManager` makes it: one memory that was updated, and one that was deleted."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, "
            "created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
        )
        first, second = "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00"
        rows = [
            ("h1", "w", None, "Ada works at Acme.", "ADD", first, first, 0, None, "user"),
            ("h2", "w", "Ada works at Acme.", "Ada works at Initech.", "UPDATE", first, second, 0, None, "user"),
            ("h3", "d", "Ada is tired.", None, "DELETE", first, second, 1, None, "user"),
        ]
        db.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return path


def mem0_point(id, payload):
    """A point as qdrant-client pickles it: pydantic's state of a class that is not installed here."""
    name = "qdrant_client.http.models.models"
    kind = type("PointStruct", (), {"__module__": name, "__qualname__": "PointStruct"})
    kind.__getstate__ = lambda self: {"__dict__": self.fields, "__pydantic_fields_set__": {"id", "payload"}}
    point = kind()
    point.fields = {"id": id, "vector": {"": [0.1, 0.2]}, "payload": payload}
    parts = name.split(".")
    modules = {".".join(parts[: end + 1]): ModuleType(parts[end]) for end in range(len(parts))}
    modules[name].PointStruct = kind
    before = {each: sys.modules.get(each) for each in modules}
    try:
        sys.modules.update(modules)
        return pickle.dumps(point)
    finally:
        for each, module in before.items():
            if module is None:
                del sys.modules[each]
            else:
                sys.modules[each] = module


def mem0_qdrant(path, *points):
    """storage.sqlite of a local collection."""
    payload = {key: value for key, value in mem0_memory().items() if key not in ("id", "memory", "metadata")}
    points = points or (mem0_point(TEA, {**payload, "data": "Ada loves tea.", "category": "drinks"}),)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        db.executemany("INSERT INTO points VALUES (?, ?)", enumerate(points))
    return path


# -- Letta -----------------------------------------------------------------------------------------------------------


def letta_block(id="block-0", label="human", value="Ada is a pilot.", **more):
    return {
        "value": value,
        "limit": 100_000,
        "label": label,
        "read_only": False,
        "description": "About the user",
        "metadata": {},
        "tags": None,
        "id": id,
        **more,
    }


def letta_file():
    agent = {
        "name": "sam",
        "memory_blocks": None,
        "block_ids": ["block-0", "block-1"],
        "agent_type": "letta_v1_agent",
        "system": None,
        "id": "agent-0",
        "in_context_message_ids": ["message-0"],
        "messages": [
            {"type": "message", "role": "user", "content": [{"type": "text", "text": "Hi"}], "id": "message-0"}
        ],
    }
    return {
        "agents": [agent],
        "groups": [],
        "blocks": [letta_block(), letta_block("block-1", "persona", "I am Sam.", read_only=True)],
        "files": [],
        "sources": [],
        "tools": [{"id": "tool-0", "name": "send_message"}],
        "mcp_servers": [],
        "skills": [],
        "metadata": {"revision_id": "495f3f474131"},
        "created_at": None,
    }


def letta_state():
    return {
        "id": "agent-7a0c",
        "name": "sam",
        "agent_type": "letta_v1_agent",
        "system": "Be kind.",
        "memory": {"blocks": [letta_block("block-9", updated_at="2026-01-03T00:00:00Z")]},
        "blocks": [letta_block("block-9", updated_at="2026-01-03T00:00:00Z")],
        "tools": [],
    }


def letta_passages():
    return [
        {
            "id": "passage-1",
            "text": "Ada flew to Rome.",
            "archive_id": "archive-1",
            "created_at": "2026-01-02T00:00:00Z",
            "embedding": None,
            "embedding_config": None,
            "is_deleted": False,
            "metadata": {"trip": 1},
            "tags": ["travel"],
        },
        {"id": "passage-2", "text": "Gone.", "archive_id": "archive-1", "is_deleted": True},
    ]


# -- claude-mem ------------------------------------------------------------------------------------------------------


def claude_mem_observation():
    return {
        "id": 1,
        "memory_session_id": "mem-1",
        "project": "brimful",
        "text": None,
        "type": "discovery",
        "title": "Tests share a store",
        "subtitle": "fixtures",
        "facts": '["It is a copy","password=hunter2secret"]',
        "narrative": "The fixtures copy an empty store.",
        "concepts": '["testing"]',
        "files_read": '["tests/conftest.py"]',
        "files_modified": "[]",
        "created_at": "2026-01-02T00:00:00.000Z",
        "created_at_epoch": 1_767_312_000_000,
    }


def claude_mem_summary():
    return {
        "id": 1,
        "memory_session_id": "mem-1",
        "project": "brimful",
        "request": "Make the tests fast",
        "investigated": "",
        "learned": "Copies are cheap",
        "completed": None,
        "next_steps": "Measure",
        "files_read": "[]",
        "files_edited": "[]",
        "notes": None,
        "created_at": "2026-01-04T00:00:00.000Z",
        "created_at_epoch": 1_767_484_800_000,
    }


def claude_mem_export():
    """What export-memories.ts writes."""
    return {
        "exportedAt": "2026-01-05T00:00:00.000Z",
        "exportedAtEpoch": 1_767_571_200_000,
        "query": "tests",
        "totalObservations": 1,
        "totalSessions": 1,
        "totalSummaries": 1,
        "totalPrompts": 1,
        "observations": [claude_mem_observation()],
        "sessions": [{"id": 1, "content_session_id": "c1", "memory_session_id": "mem-1", "project": "brimful"}],
        "summaries": [claude_mem_summary()],
        "prompts": [{"id": 1, "content_session_id": "c1", "prompt_text": "Make the tests fast"}],
    }


def claude_mem_database(path, observations=None):
    """claude-mem.db, with write-ahead logging as there."""
    tables = {
        "observations": observations or [claude_mem_observation()],
        "session_summaries": [claude_mem_summary()],
        "sdk_sessions": claude_mem_export()["sessions"],
        "user_prompts": claude_mem_export()["prompts"],
    }
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode = wal")
        for table, rows in tables.items():
            names = list(rows[0])
            db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, {', '.join(names[1:])})")
            marks = ", ".join("?" * len(names))
            insert = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608 - our own tables
            db.executemany(insert, (list(row.values()) for row in rows))
    return path


# -- Zep and Graphiti ------------------------------------------------------------------------------------------------


def graphiti_edge(**more):
    return {
        "uuid": "e1",
        "group_id": "ada",
        "source_node_uuid": "n1",
        "target_node_uuid": "n2",
        "created_at": "2026-01-02T00:00:00Z",
        "name": "LIVES_IN",
        "fact": "Ada lives in Paris.",
        "fact_embedding": None,
        "episodes": ["ep1"],
        "expired_at": None,
        "valid_at": "2020-01-01T00:00:00Z",
        "invalid_at": None,
        "reference_time": None,
        "attributes": {},
        **more,
    }


def graphiti_lines():
    ended = graphiti_edge(
        uuid="e2", fact="Ada lives in Rome.", invalid_at="2025-01-01T00:00:00Z", expired_at="2026-01-03T00:00:00Z"
    )
    node = {
        "uuid": "n1",
        "name": "Ada",
        "group_id": "ada",
        "labels": ["Person"],
        "created_at": "2026-01-01T00:00:00Z",
        "name_embedding": None,
        "summary": "A pilot.",
        "attributes": {},
    }
    episode = {
        "uuid": "ep1",
        "name": "m",
        "group_id": "ada",
        "labels": [],
        "created_at": "2026-01-01T00:00:00Z",
        "source": "message",
        "source_description": "chat",
        "content": "user: I moved",
        "valid_at": "2026-01-01T00:00:00Z",
        "entity_edges": [],
    }
    return [graphiti_edge(), ended, node, episode]


def zep_page():
    """A page of facts, as `client.graph.edge` lists them."""
    fact = {
        "uuid": "z1",
        "fact": "Ada flies.",
        "graph_uuid": "g",
        "user_uuid": "u-1",
        "valid_at": "2020-01-01T00:00:00Z",
    }
    return {"items": [fact], "next_cursor": None, "total_size": 1}


def zep_messages():
    message = {"uuid": "m1", "thread_uuid": "t1", "role": "user", "name": "Ada", "content": "Hi", "processed": True}
    return {"items": [{**message, "created_at": "2026-01-02T00:00:00Z"}], "next_cursor": None}


def zep_users():
    user = {
        "uuid": "u-1",
        "user_id": "ada",
        "graph_uuid": "g",
        "first_name": "Ada",
        "last_name": "L.",
        "email": "a@x.org",
    }
    return {"items": [user], "next_cursor": None}


def files():
    """A file of each kind, by its name."""
    return {
        "mem0.json": written(mem0_get_all(), indent=2),
        "sam.af": written(letta_file()),
        "state.json": written(letta_state(), indent=1),
        "passages.json": written(letta_passages()),
        "export.json": written(claude_mem_export(), indent=2),
        "graph.jsonl": lines(graphiti_lines()),
        "facts.json": written(zep_page()),
        "messages.json": written(zep_messages()),
        "zep-users.json": written(zep_users()),
    }
