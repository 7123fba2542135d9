"""Options of the engine and of its methods, and checks of their arguments."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol, TypedDict, get_args

import msgspec

from brimful.assembly.arguments import require_list, require_positive, resolve_notices, resolve_previous
from brimful.assembly.messages import read_content
from brimful.core.content import ContentPackage, Media, Part
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.core.selection import HistoryStart
from brimful.core.validation import is_whole_number, preview, require_calendar_time, to_finite_float
from brimful.errors import InvalidValue, UnknownPolicy
from brimful.packagers.package import to_timestamp
from brimful.packagers.records import JANITOR
from brimful.policies import Overrides
from brimful.protocols import Provider
from brimful.records import Content, MemoryType, Message, Persona, Usage
from brimful.records.memory import Untrusted
from brimful.retrieval.breaker import COOLDOWN, FAILURES
from brimful.retrieval.cache import MAX_ENTRIES, TTL
from brimful.retrieval.retriever import TIME_LIMIT
from brimful.retrieval.search import FALLBACKS, Fallback, check_memory_types
from brimful.wires.encode import dump_model
from brimful.wires.registry import all_wires


class SdkObject(Protocol):
    """A message of an SDK or of LangChain: a pydantic model."""

    @property
    def model_dump(self) -> Callable[..., Any]:
        """Returns its fields."""


ContentInput = Content | Sequence[Part | Mapping[str, Any]] | Mapping[str, Any] | SdkObject
"""The content of a message: a string, parts, or a whole message in OpenAI's or Anthropic's format."""
MessageInput = Message | ContentInput
"""A message to answer: a posted one, or its content."""

MAX_OTHER_ROOMS: Final = 1_000  # each is searched
SOURCES: Final = ("memories", "lore", "media")  # what a context may go without


class RetrievalOverrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retrieval settings of one call: the fields of `Retrieval` that a call may change. None: as the engine has it."""

    memories: bool | None = None
    lore: bool | None = None
    media: bool | None = None
    other_rooms: int | None = None
    types: tuple[str, ...] | None = None
    min_relevance: float | None = None
    half_life: float | None = None
    max_results: int | None = None
    max_memories: int | None = None
    fallback: Fallback | None = None

    def __post_init__(self) -> None:
        Retrieval().with_overrides(self)


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for retrieval.

    - `memories`, `lore`, `media`: whether a context may have memories, lorebook entries, and media.
    - `other_rooms`: also search this many of the user's other rooms, newest first.
    - `types`: search only memories of these types. `min_relevance`: drop hits below it.
    - `half_life`: days after which relevance is halved. None: age does not matter here (the policy may weigh it).
    - `max_results`: messages, memories and lore entries that search may bring, each, 0 for none. The token budget may
      ask for fewer. `max_memories` is a lower limit for memories.
    - `fallback`: when to add the most recent memories if search found too few: after a `failure` of search, `always`,
      or `never`.
    - `timeout`: seconds for embedding and vector search, and as many for a reranker.
    - `max_failures` and `cooldown` (seconds) configure the circuit breaker.
    - `cache_size` and `cache_ttl` (seconds) configure the result cache. A write invalidates cached results at once.
    """

    memories: bool = True
    lore: bool = True
    media: bool = True
    other_rooms: int = 0
    types: tuple[str, ...] = ()
    min_relevance: float = 0.0
    half_life: float | None = None
    max_results: int = 4_000
    max_memories: int | None = None
    fallback: Fallback = "failure"
    timeout: float = TIME_LIMIT
    max_failures: int = FAILURES
    cooldown: float = COOLDOWN
    cache_size: int = MAX_ENTRIES
    cache_ttl: float = TTL

    def __post_init__(self) -> None:
        """Check the values; breaker and retriever check their own."""
        for field in SOURCES:
            if not isinstance(getattr(self, field), bool):
                raise InvalidValue(field, f"must be true or false, not {preview(getattr(self, field))}")
        self._check_counts()
        if self.fallback not in FALLBACKS:
            raise InvalidValue("fallback", f"must be one of {', '.join(FALLBACKS)}, not {preview(self.fallback)}")
        check_memory_types(self.types)
        relevance = to_finite_float(self.min_relevance)
        if relevance is None or not 0.0 <= relevance <= 1.0:
            raise InvalidValue("min_relevance", f"must be a number from 0 to 1, not {preview(self.min_relevance)}")
        days = 1.0 if self.half_life is None else to_finite_float(self.half_life)
        if days is None or days <= 0:
            raise InvalidValue("half_life", f"must be a positive number of days, not {preview(self.half_life)}")
        if not is_whole_number(self.cache_size):
            raise InvalidValue("cache_size", f"must be a positive number of results, not {preview(self.cache_size)}")
        seconds = to_finite_float(self.cache_ttl)
        if seconds is None or seconds < 0:
            raise InvalidValue("cache_ttl", f"must be a number of seconds, not {preview(self.cache_ttl)}")

    def _check_counts(self) -> None:
        max_memories = self.max_results if self.max_memories is None else self.max_memories
        counts = {"other_rooms": self.other_rooms, "max_results": self.max_results, "max_memories": max_memories}
        for field, value in counts.items():
            if not is_whole_number(value, 0):
                raise InvalidValue(field, f"must be a number of {field.partition('_')[2]}, not {preview(value)}")
        if self.other_rooms > MAX_OTHER_ROOMS:
            raise InvalidValue("other_rooms", f"must be at most {MAX_OTHER_ROOMS:,}, not {self.other_rooms:,}")

    @property
    def left_out(self) -> tuple[str, ...]:
        """What a context may not have."""
        return tuple(field for field in SOURCES if not getattr(self, field))

    def with_overrides(self, overrides: RetrievalOverrides) -> "Retrieval":
        """Return the settings, overridden by the settings of a call.

        >>> Retrieval(other_rooms=3).with_overrides(RetrievalOverrides(max_memories=5)).max_memories
        5
        """
        changes = {name: value for name, value in msgspec.structs.asdict(overrides).items() if value is not None}
        return msgspec.structs.replace(self, **changes) if changes else self


def read_retrieval(value: RetrievalOverrides | Mapping[str, Any] | None) -> RetrievalOverrides:
    """Return the retrieval settings of a call: a struct, or a mapping of its fields.

    >>> read_retrieval({"types": ["semantic"], "min_relevance": 0.3}).types
    ('semantic',)
    """
    if value is None or isinstance(value, RetrievalOverrides):
        return value or RetrievalOverrides()
    if not isinstance(value, Mapping):
        raise InvalidValue("retrieval", f"must be a dict of retrieval settings, not {preview(value)}")
    try:
        return msgspec.convert(value, RetrievalOverrides)
    except msgspec.ValidationError as error:
        raise InvalidValue("retrieval", str(error)) from None


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of an engine share: tenant, default model and policy, retrieval settings, records and clock."""

    tenant: str
    model: str | ModelInfo
    policy: str | Policy | None
    policies: Mapping[str, str | Policy] | None
    retrieval: Retrieval
    record_share: float
    untrusted: Untrusted
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        share = to_finite_float(self.record_share)
        if share is None or not 0.0 <= share <= 1.0:
            raise InvalidValue("record_share", f"must be a number from 0 to 1, not {preview(self.record_share)}")
        if self.untrusted not in get_args(Untrusted):
            reason = f"must be one of {', '.join(get_args(Untrusted))}, not {preview(self.untrusted)}"
            raise InvalidValue("untrusted", reason)
        if not isinstance(self.retrieval, Retrieval):
            raise InvalidValue("retrieval", f"must be a Retrieval, not {preview(self.retrieval)}")

    @property
    def uses_tokenizer(self) -> bool:
        """Whether the default policy counts with tokenizers, and not by the number of characters."""
        return not isinstance(self.policy, Policy) or self.policy.counting != "approximate"

    def find_policy(self, persona: Persona | None) -> str | Policy | None:
        """Return the policy of a persona, or the engine's; None leaves the choice to the build."""
        if persona is None or not persona.policy:
            return "default" if persona and persona.id == JANITOR else self.policy
        if self.policies is None:
            return persona.policy
        if persona.policy not in self.policies:
            raise UnknownPolicy(persona.policy, sorted(self.policies))
        return self.policies[persona.policy]

    def resolve_time(self, at: float | datetime | None, field: str = "at") -> float:
        """Return a time given by a caller as a timestamp; without one, the current time."""
        try:
            return self.clock() if at is None else require_calendar_time(field, to_timestamp(at), InvalidValue)
        except InvalidValue as error:
            raise InvalidValue(field, error.reason) from None


class _MemoryFields(TypedDict, total=False):
    type: MemoryType
    persona: str | None
    user: str | None
    room: str | None
    importance: float
    source: str
    source_message: str | None
    cluster: str | None
    summary: bool
    pinned: bool


class MemoryOptions(_MemoryFields, total=False):
    """Keywords of `Engine.remember`: the fields of a `Memory`."""

    id: str | None
    at: float | datetime | None
    metadata: Mapping[str, Any] | None


class MemoryChanges(_MemoryFields, total=False):
    """Keywords of `Engine.update_memory`: the fields of a `Memory` that can change."""

    metadata: Mapping[str, Any]


class BuildOptions(TypedDict, total=False):
    """Keywords that `assemble`, `respond` and `stream` share."""

    model: str | ModelInfo | None
    policy: str | Policy | None
    user: str | None
    key: str | None
    sender: str
    media: Sequence[Media]
    tools: Sequence[Tool | Mapping[str, Any]]
    focus: str
    system: str | None
    window: int | None
    completion: int | None
    max_output: int | None
    max_prompt_tokens: int | None
    overrides: Mapping[str, Any] | Overrides | None
    retrieval: Mapping[str, Any] | RetrievalOverrides | None
    fields: Mapping[str, Any] | None
    now: float | datetime | None


class AssembleOptions(BuildOptions, total=False):
    """Keywords of `Engine.assemble`."""

    betas: Sequence[str]
    wire: str | None
    route: str
    notices: Sequence[Notice]
    steps: Sequence[Message]
    previous: Context | HistoryStart | None
    reserve: int | None
    save: bool


class RespondOptions(BuildOptions, total=False):
    """Keywords of `Engine.respond` and `Engine.stream`. `id` and `sender` belong to the message."""

    provider: str | Provider | None
    id: str | None


class ResponseOptions(TypedDict, total=False):
    """Keywords of `Engine.record_response`."""

    content: ContentInput | None
    sender: str
    model: str
    route: str
    usage: object
    seconds: float | None
    finish: str
    id: str | None
    at: float | datetime | None
    notices: Sequence[Notice]
    metadata: Mapping[str, Any] | None


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to build a context. The fields are the arguments of `Engine.assemble`, which documents them.

    The janitor's sessions also have `packages`, which are further candidates, and a `search_room`: that room is
    searched for the focus, in place of the session's own room for the message.
    """

    room: str
    persona: str | None = None
    message: Content | Message | None = None
    model: str | ModelInfo | None = None
    policy: str | Policy | None = None
    user: str | None = None
    key: str | None = None
    sender: str = ""
    media: Sequence[Media] = ()
    tools: Sequence[Tool | Mapping[str, Any]] = ()
    focus: str = ""
    system: str | None = None
    window: int | None = None
    completion: int | None = None
    max_output: int | None = None
    max_prompt_tokens: int | None = None
    overrides: Mapping[str, Any] | Overrides | None = None
    retrieval: Mapping[str, Any] | RetrievalOverrides | None = None
    now: float | datetime | None = None
    betas: Sequence[str] = ()
    wire: str | None = None
    route: str = ""
    notices: Sequence[Notice] = ()
    fields: Mapping[str, Any] | None = None
    steps: Sequence[Message] = ()
    previous: Context | HistoryStart | None = None
    reserve: int | None = None
    save: bool = True
    packages: tuple[ContentPackage, ...] = ()
    search_room: str = ""

    def __post_init__(self) -> None:
        """Check the values; what only the store or the registry knows is checked later."""
        for field in ("room", "persona", "sender", "user", "key", "focus", "system", "route"):
            require_string(field, getattr(self, field))
        for field in ("window", "completion", "max_output", "reserve"):
            require_positive(field, getattr(self, field))
        require_positive("max_prompt_tokens", self.max_prompt_tokens)
        resolve_notices(self.notices)
        resolve_previous(self.previous)
        read_retrieval(self.retrieval)
        for index, step in enumerate(require_list("steps", self.steps)):
            if not isinstance(step, Message) or step.room != self.room:
                raise InvalidValue(f"steps[{index}]", f"must be a Message of the room, not {preview(step)}")
        for index, part in enumerate(require_list("media", self.media)):
            if not isinstance(part, Media):
                raise InvalidValue(f"media[{index}]", f"must be a Media, not {preview(part)}")


def resolve_message(message: MessageInput | None) -> Content | Message | None:
    """Return a message to answer: a record, or content of any form."""
    return message if message is None or isinstance(message, Message) else read_content(message, "message")[0]


def check_options(options: Mapping[str, object], known: type) -> None:
    """Refuse keywords that are not in a TypedDict."""
    for key in options.keys() - known.__annotations__.keys():
        raise InvalidValue(key, f"is not an option; the options are {', '.join(sorted(known.__annotations__))}")


def require_string(field: str, value: object) -> None:
    """Refuse a value that is neither a string nor None."""
    if value is not None and not isinstance(value, str):
        raise InvalidValue(field, f"must be a string, not {preview(value)}")


def parse_usage(usage: object) -> Usage | None:
    """Return usage: a `Usage`, a mapping of its fields, or what OpenAI and Anthropic report, as a dict or an object.

    >>> parse_usage({"prompt": 12, "completion": 3})
    Usage(prompt=12, cached=0, completion=3, reasoning=0)
    >>> parse_usage({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15})
    Usage(prompt=12, cached=0, completion=3, reasoning=0)
    """
    if usage is None or isinstance(usage, Usage):
        return usage
    try:
        fields = usage if isinstance(usage, Mapping) else dump_model(usage)
        wire = next((wire for wire in all_wires() if wire.usage_key and wire.usage_key in fields), None)
        return msgspec.convert(fields, Usage) if wire is None else wire.read_usage(dict(fields))
    except (TypeError, msgspec.ValidationError) as error:
        raise InvalidValue("usage", f"must be a Usage, or the usage that a provider reported ({error})") from None


def get_context_id(context: Context | str) -> str:
    if not isinstance(context, Context | str):
        raise InvalidValue("context", f"must be a Context or its id, not {preview(context)}")
    return context if isinstance(context, str) else context.id
