"""Package any content, counted once: memories, lorebook entries, notes, summaries, images, audio and video."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final, TypedDict, Unpack

import msgspec

from brimful.core import validation
from brimful.core.arrange import DEPTH_KEY, NOTE_KIND
from brimful.core.content import ContentPackage, Flex, Form, Media, Part, Role, Text, ToolCall, ToolResult, require_role
from brimful.core.cost import count_content
from brimful.core.media import MEDIA_IMPORTANCE, MEDIA_PRIORITY
from brimful.core.prompt import TokenCounter
from brimful.core.tokens import Count
from brimful.core.validation import clean_text
from brimful.errors import InvalidPackage, InvalidValue
from brimful.records.memory import MEMORY_TYPES, MemoryType


class KindDefaults(msgspec.Struct, frozen=True, dict=True):
    """The default values of a kind."""

    priority: int
    importance: float
    can_drop: bool = True

    @cached_property
    def flex(self) -> Flex:
        """How packages are treated. They share it, so that a record has it once."""
        return Flex(can_drop=self.can_drop, priority=self.priority)


OTHER_DEFAULTS: Final = KindDefaults(5, 0.5)

KIND_DEFAULTS: Final = {
    "system-prompt": KindDefaults(10, 1.0, can_drop=False),
    "system-note": KindDefaults(10, 1.0, can_drop=False),
    "message-current": KindDefaults(10, 1.0, can_drop=False),
    "message-recent": KindDefaults(9, 0.5),
    "message-older": KindDefaults(5, 0.5),
    "tool-call": KindDefaults(9, 0.5),
    "tool-result": KindDefaults(9, 0.5),
    "memory-semantic": KindDefaults(8, 0.5),  # facts hold longest
    "memory-procedural": KindDefaults(7, 0.5),
    "memory-episodic": KindDefaults(6, 0.5),  # events fade first
    "lorebook": KindDefaults(7, 0.5),
    "summary": KindDefaults(7, 0.5),
    "code-snippet": KindDefaults(7, 0.5),
    "media-image": KindDefaults(MEDIA_PRIORITY, MEDIA_IMPORTANCE),
    "media-audio": KindDefaults(MEDIA_PRIORITY, MEDIA_IMPORTANCE),
    "media-video": KindDefaults(MEDIA_PRIORITY, MEDIA_IMPORTANCE),
    "media-document": KindDefaults(MEDIA_PRIORITY, MEDIA_IMPORTANCE),
}
"""The defaults of known kinds."""


def get_defaults(kind: str) -> KindDefaults:
    """Return the defaults of a kind.

    >>> get_defaults("memory-semantic").priority, get_defaults("something-new").priority
    (8, 5)
    """
    return KIND_DEFAULTS.get(kind, OTHER_DEFAULTS)


class PackageOptions(TypedDict, total=False):
    """The options of every package. The defaults depend on the kind."""

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
    can_shrink: bool
    forms: Iterable[Form]
    cluster: str
    group: str
    covers: tuple[str, ...]
    matches: tuple[tuple[int, int], ...]
    metadata: dict[str, Any]
    pinned: bool
    always_on: bool
    excluded: str
    why: str
    tokens: int | Count


_OPTION_NAMES: Final = dict.fromkeys(PackageOptions.__annotations__)
_FLEX_OPTIONS: Final = frozenset(Flex.__struct_fields__)


def package(
    kind: str, content: str | tuple[Part, ...] | list[Part], *, counter: TokenCounter, **options: Unpack[PackageOptions]
) -> ContentPackage:
    """Package content and count it with `counter`. Lone surrogates in texts are replaced.

    The default id is derived from the content and the time, so that packaging the same content twice gives the same id.
    A number passed as `tokens` is an upper bound, and is not counted again.
    """
    for option in options.keys() - _OPTION_NAMES.keys():
        raise InvalidPackage(option, f"is not an option of packages; known: {', '.join(_OPTION_NAMES)}")
    defaults = get_defaults(require_kind(kind))
    require_counter(counter)
    clean = _clean_content(content)
    options["name"] = clean_text(validation.require_text("name", options.get("name", "")))
    when = to_timestamp(options.get("timestamp", 0.0))
    return ContentPackage(
        id=options["id"] if "id" in options else _content_id(kind, clean, when, options),
        kind=kind,
        content=clean,
        tokens=_resolve_count(clean, counter, options.get("tokens")),
        role=options.get("role"),
        name=options["name"],
        importance=options.get("importance", defaults.importance),
        timestamp=when,
        position=options.get("position", 0),
        relevance=options.get("relevance"),
        flex=defaults.flex
        if _FLEX_OPTIONS.isdisjoint(options)
        else Flex(
            can_drop=options.get("can_drop", defaults.can_drop),
            priority=options.get("priority", defaults.priority),
            min_tokens=options.get("min_tokens"),
            can_shrink=options.get("can_shrink", True),
        ),
        cluster=options.get("cluster"),
        group=options.get("group"),
        covers=_ordered_ids(options.get("covers", ())),
        forms=_counted_forms(options.get("forms", ()), counter),
        matches=options.get("matches", ()),
        metadata=copy_metadata(options),
        pinned=options.get("pinned", False),
        always_on=options.get("always_on", False),
        excluded=options.get("excluded", ""),
        why=options.get("why", ""),
    )


def require_kind(kind: object) -> str:
    """Return a kind. Any name is allowed, except one that is nearly a known kind and would silently be another.

    >>> require_kind("memory_semantic")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidPackage: kind: 'memory_semantic' is not a known kind: did you mean 'memory-semantic'?
    """
    plain = validation.require_id("kind", kind)
    if plain not in KIND_DEFAULTS and (known := _similar_kind(plain)) is not None:
        raise InvalidPackage("kind", f"{validation.preview(plain)} is not a known kind: did you mean {known!r}?")
    return plain


@lru_cache(256)
def _similar_kind(kind: str) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - seldom needed

    if kind.startswith(tuple(f"{known}-" for known in KIND_DEFAULTS)):
        return None  # a variant, such as code-snippet-2
    names = {re.sub(r"[\W_]", "", known): known for known in KIND_DEFAULTS}
    found = get_close_matches(re.sub(r"[\W_]", "", kind.lower()), names, n=1, cutoff=0.9)
    return names[found[0]] if found else None


def require_counter(counter: object) -> None:
    """Refuse a counter that cannot count, such as the name of a model."""
    if not callable(getattr(counter, "texts", None)):
        raise InvalidValue("counter", f"must come from brimful.counter(model), not be {validation.preview(counter)}")


def derived_id(kind: str, content: tuple[Part, ...], options: PackageOptions) -> str:
    """Return the default id of a package with this content."""
    named: PackageOptions = {**options, "name": clean_text(validation.require_text("name", options.get("name", "")))}
    return _content_id(kind, _clean_content(content), to_timestamp(options.get("timestamp", 0.0)), named)


def copy_metadata(options: PackageOptions) -> dict[str, Any]:
    metadata: object = options.get("metadata", {})
    if type(metadata) is not dict and not isinstance(metadata, Mapping):
        raise InvalidPackage("metadata", f"must be a dict, not {validation.preview(metadata)}")
    return dict(metadata)


def to_timestamp(when: float | datetime) -> float:
    """Return a time as seconds since 1970. A datetime must have a time zone.

    >>> from datetime import UTC
    >>> to_timestamp(datetime(2026, 11, 1, tzinfo=UTC))
    1793491200.0
    """
    if type(when) is float or not isinstance(when, datetime):
        return validation.require_timestamp("timestamp", when)
    if when.tzinfo is None:
        raise InvalidPackage("timestamp", f"needs a time zone, but {when.isoformat()} has none")
    return when.timestamp()


def _clean_content(content: str | tuple[Part, ...] | list[Part]) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, tuple | list):
        raise InvalidPackage("content", f"must be a string or a list of parts, not {type(content).__name__}")
    for index, part in enumerate(content):
        if not isinstance(part, Part):
            raise InvalidPackage(f"content[{index}]", f"must be a part, not {validation.preview(part)}")
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


def _ordered_ids(covers: object) -> tuple[str, ...]:
    """Return ids in a stable order: as passed, or sorted if they are a set."""
    if type(covers) is tuple:
        return covers
    if isinstance(covers, str | bytes | Mapping) or not isinstance(covers, Iterable):
        raise InvalidPackage("covers", f"must be a list of ids, not {validation.preview(covers)}")
    return tuple(sorted(covers, key=str) if isinstance(covers, AbstractSet) else covers)


def _counted_forms(forms: object, counter: TokenCounter) -> tuple[Form, ...]:
    if isinstance(forms, str | bytes | Mapping) or not isinstance(forms, Iterable):
        raise InvalidPackage("forms", f"must be a list of Form, not {validation.preview(forms)}")
    counted = []
    for index, form in enumerate(forms):
        if not isinstance(form, Form):
            raise InvalidPackage(f"forms[{index}]", f"must be a Form, not {validation.preview(form)}")
        text = clean_text(form.text)
        counted.append(Form(text, form.worth, form.tokens or counter.text(text)))
    return tuple(counted)


def _resolve_count(content: str | tuple[Part, ...], counter: TokenCounter, tokens: int | Count | None) -> Count:
    if tokens is None:
        return count_content(content, counter)
    return tokens if isinstance(tokens, Count) else Count(tokens=tokens, basis="bound")


def _content_id(kind: str, content: str | tuple[Part, ...], when: float, options: PackageOptions) -> str:
    position, role = options.get("position", 0), options.get("role")
    validation.require_position(position)
    if role is not None:
        require_role(role)
    seed = msgspec.json.encode([content, when, position, role, options.get("name")])
    return f"{kind}:{hashlib.blake2b(seed, digest_size=8).hexdigest()}"


def memory(
    text: str, *, counter: TokenCounter, type: MemoryType = "semantic", **options: Unpack[PackageOptions]
) -> ContentPackage:
    """Package a memory. If it is `pinned`, it goes into the stable part of the prompt."""
    if type not in MEMORY_TYPES:
        raise InvalidValue("type", f"must be one of {', '.join(MEMORY_TYPES)}, not {validation.preview(type)}")
    metadata = {"source": "memory", **copy_metadata(options)}
    whole: PackageOptions = {**options, "metadata": metadata}
    return package(f"memory-{type}", text, counter=counter, **whole)


def lorebook_entry(
    text: str, *, counter: TokenCounter, book: str = "", constant: bool = False, **options: Unpack[PackageOptions]
) -> ContentPackage:
    """Package a lorebook entry. A constant entry is pinned: it is part of the stable prefix."""
    source = clean_text(validation.require_text("book", book)) or "lorebook"
    metadata = {"source": source, **copy_metadata(options)}
    whole: PackageOptions = {"pinned": constant, **options, "metadata": metadata}
    return package("lorebook", text, counter=counter, **whole)


def note(text: str, *, counter: TokenCounter, depth: int = 0, **options: Unpack[PackageOptions]) -> ContentPackage:
    """Package a note, which is required. `depth` messages follow it; with 0 it comes last."""
    if type(depth) is not int or depth < 0:
        raise InvalidPackage("depth", f"must be a number of messages, not {depth!r}")
    whole: PackageOptions = {**options, "metadata": {DEPTH_KEY: depth, **copy_metadata(options)}}
    return package(NOTE_KIND, text, counter=counter, **whole)


def summary(text: str, *, of: str, counter: TokenCounter, **options: Unpack[PackageOptions]) -> ContentPackage:
    """Package a summary of the cluster `of`. `covers` lists the ids it covers, if not the whole cluster."""
    whole: PackageOptions = {**options, "cluster": of}
    return package("summary", text, counter=counter, **whole)


def media(part: Media, *, counter: TokenCounter, **options: Unpack[PackageOptions]) -> ContentPackage:
    """Package one image, audio clip, video or document, counted by the model's rule for its size."""
    if not isinstance(part, Media):
        raise InvalidPackage("content", f"must be a Media, not {validation.preview(part)}")
    metadata = {"source": "media", **({"url": part.url} if part.url else {}), **copy_metadata(options)}
    whole: PackageOptions = {**options, "metadata": metadata}
    return package(f"media-{part.modality}", (part,), counter=counter, **whole)
