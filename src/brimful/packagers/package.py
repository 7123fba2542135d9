"""Anything → a content package, counted once."""

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

import msgspec

from brimful.core import check
from brimful.core.content import (
    ContentPackage,
    Flex,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    check_role,
    clean_text,
)
from brimful.core.cost import count_content
from brimful.core.tokens import Count, TokenCounter
from brimful.errors import InvalidPackage
from brimful.packagers.kinds import defaults_of


class Options(TypedDict, total=False):
    """What may be said of any package. What is not said follows from its kind."""

    id: str
    role: Role
    name: str
    importance: float
    timestamp: float | datetime
    position: int
    relevance: float
    priority: int
    can_drop: bool
    min_tokens: int
    cluster: str
    group: str
    covers: tuple[str, ...]
    metadata: dict[str, Any]
    tokens: int | Count


_KNOWN: Final = dict.fromkeys(Options.__annotations__)


def package(
    kind: str, content: str | tuple[Part, ...] | list[Part], *, counter: TokenCounter, **options: Unpack[Options]
) -> ContentPackage:
    """Return the package, its content counted by `counter`; its texts are cleaned of lone surrogates.

    Without an id, it gets one from its content and its time: the same thing packaged twice is one thing.
    A number given as `tokens` is the caller's upper bound, and is not counted again.
    """
    for option in options.keys() - _KNOWN.keys():
        raise InvalidPackage(option, f"is no option of a package; known: {', '.join(_KNOWN)}")
    implied = defaults_of(check.identifier("kind", kind))
    clean = _clean(content)
    options["name"] = clean_text(check.text("name", options.get("name", "")))
    when = seconds(options.get("timestamp", 0.0))
    return ContentPackage(
        id=options["id"] if "id" in options else _id(kind, clean, when, options),
        kind=kind,
        content=clean,
        tokens=_count(clean, counter, options.get("tokens")),
        role=options.get("role"),
        name=options["name"],
        importance=options.get("importance", implied.importance),
        timestamp=when,
        position=options.get("position", 0),
        relevance=options.get("relevance"),
        flex=Flex(
            can_drop=options.get("can_drop", implied.can_drop),
            priority=options.get("priority", implied.priority),
            min_tokens=options.get("min_tokens"),
        ),
        cluster=options.get("cluster"),
        group=options.get("group"),
        covers=_covers(options.get("covers", ())),
        metadata=metadata_of(options),
    )


def derived_id(kind: str, content: tuple[Part, ...], options: Options) -> str:
    """Return the id that a package of this content gets where none is given."""
    named: Options = {**options, "name": clean_text(check.text("name", options.get("name", "")))}
    return _id(kind, _clean(content), seconds(options.get("timestamp", 0.0)), named)


def metadata_of(options: Options) -> dict[str, Any]:
    """Return the metadata that were given, as a dict of its own."""
    given: object = options.get("metadata", {})
    if type(given) is not dict and not isinstance(given, Mapping):
        raise InvalidPackage("metadata", f"must be a dict, not {check.shown(given)}")
    return dict(given)


def seconds(when: float | datetime) -> float:
    """Return a time as seconds since 1970. A datetime must know its time zone.

    >>> from datetime import UTC
    >>> seconds(datetime(2026, 11, 1, tzinfo=UTC))
    1793491200.0
    """
    if type(when) is float or not isinstance(when, datetime):
        return check.timestamp("timestamp", when)
    if when.tzinfo is None:
        raise InvalidPackage("timestamp", f"needs a time zone: {when.isoformat()} could be any of 38 moments")
    return when.timestamp()


def _clean(content: str | tuple[Part, ...] | list[Part]) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, tuple | list):
        raise InvalidPackage("content", f"must be a text or a list of parts, not {type(content).__name__}")
    for at, part in enumerate(content):
        if not isinstance(part, Part):
            raise InvalidPackage(f"content[{at}]", f"must be a part, not {check.shown(part)}")
    return tuple(_clean_part(part) for part in content)


def _clean_part(part: Part) -> Part:
    match part:
        case Text():
            return Text(text=clean_text(part.text))
        case ToolCall():
            return msgspec.structs.replace(part, arguments=clean_text(part.arguments))
        case ToolResult():
            return msgspec.structs.replace(part, content=clean_text(part.content))
        case _:
            return part


def _covers(covers: object) -> tuple[str, ...]:
    """Return ids in a certain order: that of the caller, unless it is a set, which has none."""
    if type(covers) is tuple:
        return covers
    if isinstance(covers, str | bytes | Mapping) or not isinstance(covers, Iterable):
        raise InvalidPackage("covers", f"must be a list of ids, not {check.shown(covers)}")
    return tuple(sorted(covers, key=str) if isinstance(covers, AbstractSet) else covers)


def _count(content: str | tuple[Part, ...], counter: TokenCounter, given: int | Count | None) -> Count:
    if given is None:
        return count_content(content, counter)
    return given if isinstance(given, Count) else Count(tokens=given, basis="bound")


def _id(kind: str, content: str | tuple[Part, ...], when: float, options: Options) -> str:
    position, role = options.get("position", 0), options.get("role")
    check.position(position)
    if role is not None:
        check_role(role)
    seed = msgspec.json.encode([content, when, position, role, options.get("name")])
    return f"{kind}:{hashlib.blake2b(seed, digest_size=8).hexdigest()}"
