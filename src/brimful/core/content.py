"""Content packages and their parts: the one kind of value that may go into a prompt."""

import hashlib
import unicodedata
from collections.abc import Iterable
from copy import copy
from math import isfinite
from typing import Any, Final, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.core.tokens import Count
from brimful.core.validation import preview
from brimful.errors import InvalidPackage

Role = Literal["system", "user", "assistant", "tool"]
Modality = Literal["image", "audio", "video", "document"]

KNOWN_KINDS: Final = (
    "system-prompt",
    "memory-episodic",
    "memory-semantic",
    "memory-procedural",
    "message-recent",
    "message-current",
    "message-older",
    "media-image",
    "media-video",
    "media-audio",
    "media-document",
    "tool-call",
    "tool-result",
    "lorebook",
    "summary",
    "code-snippet",
    "system-note",
)
"""The kinds known by name. The set is open: any non-empty string is a kind."""

MAX_PRIORITY: Final = 10
MAX_NORMALIZED_LENGTH: Final = 100_000  # characters; longer texts are compared as they are
OPAQUE_TYPE: Final = "application/x-opaque"
"""The media type of content that only its provider can read, such as encrypted reasoning."""
ROLES: Final[tuple[str, ...]] = get_args(Role)
MODALITIES: Final[tuple[str, ...]] = get_args(Modality)
_USUAL_TREATMENT: Final = (False, False, "", "")


class Text(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="text"):
    """A piece of text."""

    text: str

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            validation.normalize_field(self, "text", validation.require_text)


class Media(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="media"):
    """An image, audio, video or document, by URL or as base64 `data`."""

    modality: Modality
    url: str = ""
    data: str = ""
    media_type: str = ""
    width: int | None = None
    height: int | None = None
    seconds: float | None = None
    detail: str = "auto"

    def __post_init__(self) -> None:
        if self.modality not in MODALITIES:
            raise InvalidPackage(
                "content.modality", f"must be one of {', '.join(MODALITIES)}, not {preview(self.modality)}"
            )
        for field in ("url", "data", "media_type", "detail"):
            validation.normalize_field(self, field, validation.require_unicode)
        if bool(self.url) == bool(self.data):
            raise InvalidPackage("content.media", "needs a url or base64 data, and not both")
        for field, value in (("width", self.width), ("height", self.height)):
            if value is not None and not validation.is_whole_number(value):
                raise InvalidPackage(f"content.{field}", f"must be a positive whole number, not {preview(value)}")
        if self.seconds is not None:
            validation.normalize_field(self, "seconds", validation.require_duration)

    @property
    def is_opaque(self) -> bool:
        """Whether it is sent as it is or not at all: no line of text can replace it."""
        return self.media_type == OPAQUE_TYPE

    @property
    def has_unknown_size(self) -> bool:
        """Whether its tokens can only be assumed: a document, or audio or video of unknown length."""
        return self.modality == "document" or (self.modality != "image" and self.seconds is None)


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="tool_call"):
    """A call of a tool by the assistant. `arguments` is a JSON string."""

    id: str
    name: str
    arguments: str = "{}"

    def __post_init__(self) -> None:
        """Validate all fields; `arguments` must already be JSON."""
        if type(self.arguments) is not str:
            validation.normalize_field(self, "arguments", _require_arguments)
        _normalize_call_fields(self)


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="tool_result"):
    """The result of the tool call `id`."""

    id: str
    content: str
    name: str = ""
    is_error: bool = False

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            validation.normalize_field(self, "content", validation.require_text)
        _normalize_call_fields(self)
        if type(self.is_error) is not bool:
            raise InvalidPackage("content.is_error", f"must be true or false, not {preview(self.is_error)}")


Part = Text | Media | ToolCall | ToolResult


class Flex(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a package may be treated if there is not enough room.

    `min_tokens` allows it to be shortened to that many tokens, whatever the policy says. `can_shrink=False` forbids
    shortening.
    """

    can_drop: bool = True
    priority: int = 5
    min_tokens: int | None = None
    can_shrink: bool = True

    def __post_init__(self) -> None:
        if type(self.can_drop) is not bool:
            raise InvalidPackage("flex.can_drop", f"must be true or false, not {preview(self.can_drop)}")
        if type(self.can_shrink) is not bool:
            raise InvalidPackage("flex.can_shrink", f"must be true or false, not {preview(self.can_shrink)}")
        if type(self.priority) is not int or not 1 <= self.priority <= MAX_PRIORITY:
            raise InvalidPackage("flex.priority", f"must be a whole number from 1 to 10, not {preview(self.priority)}")
        if self.min_tokens is not None and not validation.is_whole_number(self.min_tokens):
            raise InvalidPackage("flex.min_tokens", f"must be a positive whole number, not {preview(self.min_tokens)}")


class Form(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A shorter text for a package, and the share of the whole that it is worth.

    `tokens` is counted when a context is built if it is missing.

    >>> Form("Ada moved to Bergen.", worth=0.6)
    Form(text='Ada moved to Bergen.', worth=0.6, tokens=None)
    """

    text: str
    worth: float = 0.5
    tokens: Count | None = None

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            validation.normalize_field(self, "text", validation.require_text, "forms.")
        if not self.text.strip():
            raise InvalidPackage("forms.text", "must not be empty")
        if not validation.is_fraction(self.worth):
            validation.normalize_field(self, "worth", validation.require_fraction, "forms.")
        if self.tokens is not None and type(self.tokens) is not Count:
            raise InvalidPackage("forms.tokens", f"must be a Count, not {preview(self.tokens)}")


class ContentPackage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Anything that may go into a prompt, with its token count.

    `group` binds packages that are kept or dropped together. `cluster` names what a summary may replace; a summary has
    the cluster that it covers, and `covers` the ids it covers (if empty, the whole cluster). `position` breaks ties
    between equal timestamps (seconds since 1970).

    `forms` are shorter texts of your own, which are preferred to those that Brimful makes. `matches` are the passages
    of the text that search found, as (start, stop) in characters: an excerpt prefers them.

    `pinned` puts it into the stable part of the prompt. `always_on` says that it is meant for every context, so that a
    context without it has a warning. `excluded` says why it may not compete, and `why` what made it a candidate.

    >>> p = ContentPackage(id="m1", kind="message-recent", content="Hi", tokens=Count(tokens=1, basis="exact"))
    >>> p.hash[:3], p.normalized_hash[:3]
    ('b2:', 'n1:')
    >>> ContentPackage(id="", kind="x", content="", tokens=Count(tokens=0, basis="exact"))
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidPackage: id: must not be empty
    """

    id: str
    kind: str
    content: str | tuple[Part, ...]
    tokens: Count
    role: Role | None = None
    name: str = ""
    importance: float = 0.5
    timestamp: float = 0.0
    position: int = 0
    relevance: float | None = None
    flex: Flex = Flex()
    cluster: str | None = None
    group: str | None = None
    covers: tuple[str, ...] = ()
    forms: tuple[Form, ...] = ()
    matches: tuple[tuple[int, int], ...] = ()
    metadata: dict[str, Any] = {}
    pinned: bool = False
    always_on: bool = False
    excluded: str = ""
    why: str = ""
    hash: str = ""
    normalized_hash: str = ""

    def __post_init__(self) -> None:
        _normalize_strings(self)
        if (self.pinned, self.always_on, self.excluded, self.why) != _USUAL_TREATMENT:
            _normalize_treatment(self)
        if type(self.tokens) is not Count:
            raise InvalidPackage("tokens", f"must be a Count, not {preview(self.tokens)}")
        if type(self.flex) is not Flex:
            raise InvalidPackage("flex", f"must be a Flex, not {preview(self.flex)}")
        validation.require_position(self.position)
        # Looked at here, because a call for each field of thousands of packages takes longer than all of the checks.
        if not validation.is_fraction(self.importance):
            validation.normalize_field(self, "importance", validation.require_fraction, "")
        if self.relevance is not None and not validation.is_fraction(self.relevance):
            validation.normalize_field(self, "relevance", validation.require_fraction, "")
        if type(self.timestamp) is not float or not isfinite(self.timestamp):
            validation.normalize_field(self, "timestamp", validation.require_timestamp, "")
        if self.metadata or type(self.metadata) is not dict:
            validation.normalize_field(self, "metadata", validation.require_json_object, "")
        if not isinstance(self.content, str) or self.role == "tool" or self.kind == "tool-result":
            _check_parts(self.role, self.kind, self.content)
        if not self.hash:
            identity, normalized = content_hashes(self.content)
            msgspec.structs.force_setattr(self, "hash", identity)
            msgspec.structs.force_setattr(self, "normalized_hash", normalized)

    @property
    def text(self) -> str:
        """The text of the content, without media."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts. A string is one part."""
        return (Text(text=self.content),) if isinstance(self.content, str) else self.content


def with_content(package: ContentPackage, content: str | tuple[Part, ...], tokens: Count) -> ContentPackage:
    """Return the package with other valid content and its count. It keeps its hashes, and is not validated again."""
    changed = copy(package)
    msgspec.structs.force_setattr(changed, "content", content)
    msgspec.structs.force_setattr(changed, "tokens", tokens)
    return changed


def with_metadata(package: ContentPackage, metadata: dict[str, Any]) -> ContentPackage:
    """Return the package with more metadata, which is valid JSON data. It is not validated again."""
    changed = copy(package)
    msgspec.structs.force_setattr(changed, "metadata", {**package.metadata, **metadata})
    return changed


def with_search(
    package: ContentPackage, *, relevance: float, metadata: dict[str, Any], matches: tuple[tuple[int, int], ...] = ()
) -> ContentPackage:
    """Return the package with what search says about it. It is not validated again: there are hundreds a context."""
    changed = copy(package)
    msgspec.structs.force_setattr(changed, "relevance", relevance)
    msgspec.structs.force_setattr(changed, "metadata", {**package.metadata, **metadata})
    msgspec.structs.force_setattr(changed, "matches", matches)
    return changed


def content_hashes(content: str | tuple[Part, ...]) -> tuple[str, str]:
    """Return the hash of the content, and of its text normalized by case, Unicode form and spacing.

    The prefixes name the hash format. A very long text is not normalized, because that would block the interpreter.
    A single text part says the same as its text, so it has the same normalized hash.

    >>> content_hashes("Hello  World")[1] == content_hashes((Text(text="hello world"),))[1]
    True
    >>> content_hashes("Hello  World")[0] == content_hashes("hello world")[0]
    False
    """
    identity = content_hash(content)
    match content:
        case str(text) | (Text(text=text),):
            return identity, "n1:" + _digest(_normalize(text).encode())
        case _:
            return identity, "n1:" + _digest(msgspec.json.encode([_normalize_part(part) for part in content]))


def content_hash(content: str | tuple[Part, ...]) -> str:
    try:
        return "b2:" + _digest(content.encode() if isinstance(content, str) else msgspec.json.encode(content))
    except UnicodeEncodeError as error:
        raise InvalidPackage(
            "content", f"lone surrogate at character {error.start}; brimful.package() replaces them"
        ) from None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _normalize(text: str) -> str:
    if len(text) > MAX_NORMALIZED_LENGTH:
        return text
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def _normalize_part(part: Part) -> Part:
    return Text(text=_normalize(part.text)) if isinstance(part, Text) else part


def require_role(role: object) -> None:
    """Raise `InvalidPackage` unless the value is a role."""
    if role not in ROLES:
        raise InvalidPackage("role", f"must be one of {', '.join(ROLES)}, not {preview(role)}")


def _normalize_strings(package: ContentPackage) -> None:
    """Validate all strings. Inlined where it matters, because a context may have thousands of packages."""
    if type(package.id) is not str or not package.id or not package.id.isascii():
        validation.normalize_field(package, "id", validation.require_id, "")
    if type(package.kind) is not str or not package.kind or not package.kind.isascii():
        validation.normalize_field(package, "kind", validation.require_id, "")
    if type(package.name) is not str or not package.name.isascii():
        validation.normalize_field(package, "name", validation.require_unicode, "")
    if package.role is not None:
        require_role(package.role)
    if (package.cluster, package.group, package.hash, package.normalized_hash) != (None, None, "", ""):
        for field in ("cluster", "group", "hash", "normalized_hash"):
            if getattr(package, field) is not None:
                validation.normalize_field(package, field, validation.require_unicode, "")
    if (package.covers, package.forms, package.matches) != ((), (), ()):
        _check_covers(package.covers)
        _check_forms(package.forms)
        _check_matches(package.matches)


def _normalize_treatment(package: ContentPackage) -> None:
    for field in ("pinned", "always_on"):
        value: object = getattr(package, field)
        if type(value) is not bool:
            raise InvalidPackage(field, f"must be true or false, not {preview(value)}")
    for field in ("excluded", "why"):
        validation.normalize_field(package, field, validation.require_unicode, "")


def _normalize_call_fields(part: ToolCall | ToolResult) -> None:
    """Validate id and name. Inlined for the usual case, because every part of a history is validated every turn."""
    if type(part.id) is not str or not part.id.isascii():
        validation.normalize_field(part, "id", validation.require_unicode)
    if type(part.name) is not str or not part.name.isascii():
        validation.normalize_field(part, "name", validation.require_unicode)


def _require_arguments(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidPackage(field, f"must be a JSON string (use json.dumps), not {preview(value)}")
    return validation.require_text(field, value)


def _check_covers(covers: object) -> None:
    if not isinstance(covers, tuple):
        raise InvalidPackage("covers", f"must be a tuple of ids, not {preview(covers)}")
    for index, id in enumerate(covers):
        if type(id) is not str:
            raise InvalidPackage(f"covers[{index}]", f"must be a string, not {preview(id)}")
        validation.require_id(f"covers[{index}]", id)


def _check_forms(forms: object) -> None:
    if not isinstance(forms, tuple) or not all(isinstance(form, Form) for form in forms):
        raise InvalidPackage("forms", f"must be a tuple of Form, not {preview(forms)}")
    for form in forms:
        validation.require_unicode("forms.text", form.text)


def _check_matches(matches: object) -> None:
    if not isinstance(matches, tuple) or not all(map(_is_span, matches)):
        raise InvalidPackage("matches", f"must be a tuple of (start, stop), not {preview(matches)}")


def _is_span(value: object) -> bool:
    match value:
        case (int() as start, int() as stop):
            return 0 <= start < stop
        case _:
            return False


def _check_parts(role: Role | None, kind: str, content: str | tuple[Part, ...]) -> None:
    """Validate parts, and that tool parts come with the right role."""
    parts = () if isinstance(content, str) else content
    if not isinstance(parts, tuple) or not all(isinstance(part, Part) for part in parts):
        raise InvalidPackage("content", f"must be a string or a tuple of parts, not {preview(content)}")
    _check_tool_parts(role, kind, parts)


def _check_tool_parts(role: Role | None, kind: str, parts: tuple[Part, ...]) -> None:
    answers = role == "tool" or kind == "tool-result"
    calls = any(isinstance(part, ToolCall) for part in parts)
    # Media belong to the result before them, so before the first result they would belong to none.
    if answers and (calls or not isinstance(next(iter(parts), None), ToolResult)):
        raise InvalidPackage("content", "a tool message contains tool results, each followed by its media")
    if any(isinstance(part, ToolResult) for part in parts) and not answers:
        raise InvalidPackage("role", f"tool results need the role 'tool', not {role!r}")
    if calls and role != "assistant" and kind != "tool-call":
        raise InvalidPackage("role", f"tool calls need the role 'assistant', not {role!r}")


def group_tool_results(parts: Iterable[Part]) -> list[tuple[ToolResult, tuple[Part, ...]]]:
    """Return the results in a tool message, each with its parts: the result itself and the media after it.

    >>> from brimful.core.content import Text
    >>> one, two = ToolResult(id="a", content="1"), ToolResult(id="b", content="2")
    >>> [(result.id, len(parts)) for result, parts in group_tool_results((one, Text(text="[image]"), two))]
    [('a', 2), ('b', 1)]
    """
    answers: list[tuple[ToolResult, list[Part]]] = []
    for part in parts:
        if isinstance(part, ToolResult):
            answers.append((part, [part]))
        elif answers:
            answers[-1][1].append(part)
    return [(result, tuple(own)) for result, own in answers]
