"""claude-mem: its SQLite database, and the JSON that its `export-memories` writes.

An observation becomes a memory, and so does the summary of a session. What users typed (prompts) and which sessions
there were are no memories.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from brimful.core.validation import decode_json
from brimful.formats.databases import has_table, is_database, read_rows
from brimful.formats.ids import content_key, join_id
from brimful.formats.lenient import as_dict, as_id, as_str, parse_time, without_empty
from brimful.formats.memories import is_json, make_memory, read_items
from brimful.formats.source import Format, ImportedRecord, Skipped, Source
from brimful.records import MemoryType

PREFIX: Final = "claude-mem"
NOT_A_MEMORY: Final = {
    "user_prompts": "is a prompt that a user typed, and no memory",
    "sdk_sessions": "is an entry in the list of sessions, and no memory",
}
_PROMPTS: Final = {"prompts": "user_prompts", "sessions": "sdk_sessions"}
_LISTS: Final = ("observations", "summaries", "prompts", "sessions")
_SUMMARY_PARTS: Final = {
    "request": "Request",
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}
_OBSERVATION_DETAILS: Final = ("project", "type", "concepts", "files_read", "files_modified", "agent_type")
_SUMMARY_DETAILS: Final = ("project", "files_read", "files_edited")
_EPISODIC: Final = ("bugfix", "feature", "change", "refactor")  # what was done; the others say what is


def recognizes(source: Source) -> bool:
    """Return whether it is claude-mem's database, or its export."""
    if is_database(source):
        return has_table(source, "observations", "narrative", "project")
    return is_json(source) and {"observations", "totalObservations"} <= source.keys


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield all observations and summaries as memories."""
    return _read_database(source) if is_database(source) else _read_json(source)


def _read_database(source: Source) -> Iterator[ImportedRecord | Skipped]:
    for table, kind in (("observations", "observation"), ("session_summaries", "summary")):
        if not has_table(source, table):
            continue
        for row in read_rows(source, f"SELECT rowid AS number, * FROM {table} ORDER BY rowid"):  # noqa: S608 - ours
            if isinstance(row, Skipped):
                yield row
            else:
                yield from _make(source, source.location, kind, dict(row))
    for table, reason in NOT_A_MEMORY.items():
        if has_table(source, table):
            for row in read_rows(source, f"SELECT rowid FROM {table} ORDER BY rowid"):  # noqa: S608 - ours
                yield row if isinstance(row, Skipped) else Skipped(source.location, reason)


def _read_json(source: Source) -> Iterator[ImportedRecord | Skipped]:
    for key, entry in read_items(source, *_LISTS):
        if isinstance(entry, Skipped):
            yield entry
        elif key in _PROMPTS:
            yield Skipped(entry.location, NOT_A_MEMORY[_PROMPTS[key]])
        elif key in ("observations", "summaries"):
            kind = "observation" if key == "observations" else "summary"
            yield from _make(source, entry.location, kind, as_dict(entry.data))


def _make(source: Source, location: str, kind: str, row: Mapping[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield the memory of an observation or a summary, from a row or from JSON, with the same id in both."""
    content = _observation_text(row) if kind == "observation" else _summary_text(row)
    at = parse_time(row.get("created_at_epoch"))
    at = parse_time(row.get("created_at")) if at is None else at
    details = _OBSERVATION_DETAILS if kind == "observation" else _SUMMARY_DETAILS
    session = as_id(row.get("memory_session_id"))
    mark = content_key(session, as_str(row.get("created_at")), content)
    yield from make_memory(
        location,
        join_id(PREFIX, kind, mark),
        content,
        type=_memory_type(kind, as_str(row.get("type"))),
        source=PREFIX,
        at=source.modified if at is None else at,
        metadata=without_empty(session=session, **{key: _decoded(row.get(key)) for key in details}),
    )


def _observation_text(row: Mapping[str, Any]) -> str:
    """Return an observation as text: its title and subtitle, what it says, and its facts as a list."""
    title, subtitle = as_str(row.get("title")).strip(), as_str(row.get("subtitle")).strip()
    facts = [f"- {fact}" for fact in _strings(row.get("facts"))]
    head = ": ".join(part for part in (title, subtitle) if part)
    body = as_str(row.get("narrative")).strip() or as_str(row.get("text")).strip()
    return "\n\n".join(part for part in (head, body, "\n".join(facts)) if part)


def _summary_text(row: Mapping[str, Any]) -> str:
    """Return the summary of a session, one line for each part."""
    parts = ((name, as_str(row.get(key)).strip()) for key, name in _SUMMARY_PARTS.items())
    return "\n".join(f"{name}: {text}" for name, text in parts if text)


def _memory_type(kind: str, type: str) -> MemoryType:
    return "episodic" if kind == "summary" or type in _EPISODIC else "semantic"


def _strings(value: object) -> list[str]:
    items = _decoded(value)
    return [item for item in items if isinstance(item, str) and item.strip()] if isinstance(items, list) else []


def _decoded(value: object) -> Any:
    """Return a list that the database has as JSON; any other value as it is."""
    if not isinstance(value, str) or not value.startswith("["):
        return value
    try:
        return decode_json(value.encode(errors="replace"))
    except ValueError:
        return value


FORMAT: Final = Format(
    name="claude-mem",
    description="claude-mem: its database `claude-mem.db`, or the JSON of its `export-memories`",
    recognizes=recognizes,
    read=read,
    reads_binary=True,
)
