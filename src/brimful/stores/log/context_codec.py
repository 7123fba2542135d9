"""Encode a context without its contents, and decode it again.

The contents of packages, and the strings of the request, are stored once and referenced from the context. This keeps
contexts small, and erasing a content erases it from past contexts too.
"""

import copy
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text, ToolCall, ToolResult
from brimful.core.context import Context
from brimful.core.frame import part_text
from brimful.errors import InvalidRecord
from brimful.records import Content

_MARK: Final = "\0"  # starts a reference to a string that is stored in pieces
_MIN_LENGTH: Final = 8  # characters of a content that is searched within other strings
_EMPTY_TEXT: Final = Text(text="")
_NO_ARGUMENTS: Final = "{}"

S = TypeVar("S", bound=msgspec.Struct)

Piece = str | tuple[int, int]
"""A string, or a reference: the index of a package, and the index of one of its strings."""


class EncodedContext(msgspec.Struct, frozen=True, array_like=True):
    """An encoded context. `loose` are packages whose content may be in the request in another form."""

    context: msgspec.Raw
    request: Any
    texts: tuple[tuple[Piece, ...], ...]
    loose: tuple[int, ...]


_DECODER: Final = msgspec.json.Decoder(EncodedContext)


def encode_context(context: Context) -> tuple[bytes, list[Content]]:
    """Encode a context without its contents, and return the contents in the order of its packages."""
    packages = context.inputs.packages
    included = {decision.id for decision in context.decisions if decision.included}
    positions = [at for at, package in enumerate(packages) if package.id in included]
    pieces = _RequestEncoder(packages, positions)
    request = pieces.replace(context.request)
    bare = copy.copy(context.inputs)
    msgspec.structs.force_setattr(bare, "packages", tuple([_empty_package(package) for package in packages]))
    shell = copy.copy(context)
    msgspec.structs.force_setattr(shell, "inputs", bare)
    msgspec.structs.force_setattr(shell, "request", {})
    encoded = EncodedContext(
        msgspec.Raw(msgspec.json.encode(shell)),
        request,
        tuple(pieces.texts),
        tuple(at for at in positions if at not in pieces.met),
    )
    return _compress(encoded), [package.content for package in packages]


def decode_context(body: bytes, addresses: Sequence[str], contents: Mapping[str, Content]) -> Context:
    """Decode a context. Contents that are missing are empty."""
    encoded = _decompress(body)
    context = Context.from_json(bytes(encoded.context))
    for package, address in zip(context.inputs.packages, addresses, strict=True):
        if address in contents:
            msgspec.structs.force_setattr(package, "content", contents[address])
    erased = any(addresses[at] not in contents for at in encoded.loose)
    texts = [content_strings(package.content) for package in context.inputs.packages]
    msgspec.structs.force_setattr(context, "request", {} if erased else _decode_request(encoded, texts))
    return context


def package_positions(body: bytes, ids: Collection[str]) -> list[int]:
    """Return the positions of all packages with these ids."""
    context = Context.from_json(bytes(_decompress(body).context))
    return [at for at, package in enumerate(context.inputs.packages) if package.id in ids]


def without_request(body: bytes, positions: Sequence[int]) -> bytes | None:
    """Return a context without its request, if that may contain one of these packages in another form; else None."""
    encoded = _decompress(body)
    if not set(encoded.loose) & set(positions):
        return None
    return _compress(msgspec.structs.replace(encoded, request={}, texts=(), loose=()))


def content_strings(content: Content) -> list[str]:
    """Return the strings of a content that may occur in a request."""
    return [content] if isinstance(content, str) else [part_text(part) for part in content]


class _RequestEncoder:
    """Replaces contents in a request by references. `met` are the packages that were found."""

    def __init__(self, packages: Sequence[ContentPackage], positions: Sequence[int]) -> None:
        self.texts: list[tuple[Piece, ...]] = []
        self.met: set[int] = set()
        self._marks: dict[str, str] = {}
        self._known: dict[str, tuple[int, int]] = {}
        for at in positions:
            for number, text in enumerate(content_strings(packages[at].content)):
                if text:
                    self._known.setdefault(text, (at, number))
        self._by_length = sorted((text for text in self._known if len(text) >= _MIN_LENGTH), key=len)
        self._lengths = list(map(len, self._by_length))

    def replace(self, value: Any) -> Any:
        """Return JSON data in which strings with contents are replaced by references."""
        if isinstance(value, str):
            mark = self._marks.get(value)
            return self._reference(value) if mark is None else mark
        if isinstance(value, dict):
            marks = self._marks
            return {
                key: marks[item] if type(item) is str and item in marks else self.replace(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.replace(item) for item in value]
        return value

    def _reference(self, text: str) -> str:
        """Return the reference of a string. Results are cached, because roles, names and ids repeat."""
        pieces = self._split(text)
        if pieces == (text,) and not text.startswith(_MARK):
            mark = text
        else:
            self.texts.append(pieces)
            mark = f"{_MARK}{len(self.texts) - 1}"
        self._marks[text] = mark
        return mark

    def _split(self, text: str) -> tuple[Piece, ...]:
        if text in self._known:
            position = self._known[text]
            self.met.add(position[0])
            return (position,)
        return tuple(self._cut(text)) if len(text) > _MIN_LENGTH else (text,)

    def _cut(self, text: str) -> Iterator[Piece]:
        """Split a string into contents, from the left, and the text between them."""
        end = 0
        for start, known in self._find_contents(text):
            if start < end:
                continue
            if start > end:
                yield text[end:start]
            self.met.add(self._known[known][0])
            yield self._known[known]
            end = start + len(known)
        if end < len(text):
            yield text[end:]

    def _find_contents(self, text: str) -> list[tuple[int, str]]:
        """Return the positions of contents in a string; of several at one position, the longest first."""
        shorter = self._by_length[: bisect_left(self._lengths, len(text))]
        found = ((text.find(known), known) for known in shorter)
        return sorted(((at, known) for at, known in found if at >= 0), key=lambda each: (each[0], -len(each[1])))


def _decode_request(encoded: EncodedContext, texts: Sequence[Sequence[str]]) -> Any:
    written = ["".join(_decode_piece(piece, texts) for piece in pieces) for pieces in encoded.texts]

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            return written[int(value[1:])] if value.startswith(_MARK) else value
        if isinstance(value, dict):
            return {key: whole(item) for key, item in value.items()}
        if isinstance(value, list):
            return [whole(item) for item in value]
        return value

    return whole(encoded.request)


def _decode_piece(piece: Piece, texts: Sequence[Sequence[str]]) -> str:
    return piece if isinstance(piece, str) else texts[piece[0]][piece[1]]


def _empty_package(package: ContentPackage) -> ContentPackage:
    content = "" if isinstance(package.content, str) else tuple([_empty_part(part) for part in package.content])
    return _with(package, "content", content)


def _empty_part(part: Part) -> Part:
    """Return an empty part of the same type, so that a context with erased contents is still valid."""
    match part:
        case Text():
            return _EMPTY_TEXT
        case Media():
            return Media(modality=part.modality, url="about:blank", width=part.width, height=part.height)
        case ToolCall():
            return _with(part, "arguments", _NO_ARGUMENTS)
        case ToolResult():
            return _with(part, "content", "")


def _with(value: S, field: str, content: object) -> S:
    """Return a copy with another content, without validating it again."""
    bare = copy.copy(value)
    msgspec.structs.force_setattr(bare, field, content)
    return bare


def _compress(encoded: EncodedContext) -> bytes:
    return zlib.compress(msgspec.json.encode(encoded), 1)


def _decompress(body: bytes) -> EncodedContext:
    try:
        return _DECODER.decode(zlib.decompress(body))
    except (zlib.error, msgspec.DecodeError) as error:
        raise InvalidRecord("context", f"its record is damaged: {error}") from None
