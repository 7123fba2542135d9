"""What may be said in the query of each operation, and in its body."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from brimful.records import Lorebook, LoreEntry, Memory, Persona, Record, Room

_Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
_PageSize = Annotated[int, Meta(ge=1, le=1_000, description="How many at the most.")]
_Number = Annotated[int, Meta(ge=0, le=2**53 - 1)]
_Tokens = Annotated[int, Meta(ge=1, le=2**40)]
_Duration = Annotated[
    str,
    # For the description alone: of what is misspelled, words say more than a pattern.
    Meta(description="Such as 24h or 7d.", extra_json_schema={"pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?[smhdw]$"}),
]
_Model = Annotated[_Name, Meta(description="The model that texts are counted for.")]


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """What is said in a query or a body."""


class NoQuery(Input, frozen=True, kw_only=True):
    """Nothing: the question is in the path."""


class ContextsQuery(Input, frozen=True, kw_only=True):
    """Which contexts: of a room, a persona, a model; behind a message; older than `before`."""

    room: _Name | None = None
    persona: _Name | None = None
    model: _Name | None = None
    message: Annotated[_Name, Meta(description="Those that answer this message, or that it answers.")] | None = None
    before: Annotated[_Number, Meta(description="Only those before this number.")] | None = None
    limit: _PageSize = 100


class StatisticsQuery(Input, frozen=True, kw_only=True):
    """Of which time: the `last` minutes, hours or days (`24h`), or from `since` to `until` in seconds since 1970."""

    last: _Duration | None = None
    since: float | None = None
    until: float | None = None
    persona: _Name | None = None
    room: _Name | None = None
    by: Literal["", "day", "hour", "model", "policy", "persona"] = ""


class ModelQuery(Input, frozen=True, kw_only=True):
    """For which model a text is counted."""

    model: _Model | None = None


class ListQuery(ModelQuery, frozen=True, kw_only=True):
    """Which records: those whose ids come after `after`."""

    after: Annotated[str, Meta(max_length=1_000, description="The `next` of the page before.")] = ""
    limit: _PageSize = 100


class MessagesQuery(ModelQuery, frozen=True, kw_only=True):
    """Which messages of a room: those before a `seq`, or the most relevant to what is searched for."""

    before: Annotated[_Number, Meta(description="Only those before this seq.")] | None = None
    limit: _PageSize = 100
    q: Annotated[str, Meta(max_length=10_000, description="What to search for.")] = ""


class MemoriesQuery(ModelQuery, frozen=True, kw_only=True):
    """Which memories: those that a persona, a user and a room may know, and that hold all words of `q`."""

    persona: _Name | None = None
    user: _Name | None = None
    room: _Name | None = None
    pinned: bool | None = None
    q: Annotated[str, Meta(max_length=10_000, description="Words that must all be in it.")] = ""
    before: Annotated[str, Meta(max_length=1_100, description="The `next` of the page before.")] = ""
    limit: _PageSize = 100


class RemoveQuery(Input, frozen=True, kw_only=True):
    """How it is removed: with `erase`, its content leaves past contexts, too."""

    erase: bool = False


class WhatIfBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be otherwise. What is not said stays as it was."""

    model: _Name | None = None
    policy: _Name | None = None
    window: _Tokens | None = None
    completion: _Tokens | None = None
    overrides: dict[str, Any] | None = None


class CountBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and the model that it is counted for."""

    text: str
    model: _Name | None = None


def _make_body(kind: type[Record], name: str, *without: str) -> type[msgspec.Struct]:
    """Return the form of a body that says a record, or what is to change of one: any field may be left out."""
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in without]
    body = msgspec.defstruct(
        name,
        [(field.name, field.type | UnsetType, UNSET) for field in fields],
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        module=__name__,
    )
    body.__doc__ = f"A {kind.__name__.lower()}, or what is to change of it: what is not said stays as it is."
    return body


RoomBody = _make_body(Room, "RoomBody")
PersonaBody = _make_body(Persona, "PersonaBody")
MemoryBody = _make_body(Memory, "MemoryBody", "accesses", "accessed")
LorebookBody = _make_body(Lorebook, "LorebookBody")
EntryBody = _make_body(LoreEntry, "EntryBody", "lorebook")
