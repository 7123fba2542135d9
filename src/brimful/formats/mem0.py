"""mem0: what `get_all()` and `export` return as JSON, and its local stores: Qdrant's folder and `history.db`."""

import io
import pickle
from collections.abc import Iterator
from typing import Any, Final

from brimful.formats.databases import has_table, is_database, read_rows
from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, parse_time, without_empty
from brimful.formats.memories import is_json, make_memory, other_fields, read_items
from brimful.formats.source import Format, ImportedRecord, Skipped, Source
from brimful.records import MemoryType

PREFIX: Final = "mem0"
_OWNERS: Final = ("user_id", "agent_id", "run_id")
_KNOWN: Final = ("id", "memory", "data", "metadata", "created_at", "updated_at", "text_lemmatized", *_OWNERS)
_POINTS: Final = "SELECT rowid, point FROM points ORDER BY rowid"
_HISTORY: Final = """
SELECT rowid, id, memory_id, old_memory, new_memory, event, created_at, updated_at, is_deleted, actor_id, role
FROM history ORDER BY rowid
"""
IN_VECTOR_STORE: Final = "is a current memory, which mem0 keeps in its vector store: import that"
WAS_DELETED: Final = "was deleted in mem0"


def recognizes(source: Source) -> bool:
    """Return whether there are memories of mem0, as JSON or in one of its databases."""
    if is_database(source):
        return has_table(source, "points", "point") or has_table(source, "history", "old_memory")
    keys = source.keys
    return is_json(source) and {"id", "memory"} <= keys and not keys.isdisjoint(("hash", "categories", *_OWNERS))


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield all memories."""
    if not is_database(source):
        return _read_json(source)
    return _read_points(source) if has_table(source, "points", "point") else _read_history(source)


def _read_json(source: Source) -> Iterator[ImportedRecord | Skipped]:
    for key, entry in read_items(source, "results", "memories"):
        if isinstance(entry, Skipped):
            yield entry
        elif isinstance(entry.data, dict) and "memory" in entry.data:
            yield from _make(source, entry.location, entry.data)
        elif isinstance(entry.data, dict) and "results" in entry.data:  # answers of `get_all`, one per line
            for index, item in enumerate(as_dicts(entry.data["results"])):
                yield from _make(source, f"{entry.location}: results[{index}]", item)
        elif key in ("", "results", "memories"):
            yield Skipped(entry.location, "is not a memory of mem0")


def _make(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield a memory of `get_all()`, or of the payload of a point."""
    id = as_id(data.get("id"))
    if not id:
        yield Skipped(location, "has no id")
        return
    created = parse_time(data.get("created_at"))
    ended = parse_time(data.get("expiration_date"))
    user, agent, run = (as_id(data.get(owner)) or None for owner in _OWNERS)
    yield from make_memory(
        location,
        join_id(PREFIX, id),
        as_str(data.get("memory")) or as_str(data.get("data")),
        type=_memory_type(as_dict(data.get("metadata")).get("memory_type") or data.get("memory_type")),
        user=user,
        persona=agent,
        room=run,
        source=PREFIX,
        at=source.modified if created is None else created,
        edited=_later(parse_time(data.get("updated_at")), created),
        ended=ended,
        archived=ended is not None and ended <= source.modified,
        metadata={**as_dict(data.get("metadata")), **other_fields(data, *_KNOWN)},
    )


def _read_points(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the points of a local collection of Qdrant: payloads with the text in `data`."""
    for row in read_rows(source, _POINTS):
        if isinstance(row, Skipped):
            yield row
            continue
        location = f"{source.name}: points[{row['rowid']}]"
        point = load_point(row["point"])
        payload = as_dict(point.get("payload"))
        if not payload:
            yield Skipped(location, "is not a point with a payload")
        else:
            yield from _make(source, location, {**payload, "id": point.get("id")})


def _read_history(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the texts that memories had before they were updated, as archived memories."""
    for row in read_rows(source, _HISTORY):
        if isinstance(row, Skipped):
            yield row
            continue
        location = f"{source.name}: history[{row['rowid']}]"
        old, memory = as_str(row["old_memory"]), as_id(row["memory_id"])
        if row["event"] != "UPDATE" or not old or not memory:
            yield Skipped(location, WAS_DELETED if row["event"] == "DELETE" else IN_VECTOR_STORE)
            continue
        ended = parse_time(row["updated_at"])
        yield from make_memory(
            location,
            join_id(PREFIX, memory, as_id(row["id"])),
            old,
            source=PREFIX,
            at=parse_time(row["created_at"]) or source.modified,
            ended=source.modified if ended is None else ended,
            archived=True,
            metadata=without_empty(
                replaced_by=join_id(PREFIX, memory), actor_id=as_str(row["actor_id"]), role=as_str(row["role"])
            ),
        )


def _later(updated: float | None, created: float | None) -> float | None:
    """Return when a memory was updated; None if it never was."""
    return updated if updated is not None and created is not None and updated > created else None


def _memory_type(value: object) -> MemoryType:
    """Return the type of a memory; mem0 writes `procedural_memory`."""
    name = as_str(value).removesuffix("_memory")
    return name if name in ("episodic", "procedural") else "semantic"  # type: ignore[return-value]


class _Inert:
    """Stands for any object in a pickle, so that nothing in it is imported or called."""

    state: object = None

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None:
        self.state = state


class _PointReader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> type[_Inert]:  # noqa: ARG002 - none is loaded
        return _Inert


def load_point(pickled: object) -> dict[str, Any]:
    """Return the fields of a point that qdrant-client pickled; empty if it is none. No code of the pickle runs."""
    if not isinstance(pickled, bytes):
        return {}
    try:
        point = _PointReader(io.BytesIO(pickled)).load()
    except Exception:  # noqa: BLE001 - a damaged pickle may raise anything
        return {}
    state = point.state if isinstance(point, _Inert) else point
    return as_dict(as_dict(state).get("__dict__"))


FORMAT: Final = Format(
    name="mem0",
    description="mem0: the JSON of `get_all()`, its local Qdrant folder, and its `history.db`",
    recognizes=recognizes,
    read=read,
    reads_binary=True,
)
