"""Contexts and responses as a store keeps them."""

import zlib
from typing import Any, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.core.context import Component, Context
from brimful.core.notice import Notice
from brimful.core.selection import HistoryStart
from brimful.errors import InvalidValue
from brimful.records.base import Record, check_integer, normalize_fields, validate_string, validate_time
from brimful.records.statistics import Statistics
from brimful.records.usage import Usage

Rating = Literal["good", "bad"]


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody thinks of an answer, and why."""

    rating: Rating
    note: str = ""
    at: float = 0.0

    def __post_init__(self) -> None:
        if self.rating not in get_args(Rating):
            raise InvalidValue("rating", f"must be 'good' or 'bad', not {validation.preview(self.rating)}")
        validation.normalize_field(self, "note", validate_string, "")
        validation.normalize_field(self, "at", validate_time, "")


class Response(Record, frozen=True, kw_only=True, tag="response"):
    """A response, linked to its context: `context` is the id of the snapshot, `message` that of the response itself.

    `route` names the server. `expected_cached` are the prompt tokens that should have been in the server's cache; those
    that were are in `usage`. `notices` describe problems, such as a truncated prompt. `feedback` is that of a reader.
    """

    context: str
    room: str
    message: str | None = None
    model: str = ""
    route: str = ""
    at: float = 0.0
    seconds: float | None = None
    usage: Usage | None = None
    expected_cached: int = 0
    finish: str = ""
    notices: tuple[Notice, ...] = ()
    metadata: dict[str, Any] = {}
    feedback: Feedback | None = None

    def __post_init__(self) -> None:
        texts = ("model", "route", "finish")
        normalize_fields(self, texts=texts, refs=("context", "room"), optional=("message",), times=("at",))
        check_integer("expected_cached", self.expected_cached)
        if self.seconds is not None:
            validation.normalize_field(self, "seconds", validate_time, "")
        if self.usage is not None and not isinstance(self.usage, Usage):
            raise InvalidValue("usage", f"must be a Usage, not {validation.preview(self.usage)}")
        if self.feedback is not None and not isinstance(self.feedback, Feedback):
            raise InvalidValue("feedback", f"must be a Feedback, not {validation.preview(self.feedback)}")


class Snapshot(Record, frozen=True, kw_only=True, tag="snapshot"):
    """A built context with every decision. Its id is its own: equal contexts may be built twice.

    `user` is the one whose memories it may contain, or who sent the request. `key` is the id of the API key.
    `build_seconds` is how long it took to build, and `search_seconds` how much of that went into loading and searching.
    """

    room: str
    context: Context
    persona: str | None = None
    user: str | None = None
    key: str | None = None
    at: float = 0.0
    message: str | None = None
    build_seconds: float | None = None
    search_seconds: float | None = None

    def __post_init__(self) -> None:
        normalize_fields(self, refs=("room",), optional=("persona", "user", "key", "message"), times=("at",))
        for name in ("build_seconds", "search_seconds"):
            if getattr(self, name) is not None:
                validation.normalize_field(self, name, validate_time, "")


def is_sampled(context: Context, share: float) -> bool:
    """Return whether a context is among the share to record, by its id. One with a notice about a problem always is."""
    return bool(context.inputs.degraded) or zlib.crc32(context.id.encode()) < share * 2**32


class Inclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one item in one context."""

    snapshot: str
    item: str
    kind: str
    outcome: str
    reason: str
    tokens: int
    relevance: float | None = None
    at: float = 0.0


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A built context in one line, for lists, with what the next context needs to keep its prefix.

    `number` is its position in the tenant's log, `message` the id of the message it answers. `candidates` counts them
    together with the messages of the room that were not loaded, and `left_out` those that are not in the context.
    `lines` of them have a line in the ledger of an agent's steps. `naive` are the tokens of the request and of
    everything left out: what sending everything would have cost. `rules` is a digest of its policy and budget. If it is
    not `recorded`, this line is all that is stored of it.

    `run` is the id of the first context of its run: the contexts that were built for one task. `question` is the
    position of the task among the candidates, None if it is none of them, and `calls` are the positions of the calls
    with whose results the model goes on.
    """

    number: int = 0
    id: str
    room: str
    persona: str | None
    message: str | None = None
    at: float
    model: str
    policy: str
    tokens: int
    window: int
    completion: int
    available: int
    components: tuple[Component, ...]
    candidates: int
    left_out: int
    naive: int
    warnings: tuple[Notice, ...] = ()
    degraded: tuple[Notice, ...] = ()
    history: HistoryStart | None = None
    rules: str = ""
    user: str | None = None
    key: str | None = None
    recorded: bool = True
    lines: int = 0
    run: str = ""
    question: int | None = None
    calls: tuple[int, ...] = ()
    build_seconds: float | None = None
    search_seconds: float | None = None


class AgentRun(msgspec.Struct, frozen=True, kw_only=True):
    """The contexts that were built for one task, and their responses: a chat has one context, an agent many.

    It is the id of its first context. `begin` and `end` are the times of its first and its last event.
    """

    id: str
    begin: float
    end: float
    statistics: Statistics


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Contexts and responses after a position of the log, in order of arrival, and the cursor to continue from."""

    cursor: str
    events: tuple[Build | Response, ...] = ()


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was pruned, or would be: contexts and responses before a time.

    `contents` counts contents that nothing else references. `bytes` is the size of all bodies, without the overhead of
    rows and indexes.
    """

    before: float
    builds: int = 0
    answers: int = 0
    contents: int = 0
    bytes: int = 0
