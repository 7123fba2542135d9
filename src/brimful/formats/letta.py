"""Letta: agent files (`.af`), and agents, blocks and passages as its API returns them."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.formats.ids import content_key, join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, as_strs, parse_time, without_empty
from brimful.formats.memories import is_json, make_memory, read_items
from brimful.formats.source import Format, ImportedRecord, Skipped, Source

PREFIX: Final = "letta"
NOT_CARRIED: Final = {
    "messages": "is a message of a Letta agent, and no memory",
    "tools": "is a tool of a Letta agent, and no memory",
    "files": "is a file of a Letta agent, and no memory",
    "skills": "is a skill of a Letta agent, and no memory",
    "sources": "is a folder of a Letta agent, and no memory",
    "mcp_servers": "is an MCP server of a Letta agent, and no memory",
    "groups": "is a group of Letta agents, and no memory",
}
UNKNOWN: Final = "is not an agent, a block or a passage of Letta"
_AGENT_LISTS: Final = ("agents", "blocks", "core_memory", *NOT_CARRIED)
_PASSAGE_KEYS: Final = ("archive_id", "embedding_config", "file_id")


def recognizes(source: Source) -> bool:
    """Return whether it is an agent file, or agents, blocks or passages."""
    keys = source.keys
    agents = {"agent_type"} <= keys and not keys.isdisjoint(("block_ids", "core_memory", "memory", "blocks"))
    passages = {"text", "id"} <= keys and not keys.isdisjoint(_PASSAGE_KEYS)
    return is_json(source) and (agents or passages or {"label", "value", "limit"} <= keys)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield core memory as pinned memories, and archival memory as memories, of the persona with the agent's name."""
    agents: list[tuple[str, dict[str, Any]]] = []
    blocks: list[tuple[str, dict[str, Any]]] = []
    fields: dict[str, Any] = {}
    for key, entry in read_items(source, *_AGENT_LISTS):
        if isinstance(entry, Skipped):
            yield entry
        elif key in NOT_CARRIED:
            yield Skipped(entry.location, NOT_CARRIED[key])
        elif key in ("agents", "blocks", "core_memory"):
            (agents if key == "agents" else blocks).append((entry.location, as_dict(entry.data)))
        elif key == "":
            yield from _read_one(source, entry.location, as_dict(entry.data))
        else:
            fields[key] = entry.data
    if agents:
        yield from _read_agents(source, agents, blocks)
    elif fields or blocks:  # one agent
        lists = [data for _, data in blocks]
        yield from _read_one(source, source.name, {**fields, "blocks": lists} if lists else fields)


def _read_agents(
    source: Source, agents: list[tuple[str, dict[str, Any]]], blocks: list[tuple[str, dict[str, Any]]]
) -> Iterator[ImportedRecord | Skipped]:
    """Yield the blocks of an agent file, once for each agent that has them."""
    owners: dict[str, list[str]] = {}
    for location, agent in agents:
        for id in as_strs(agent.get("block_ids")):
            owners.setdefault(id, []).append(_agent_name(agent))
        messages = as_dicts(agent.get("messages"))
        yield from (Skipped(f"{location}: messages[{i}]", NOT_CARRIED["messages"]) for i, _ in enumerate(messages))
        yield from _read_blocks(source, location, agent.get("memory_blocks"), agent)
    for location, block in blocks:
        for owner in owners.get(as_id(block.get("id")), []) or [""]:
            yield from _make_block(source, location, block, owner)


def _read_one(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield the records in one object of the API."""
    if "agent_type" in data:
        listed = data.get("core_memory") or data.get("blocks") or as_dict(data.get("memory")).get("blocks")
        yield from _read_blocks(source, location, listed, data)
    elif "label" in data or "value" in data:
        yield from _make_block(source, location, data, "")
    elif "text" in data:
        yield from _make_passage(source, location, data)
    elif isinstance(data.get("passage"), dict):  # a hit of a search
        yield from _make_passage(source, location, data["passage"])
    else:
        yield Skipped(location, UNKNOWN)


def _read_blocks(
    source: Source, location: str, blocks: object, agent: dict[str, Any]
) -> Iterator[ImportedRecord | Skipped]:
    for block in as_dicts(blocks):
        yield from _make_block(source, location, block, _agent_name(agent))


def _agent_name(agent: dict[str, Any]) -> str:
    """Return the name of an agent. Ids in agent files are new ones in every file."""
    return as_str(agent.get("name")) or as_id(agent.get("id"))


def _make_block(source: Source, location: str, block: dict[str, Any], agent: str) -> Iterator[ImportedRecord | Skipped]:
    """Yield a block of core memory. Letta shows it to the model in every turn, so it is pinned."""
    label = as_str(block.get("label"))
    own = join_id(agent, label) if agent else as_id(block.get("id")) or label
    created, updated = parse_time(block.get("created_at")), parse_time(block.get("updated_at"))
    yield from make_memory(
        location,
        join_id(PREFIX, own or content_key(as_str(block.get("value")))),
        as_str(block.get("value")),
        persona=agent or None,
        source=PREFIX,
        pinned=True,
        at=source.modified if created is None else created,
        edited=updated,
        metadata=as_dict(block.get("metadata"))
        | without_empty(
            label=label,
            description=as_str(block.get("description")),
            read_only=block.get("read_only") is True,
            tags=as_strs(block.get("tags")),
        ),
    )


def _make_passage(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield a passage of archival memory."""
    if data.get("is_deleted") is True:
        yield Skipped(location, "was deleted in Letta")
        return
    text = as_str(data.get("text"))
    created, updated = parse_time(data.get("created_at")), parse_time(data.get("updated_at"))
    yield from make_memory(
        location,
        join_id(PREFIX, as_id(data.get("id")) or content_key(text)),
        text,
        source=as_str(data.get("file_name")) or PREFIX,
        at=source.modified if created is None else created,
        edited=updated if updated != created else None,
        metadata=(as_dict(data.get("metadata")) or as_dict(data.get("metadata_")))
        | without_empty(tags=as_strs(data.get("tags")), archive=as_str(data.get("archive_id"))),
    )


FORMAT: Final = Format(
    name="letta",
    description="Letta: agent files (`.af`), and agents, blocks and passages from its API",
    recognizes=recognizes,
    read=read,
)
