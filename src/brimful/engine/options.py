"""Options of the engine and of its calls, and checks of their arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, cast

import msgspec

from brimful.assembly.arguments import require_list
from brimful.core.content import Media
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.core.validation import is_whole_number, preview, to_finite_float
from brimful.errors import InvalidValue
from brimful.policies import Overrides
from brimful.protocols import Provider
from brimful.records import Memory, Message, Usage
from brimful.retrieval.breaker import COOLDOWN, FAILURES
from brimful.retrieval.cache import MAX_ENTRIES, TTL
from brimful.retrieval.retriever import TIME_LIMIT
from brimful.retrieval.search import check_memory_types


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """What may be set of retrieval.

    - `other_rooms`: look into the newest rooms of the same user, too, so many of them.
    - `types`: only memories of these types. `least_relevance`: nothing below it.
    - `half_life`: days after which relevance is worth half; None: age does not count here (the policy may weigh it).
    - `most`: finds a build may bring, 0 for none; the token budget may ask for fewer.
    - `time_limit`: seconds for embedding and vector search. `failures` and `cooldown` (seconds) are the breaker's.
    - `cache_results` and `cache_seconds`: how many results are kept, for how long. A write makes them stale at once.
    """

    other_rooms: int = 0
    types: tuple[str, ...] = ()
    least_relevance: float = 0.0
    half_life: float | None = None
    most: int = 400
    time_limit: float = TIME_LIMIT
    failures: int = FAILURES
    cooldown: float = COOLDOWN
    cache_results: int = MAX_ENTRIES
    cache_seconds: float = TTL

    def __post_init__(self) -> None:
        """Refuse what cannot be meant. What breaker and time limit are asked, they check themselves."""
        if not is_whole_number(self.other_rooms, 0):
            raise InvalidValue("other_rooms", f"must be a number of rooms, not {preview(self.other_rooms)}")
        if not is_whole_number(self.most, 0):
            raise InvalidValue("most", f"must be a number of finds, not {preview(self.most)}")
        check_memory_types(self.types)
        least = to_finite_float(self.least_relevance)
        if least is None or not 0.0 <= least <= 1.0:
            raise InvalidValue("least_relevance", f"must be a number from 0 to 1, not {preview(self.least_relevance)}")
        days = 1.0 if self.half_life is None else to_finite_float(self.half_life)
        if days is None or days <= 0:
            raise InvalidValue("half_life", f"must be a positive number of days, not {preview(self.half_life)}")
        if not is_whole_number(self.cache_results):
            raise InvalidValue(
                "cache_results", f"must be a positive number of results, not {preview(self.cache_results)}"
            )
        seconds = to_finite_float(self.cache_seconds)
        if seconds is None or seconds < 0:
            raise InvalidValue("cache_seconds", f"must be a number of seconds, not {preview(self.cache_seconds)}")


def check_retrieval(retrieval: Retrieval) -> Retrieval:
    """Return settings as such."""
    if not isinstance(retrieval, Retrieval):
        raise InvalidValue("retrieval", f"must be a Retrieval, not {preview(retrieval)}")
    return retrieval


class BuildOptions(TypedDict, total=False):
    """What it may say of the context that is built for it, as `assemble` takes it."""

    policy: str | Policy | None
    user: str | None
    media: Sequence[Media]
    tools: Sequence[Tool | Mapping[str, Any]]
    focus: str
    system: str | None
    completion: int | None
    overrides: Mapping[str, Any] | Overrides | None


class RespondOptions(BuildOptions, total=False):
    """All that it may say. `id` and `sender` are those of the message."""

    model: str | ModelInfo | None
    provider: str | Provider | None
    window: int | None
    sender: str
    id: str | None
    now: float | datetime | None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation while it is under way: who answers what, by which model, and where that runs.

    `at` is when it was said, `begun` when we were asked.
    """

    room: str
    persona: str | None
    speaker: str
    message: Message | None
    model: ModelInfo
    provider: Provider
    window: int | None
    building: BuildOptions
    at: float
    begun: float


def get_build_options(asking: RespondOptions) -> BuildOptions:
    """Return what of a call is for the build alone.

    >>> get_build_options({"policy": "window", "sender": "Ada"})
    {'policy': 'window'}
    """
    for key in asking.keys() - RespondOptions.__annotations__.keys():
        raise InvalidValue(key, f"is no argument of an answer; known: {', '.join(RespondOptions.__annotations__)}")
    said = {key: value for key, value in asking.items() if key in BuildOptions.__annotations__}
    return cast("BuildOptions", said)


def require_strings(**fields: object) -> None:
    """Refuse what is neither a text nor nothing."""
    for field, value in fields.items():
        if value is not None and not isinstance(value, str):
            raise InvalidValue(field, f"must be a text, not {preview(value)}")


def require_memory_content(memory: Memory) -> None:
    """Refuse a memory that holds nothing."""
    if not memory.content.strip():
        raise InvalidValue("content", "is empty: say what is to be known")


def check_media(media: Sequence[Media]) -> tuple[Media, ...]:
    """Return media as such."""
    given = tuple(require_list("media", media))
    for at, part in enumerate(given):
        if not isinstance(part, Media):
            raise InvalidValue(f"media[{at}]", f"must be a Media, not {preview(part)}")
    return given


def parse_usage(usage: Usage | Mapping[str, Any] | None) -> Usage | None:
    """Return usage that may be given by its fields.

    >>> parse_usage({"prompt": 12, "completion": 3})
    Usage(prompt=12, cached=0, completion=3, reasoning=0)
    """
    if usage is None or isinstance(usage, Usage):
        return usage
    try:
        return msgspec.convert(usage, Usage)
    except msgspec.ValidationError as error:
        raise InvalidValue("usage", f"must be a Usage, or its fields ({error})") from None


def get_context_id(context: Context | str) -> str:
    """Return the id of a context that may be given by it."""
    if not isinstance(context, Context | str):
        raise InvalidValue("context", f"must be a Context or its id, not {preview(context)}")
    return context if isinstance(context, str) else context.id
