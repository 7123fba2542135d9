"""Schemas of queries and bodies."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from brimful.core.content import Role
from brimful.engine.options import RetrievalOverrides
from brimful.records import Lorebook, LoreEntry, Memory, MemoryType, Persona, Record, Room
from brimful.records.contexts import Rating
from brimful.records.memory import MemoryState
from brimful.server.access import Scope
from brimful.wires.registry import IncomingWire

T = TypeVar("T")
_Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
_PageSize = Annotated[int, Meta(ge=1, le=1_000, description="Page size.")]
_Number = Annotated[int, Meta(ge=0, le=2**53 - 1)]
_After = Annotated[_Number, Meta(description="`next` of the previous page.")]
_Tokens = Annotated[int, Meta(ge=1, le=2**40)]
_Duration = Annotated[
    str,
    # Only for the OpenAPI description; our own error message is clearer than a pattern.
    Meta(description="For example 24h or 7d.", extra_json_schema={"pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?[smhdw]$"}),
]
_Model = Annotated[_Name, Meta(description="The model to count tokens for; by default that of the newest context.")]


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A query or a body."""


class NoQuery(Input, frozen=True, kw_only=True):
    """No query parameters."""


class ContextsQuery(Input, frozen=True, kw_only=True):
    """Filter contexts by room, persona, model, user, message or feedback; page with `before`.

    With `runs`, each run is listed once, with its newest context, unless they are filtered by feedback.
    """

    room: _Name | None = None
    persona: _Name | None = None
    model: _Name | None = None
    user: _Name | None = None
    message: Annotated[_Name, Meta(description="The id of a question or an answer.")] | None = None
    runs: bool = False
    feedback: Annotated[Rating, Meta(description="Only contexts with such feedback on an answer.")] | None = None
    before: Annotated[_Number, Meta(description="Only contexts before this number.")] | None = None
    limit: _PageSize = 100


class RunQuery(Input, frozen=True, kw_only=True):
    """Which steps of a run: the newest ones before a number or since a time."""

    before: Annotated[_Number, Meta(description="Only steps before this number.")] | None = None
    since: Annotated[float, Meta(description="Only steps since this time.")] | None = None
    limit: _PageSize = 500


class SearchQuery(Input, frozen=True, kw_only=True):
    """What to search for, and the largest number of hits of each kind."""

    q: Annotated[str, Meta(min_length=1, max_length=1_000, description="Search text, or an id.")]
    limit: Annotated[int, Meta(ge=1, le=100)] = 8


class FindQuery(Input, frozen=True, kw_only=True):
    """What to look for, and the largest number of results of each outcome."""

    q: Annotated[str, Meta(min_length=1, max_length=1_000, description="Words of it, or its id.")]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class RecallQuery(Input, frozen=True, kw_only=True):
    """An item by `handle` or id, or everything that matches `query`; with both, the part of the item that matches."""

    handle: Annotated[str, Meta(max_length=1_000, description="A handle or an id.")] = ""
    query: Annotated[str, Meta(max_length=10_000, description="Search text.")] = ""
    max_tokens: Annotated[_Tokens, Meta(description="The longest result.")] = 1_000


class StatisticsQuery(Input, frozen=True, kw_only=True):
    """The period: the `last` minutes, hours or days (`24h`), or from `since` to `until` in Unix time.

    `limit` is the largest number of groups.
    """

    last: _Duration | None = None
    since: float | None = None
    until: float | None = None
    persona: _Name | None = None
    room: _Name | None = None
    user: _Name | None = None
    key: Annotated[_Name, Meta(description="The id of an API key.")] | None = None
    by: Literal["", "day", "hour", "model", "policy", "persona", "user", "key"] = ""
    after: _After = 0
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Page size.")] = 1_000


class ModelQuery(Input, frozen=True, kw_only=True):
    """The model to count tokens for."""

    model: _Model | None = None


class ListQuery(ModelQuery, frozen=True, kw_only=True):
    """Page through records by id."""

    after: Annotated[str, Meta(max_length=1_000, description="`next` of the previous page.")] = ""
    limit: _PageSize = 100


class TenantsQuery(Input, frozen=True, kw_only=True):
    """Page through tenants by name."""

    after: Annotated[str, Meta(max_length=1_000, description="`next` of the previous page.")] = ""
    limit: _PageSize = 100


class PageQuery(Input, frozen=True, kw_only=True):
    """Page through a list."""

    after: _After = 0
    limit: _PageSize = 100


def cut_page(rows: Sequence[T], query: PageQuery | StatisticsQuery) -> tuple[tuple[T, ...], int | None]:
    """Return a page of the rows from `query.after` on, and where the next one begins; None at the end.

    >>> cut_page("abc", PageQuery(after=4, limit=2)), cut_page("ab", PageQuery(limit=2))
    ((('a', 'b'), 6), (('a', 'b'), None))
    """
    return tuple(rows[: query.limit]), query.after + query.limit if len(rows) > query.limit else None


class KeyBody(Input, frozen=True, kw_only=True):
    """A new API key. What is left out is limited as the key that makes it. `expires` is a Unix time."""

    name: _Name
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)] = ("chat", "read")
    user: _Name | None = None
    expires: float | None = None
    models: Annotated[tuple[_Name, ...], Meta(min_length=1, description="Patterns, such as `gpt-4o*`.")] | None = None
    policies: Annotated[tuple[_Name, ...], Meta(min_length=1, description="The first one is the default.")] | None = (
        None
    )


class JobsQuery(Input, frozen=True, kw_only=True):
    """All jobs, or those that failed."""

    failed: bool = False
    limit: _PageSize = 100


class MessagesQuery(ModelQuery, frozen=True, kw_only=True):
    """Page through the messages of a room by `seq`, or search for `q`."""

    before: Annotated[_Number, Meta(description="Only messages before this seq.")] | None = None
    limit: _PageSize = 100
    q: Annotated[str, Meta(max_length=10_000, description="Search text.")] = ""


class RemoveQuery(Input, frozen=True, kw_only=True):
    """With `erase`, the content is also erased from past contexts."""

    erase: bool = False


class MemoryQuery(Input, frozen=True, kw_only=True):
    """Filter memories by who can see them, by prefix, type and metadata."""

    persona: _Name | None = None
    user: _Name | None = None
    room: _Name | None = None
    user_prefix: Annotated[str, Meta(max_length=1_000, description="Only of users whose ids start with this.")] = ""
    prefix: Annotated[str, Meta(max_length=1_000, description="Only ids that start with this.")] = ""
    type: MemoryType | None = None
    metadata: Annotated[str, Meta(max_length=10_000, description="A JSON object of values that must match.")] = ""
    pinned: bool | None = None


class MemoriesQuery(MemoryQuery, frozen=True, kw_only=True):
    """Filter memories by who can see them, by prefix, type and metadata, and by words that must all occur.

    With `as_of`, in Unix time, the memories that were true then, also those that were replaced or archived since.
    """

    model: _Model | None = None
    archived: bool = False
    as_of: Annotated[float, Meta(description="Memories that were true at this time.")] | None = None
    state: MemoryState = "active"
    q: Annotated[str, Meta(max_length=10_000, description="Words that must all occur.")] = ""
    before: Annotated[str, Meta(max_length=1_100, description="`next` of the previous page.")] = ""
    limit: _PageSize = 100


class RemoveMemoriesQuery(MemoryQuery, frozen=True, kw_only=True):
    """Which memories to remove: those that match all filters, archived ones too. At least one filter is required."""

    archived: bool | None = None
    state: MemoryState | None = None
    erase: bool = False


class AuditQuery(ModelQuery, frozen=True, kw_only=True):
    """Whose memories to look at, by default all, and how old a memory must be to be listed as unused.

    Of each kind of finding, the first `limit` are returned.
    """

    user: _Name | None = None
    unused_for: _Duration = "180d"
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class ArchiveBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ids of the memories to archive, in one run. Pinned ones are skipped."""

    ids: Annotated[list[_Name], Meta(min_length=1, max_length=10_000)]


class UndoQuery(Input, frozen=True, kw_only=True):
    """The number of the run to undo, which must be the last one; by default the last one."""

    run: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class SessionsQuery(Input, frozen=True, kw_only=True):
    """Filter sessions by program, and by words in their task and folder. Page with the `id` of the last one."""

    program: Literal["", "claude-code", "codex", "opencode", "hermes", "gemini-cli", "qwen-code"] = ""
    q: Annotated[str, Meta(max_length=1_000, description="Words that must all occur.")] = ""
    after: Annotated[str, Meta(max_length=100, description="`next` of the previous page.")] = ""
    limit: _PageSize = 50


class ReviewBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ids of proposed memories: those to confirm, or those to reject."""

    confirm: Annotated[list[_Name], Meta(max_length=1_000)] = []
    reject: Annotated[list[_Name], Meta(max_length=1_000)] = []


class WhatIfBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings to change; all others stay as they were.

    `pin` lists ids of candidates, memories and messages to build the context with, as if they were pinned memories.
    """

    model: _Name | None = None
    policy: _Name | None = None
    window: _Tokens | None = None
    completion: _Tokens | None = None
    overrides: dict[str, Any] | None = None
    pin: Annotated[list[_Name], Meta(max_length=20)] = []


class CountBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text and the model to count it for."""

    text: str
    model: _Name | None = None


class FitBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to fit, and how: the options of `brimful.fit`, and the conversation that it continues.

    `route` names the server that it goes to, if that is not the model's own provider: counts are calibrated for each.
    """

    request: Annotated[dict[str, Any], Meta(description="The request, in the format that `wire` names.")]
    wire: IncomingWire = "openai"
    conversation: Annotated[str, Meta(max_length=1_000, description="The conversation that it continues.")] = ""
    route: Annotated[str, Meta(max_length=1_000)] = ""
    model: Annotated[_Name, Meta(description="The model to count for; by default that of the request.")] | None = None
    policy: _Name | None = None
    window: _Tokens | None = None
    completion: _Tokens | None = None
    max_prompt_tokens: _Tokens | None = None
    min_tokens: _Tokens | None = None
    betas: list[str] = []
    pin: Annotated[list[int], Meta(description="Messages that must stay, by index.")] = []
    ties: Annotated[list[list[int]], Meta(description="Messages that stay or go together, by index.")] = []
    overrides: dict[str, Any] | None = None


class UsageBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens that the provider billed: `cached` is part of `prompt`, and `reasoning` part of `completion`.

    `route` is that of the request.
    """

    prompt: _Number
    cached: _Number = 0
    completion: _Number = 0
    reasoning: _Number = 0
    model: Annotated[str, Meta(max_length=1_000, description="The model that answered.")] = ""
    route: Annotated[str, Meta(max_length=1_000)] = ""
    finish: Annotated[str, Meta(max_length=1_000, description="Why it stopped.")] = ""
    seconds: Annotated[float, Meta(ge=0)] | None = None


class FeedbackBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody thinks of an answer, and why. Null removes it."""

    rating: Rating | None
    note: Annotated[str, Meta(max_length=10_000)] = ""


_Content = Annotated[str, Meta(min_length=1)] | list[dict[str, Any]] | dict[str, Any]
"""A text, a list of parts, or a whole message, in OpenAI's or Anthropic's format."""


class MessageBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to post. The same `id` posted twice is one message. A `hidden` one is excluded from contexts."""

    content: _Content
    sender: str = ""
    role: Role | None = None
    id: _Name | None = None
    at: float | None = None
    hidden: bool = False
    metadata: dict[str, Any] = {}


class EditBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new content of a message."""

    content: _Content


class BuildOptions(Input, frozen=True, kw_only=True):
    """Who answers, and how to build the context.

    `persona` is an id or a name. By default, the personas that the message mentions answer, or else the room's own.
    `message` is what to answer if it is in the room already, as if nothing had been said since.
    """

    message: Annotated[_Name, Meta(description="The id of a message of a user.")] | None = None
    persona: Annotated[_Name, Meta(description="The id or name of a persona.")] | None = None
    user: _Name | None = None
    sender: Annotated[str, Meta(description="The sender's name; by default the user's.")] | None = None
    model: _Name | None = None
    policy: _Name | None = None
    window: _Tokens | None = None
    completion: _Tokens | None = None
    max_prompt_tokens: _Tokens | None = None
    focus: Annotated[str, Meta(max_length=10_000, description="One more thing to search for.")] = ""


class BuildQuery(BuildOptions, frozen=True, kw_only=True):
    """A context to preview. Without `content`, it answers the room's last message."""

    content: Annotated[str, Meta(min_length=1, description="What to answer; by default the last message.")] | None = (
        None
    )


class BuildBody(BuildOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to answer, by default the room's last message, who answers, and how to build the context."""

    content: _Content | None = None
    system: str | None = None
    overrides: dict[str, Any] | None = None
    retrieval: RetrievalOverrides | None = None
    tools: list[dict[str, Any]] = []


class AssembleBody(BuildBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A context to build. With `save`, its record is stored, which needs the scope `chat`."""

    save: bool = False


class RespondBody(BuildBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to answer. `id` is that of the message; `stream` returns server-sent events.

    With `rewind`, everything that was said after `message` is superseded as soon as its new answer begins.
    """

    id: _Name | None = None
    stream: bool = False
    rewind: bool = False


class RoomRecallQuery(RecallQuery, frozen=True, kw_only=True):
    """What to recall, on whose behalf, and the model to count tokens for."""

    persona: Annotated[_Name, Meta(description="The id or name of a persona.")] | None = None
    user: _Name | None = None
    model: _Model | None = None


class JanitorBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to clean up a room. With `model`, it writes the summaries, which needs the scope `chat`."""

    dry_run: bool = False
    older_than: _Duration | None = None
    model: _Name | None = None
    focus: str = ""


class LearnBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation to learn memories from: `messages`, or the messages of the room `from_room`.

    `user`, `persona` and `room` say whose memories these are. `model` extracts the facts, which needs the scope `chat`.
    """

    model: _Name
    messages: list[_Content] | None = None
    from_room: _Name | None = None
    user: _Name | None = None
    persona: _Name | None = None
    room: _Name | None = None
    metadata: dict[str, Any] = {}


class UndoLearningBody(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of the run to undo; by default the last one."""

    run: Annotated[int, Meta(ge=1, le=2**53 - 1)] | None = None


class JanitorQuery(Input, frozen=True, kw_only=True):
    """How many runs to list."""

    limit: _PageSize = 20


def _make_body(kind: type[Record], name: str, *without: str) -> type[msgspec.Struct]:
    """Return the schema for creating or updating a record; all fields are optional."""
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in without]
    body = msgspec.defstruct(
        name,
        [(field.name, field.type | UnsetType, UNSET) for field in fields],
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        module=__name__,
    )
    body.__doc__ = f"Fields of a {kind.__name__.lower()}; in updates, missing fields stay unchanged."
    return body


RoomBody = _make_body(Room, "RoomBody")
PersonaBody = _make_body(Persona, "PersonaBody")
MemoryBody = _make_body(Memory, "MemoryBody", "accesses", "accessed", "edited")
LorebookBody = _make_body(Lorebook, "LorebookBody")
EntryBody = _make_body(LoreEntry, "EntryBody", "lorebook")
