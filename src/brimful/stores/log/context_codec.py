"""Encode a context without its contents, and decode it again.

The contents of packages, and the strings of the request, are stored once and referenced from the context; so are its
policy, model and tools, which many contexts share. This keeps contexts small, and erasing a content erases it from
past contexts too. Candidates and decisions are packed by column, and what follows from another value is left out.
"""

import copy
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text, ToolCall, ToolResult
from brimful.core.context import RECALLED_SUFFIX, Context
from brimful.core.decision import Decision, Score, make_scorer
from brimful.core.frame import part_text
from brimful.errors import InvalidRecord
from brimful.records import Content
from brimful.stores.log.columns import Column, pack, pack_fields, unpack, unpack_rows
from brimful.stores.tables.contents import hash_content

_VERSION: Final = b"\2"
_LEVEL: Final = 3  # of compression; 6 takes twice as long for 5 % less
_MARK: Final = "\0"  # starts a reference to a string that is stored in pieces
_MIN_LENGTH: Final = 8  # characters of a content that is searched within other strings
_EMPTY_TEXT: Final = Text(text="")
_NO_ARGUMENTS: Final = "{}"
_SHARED: Final = ("policy", "model", "tools")
_HASHES: Final = ("hash", "normalized_hash")
_LENGTH_BYTES: Final = 4
_INTEGER: Final = 1  # the extension type of an integer with more bits than MessagePack has
_INTEGER_BITS: Final = 64
_UNKNOWN: Final = "-"  # the hash of a package before its content is known

S = TypeVar("S", bound=msgspec.Struct)

Piece = str | tuple[int, int]
"""A string, or a reference: the index of a package, and the index of one of its strings."""
Pieces = int | tuple[Piece, ...]
"""The pieces of a string. A number is the index of a package, of which it is the first string."""
NO_ADDRESSES: Final = b"[]"
"""The addresses of a context that was not recorded: it has no contents."""
NO_BODY: Final = b"-"  # of such a context; not empty, since key rotation compares the first bytes
Name = int | str
"""The id of a candidate. A number stands for a message of the room: twice its `seq`, and one more if it is recalled."""


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The ids of all candidates, packages first, and the decisions without their scores. An id is an index here."""

    names: Column
    packages: int
    decisions: int
    columns: dict[str, Column]


class _Rest(msgspec.Struct, frozen=True, array_like=True):
    """All other fields. `hashes` are those that do not follow from the content, by position.

    `scores` are True if they can be computed again: by the weights of the policy, and with `needs` as relevance.
    """

    context: dict[str, Any]
    inputs: dict[str, Any]
    packages: dict[str, Column]
    hashes: dict[int, tuple[str, str]]
    scores: Column
    needs: Column
    request: Any
    texts: Column
    loose: tuple[int, ...]


def _get_defaults(kind: type[msgspec.Struct], without: Collection[str]) -> dict[str, object]:
    return {field.name: field.default for field in msgspec.structs.fields(kind) if field.name not in without}


_PACKAGE_DEFAULTS: Final = _get_defaults(ContentPackage, ("id", *_HASHES))
_DECISION_DEFAULTS: Final = _get_defaults(Decision, ("score",))
_HEAD_DECODER: Final = msgspec.msgpack.Decoder(_Head)
_REST_DECODER: Final = msgspec.msgpack.Decoder(
    _Rest, ext_hook=lambda _code, data: int.from_bytes(data, "big", signed=True)
)


def shared_inputs(context: Context) -> str:
    """Return what many contexts have in common, as JSON: stored as one content."""
    return msgspec.json.encode([getattr(context.inputs, field) for field in _SHARED]).decode()


def candidate_names(context: Context) -> list[str]:
    """Return the ids of all candidates of a context, packages first."""
    packages = [package.id for package in context.inputs.packages]
    known = set(packages)
    return [*packages, *dict.fromkeys(each.id for each in context.decisions if each.id not in known)]


def encode_context(
    context: Context, names: Sequence[str], seqs: Mapping[str, int], hashes: Sequence[tuple[str, str]]
) -> bytes:
    """Encode a context without its contents.

    `names` are its candidates, `seqs` maps messages of its room to their numbers, and `hashes` are its contents'
    hashes.
    """
    packages = context.inputs.packages
    included = {decision.id for decision in context.decisions if decision.included}
    positions = [i for i, package in enumerate(packages) if package.id in included]
    pieces = _RequestEncoder(packages, positions)
    request = pieces.replace(context.request)
    scores, needs = _shorten_scores(context)
    rest = _Rest(
        context=_fields(context, ("inputs", "decisions", "request")),
        inputs=_fields(context.inputs, ("packages", *_SHARED)),
        packages=pack_fields(
            packages, _PACKAGE_DEFAULTS, content=[_empty_content(package.content) for package in packages]
        ),
        hashes={
            i: (package.hash, package.normalized_hash)
            for i, (package, known) in enumerate(zip(packages, hashes, strict=True))
            if (package.hash, package.normalized_hash) != known
        },
        scores=pack(scores),
        needs=pack(needs),
        request=request,
        texts=pack(pieces.texts),
        loose=tuple(i for i in positions if i not in pieces.met),
    )
    return _join(_encode_head(context, names, seqs), rest)


def decode_context(
    body: bytes, addresses: Sequence[str], contents: Mapping[str, Content], ids: Mapping[int, str]
) -> Context:
    """Decode a context. Contents that are missing are empty. `ids` are the messages of its room by `seq`."""
    head, rest = _read(body)
    *of_packages, shared = addresses
    names = [resolve_name(name, ids) for name in unpack(head.names)]
    context = _make_context(head, rest, names, contents.get(shared))
    _restore_scores(context, rest)
    for index, (package, address) in enumerate(zip(context.inputs.packages, of_packages, strict=True)):
        content = contents.get(address)
        hashes = rest.hashes.get(index) or ((address, address) if content is None else hash_content(content))
        if content is not None:
            msgspec.structs.force_setattr(package, "content", content)
        for field, hash in zip(_HASHES, hashes, strict=True):
            msgspec.structs.force_setattr(package, field, hash)
    erased = any(addresses[i] not in contents for i in rest.loose)
    request = {} if erased else _decode_request(context, rest.request, unpack(rest.texts))
    msgspec.structs.force_setattr(context, "request", request)
    return context


def read_names(body: bytes) -> list[Name]:
    """Return the ids of all candidates, packages first."""
    return unpack(_read_head(body).names)


def read_decisions(body: bytes) -> list[dict[str, Any]]:
    """Return the fields of all decisions, but for scores. An `id` is an index in the names."""
    return _unpack_decisions(_read_head(body))


def read_relevance(body: bytes) -> list[float | None]:
    """Return the relevance of each package, in the order of the names."""
    head, rest = _read(body)
    return [each.get("relevance") for each in unpack_rows(rest.packages, head.packages)]


def without_request(body: bytes, positions: Collection[int]) -> bytes | None:
    """Return a context without its request, if that may contain one of these packages in another form; else None."""
    head, rest = _read(body)
    bare = msgspec.structs.replace(rest, request={}, texts=pack([]), loose=())
    return _join(head, bare) if set(rest.loose) & set(positions) else None


def encode_addresses(addresses: Sequence[str]) -> bytes:
    """Encode the addresses of contents: hashes of one length, and what they start with.

    >>> [decode_addresses(encode_addresses(each)) for each in (["b2:00ff", "p:b2:1234"], ["tea", "k1:00"])]
    [['b2:00ff', 'p:b2:1234'], ['tea', 'k1:00']]
    """
    if not addresses:
        return NO_ADDRESSES
    starts = [address[: address.rfind(":") + 1] for address in addresses]
    hashes = [address[len(start) :] for address, start in zip(addresses, starts, strict=True)]
    joined = _unhex("".join(hashes)) if len(set(map(len, hashes))) == 1 else b""
    runs = [(start, len(list(run))) for start, run in groupby(starts if joined else addresses)]
    return _VERSION + msgspec.msgpack.encode([runs, joined])


def _unhex(text: str) -> bytes:
    """Return the bytes of lower-case hexadecimal digits, or nothing if there are other characters."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return b""
    return data if data.hex() == text else b""


def decode_addresses(refs: bytes) -> list[str]:
    if refs == NO_ADDRESSES:
        return []
    runs, hashes = msgspec.msgpack.decode(refs[len(_VERSION) :], type=tuple[list[tuple[str, int]], bytes])
    starts = [start for start, count in runs for _ in range(count)]
    size = len(hashes) // len(starts)
    return [start + hashes[i * size : (i + 1) * size].hex() for i, start in enumerate(starts)]


def package_addresses(refs: bytes) -> list[str]:
    """Return the addresses of packages alone, without that of what contexts share."""
    return decode_addresses(refs)[:-1]


def replace_addresses(refs: bytes, moved: Mapping[str, str]) -> bytes:
    """Return references in which these addresses are replaced."""
    return encode_addresses([moved.get(address, address) for address in decode_addresses(refs)])


def content_strings(content: Content) -> list[str]:
    """Return the strings of a content that may occur in a request."""
    return [content] if isinstance(content, str) else [part_text(part) for part in content]


class _RequestEncoder:
    """Replaces contents in a request by references. `met` are the packages that were found."""

    def __init__(self, packages: Sequence[ContentPackage], positions: Sequence[int]) -> None:
        self.texts: list[Pieces] = []
        self.met: set[int] = set()
        self._marks: dict[str, str] = {}
        self._known: dict[str, tuple[int, int]] = {}
        for index in positions:
            content = packages[index].content
            for number, text in enumerate((content,) if isinstance(content, str) else content_strings(content)):
                if text:
                    self._known.setdefault(text, (index, number))
        self._searched = [text for text in self._known if len(text) >= _MIN_LENGTH]

    def replace(self, value: Any) -> Any:
        """Return JSON data in which strings with contents are replaced by references."""
        if isinstance(value, dict):
            marks = self._marks
            return {
                key: (marks.get(item) or self._reference(item)) if type(item) is str else self.replace(item)
                for key, item in value.items()
            }
        if isinstance(value, str):
            return self._marks.get(value) or self._reference(value)
        if isinstance(value, list | tuple):
            return [self.replace(item) for item in value]
        return value

    def _reference(self, text: str) -> str:
        """Return the reference of a string. Results are cached, because roles, names and ids repeat."""
        pieces = self._split(text)
        if pieces == (text,) and not text.startswith(_MARK):
            self._marks[text] = text
            return text
        self._marks[text] = f"{_MARK}{len(self.texts)}"
        match pieces:
            case ((int() as index, 0),):
                self.texts.append(index)
            case _:
                self.texts.append(pieces)
        return _MARK  # the next text

    def _split(self, text: str) -> tuple[Piece, ...]:
        position = self._known.get(text)
        if position is not None:
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
        """Return the positions of contents in a string; of several at one position, the longest first.

        Most contents follow each other in the order of their packages, so each is searched after the last one first.
        """
        found, end = [], 0
        for known in self._searched:
            index = text.find(known, end)
            index = text.find(known, 0, end + len(known) - 1) if index < 0 < end else index
            if index >= 0 and len(known) < len(text):
                found.append((index, known))
                end = index + len(known)
        return sorted(found, key=lambda each: (each[0], -len(each[1])))


def _fields(value: msgspec.Struct, without: Collection[str]) -> dict[str, Any]:
    return {field: getattr(value, field) for field in value.__struct_fields__ if field not in without}


def _encode_head(context: Context, names: Sequence[str], seqs: Mapping[str, int]) -> _Head:
    index = {name: i for i, name in enumerate(names)}
    decisions = context.decisions
    return _Head(
        names=pack([_shorten_name(name, seqs) for name in names]),
        packages=len(context.inputs.packages),
        decisions=len(decisions),
        columns=pack_fields(
            decisions,
            _DECISION_DEFAULTS,
            id=[index[decision.id] for decision in decisions],
            cost=[decision.cost - decision.tokens for decision in decisions],  # most have the same difference
        ),
    )


def _unpack_decisions(head: _Head) -> list[dict[str, Any]]:
    decisions = unpack_rows(head.columns, head.decisions)
    for decision in decisions:
        decision["cost"] += decision["tokens"]
    return decisions


def _shorten_name(name: str, seqs: Mapping[str, int]) -> Name:
    if (seq := seqs.get(name)) is not None:
        return 2 * seq
    recalled = seqs.get(name.removesuffix(RECALLED_SUFFIX)) if name.endswith(RECALLED_SUFFIX) else None
    return name if recalled is None else 2 * recalled + 1


def resolve_name(name: Name, ids: Mapping[int, str]) -> str:
    """Return the id of a candidate. `ids` are the messages of its room by `seq`.

    >>> resolve_name(14, {7: "m7"}), resolve_name(15, {7: "m7"}), resolve_name("tea", {})
    ('m7', 'm7/recalled', 'tea')
    """
    if isinstance(name, str):
        return name
    seq, recalled = divmod(name, 2)
    if seq not in ids:
        raise InvalidRecord("context", f"its record is damaged: message {seq} of its room is gone")
    return ids[seq] + RECALLED_SUFFIX if recalled else ids[seq]


def _make_context(head: _Head, rest: _Rest, names: Sequence[str], shared: Content | None) -> Context:
    if not isinstance(shared, str):
        raise InvalidRecord("context", "its record is damaged: its policy is gone")
    common = dict(zip(_SHARED, msgspec.json.decode(shared), strict=True))
    packages = unpack_rows(rest.packages, head.packages)
    for package, id in zip(packages, names, strict=False):
        package.update(id=id, hash=_UNKNOWN, normalized_hash=_UNKNOWN)
    decisions = _unpack_decisions(head)
    for decision in decisions:
        decision["id"] = names[decision["id"]]
    inputs = {**rest.inputs, **common, "packages": packages}
    return msgspec.convert({**rest.context, "inputs": inputs, "decisions": decisions, "request": {}}, Context)


def _shorten_scores(context: Context) -> tuple[list[Score | bool | None], list[float | None]]:
    """Return the score of each decision, or True if it can be computed again, and the relevance that this takes."""
    without_relevance = {package.id for package in context.inputs.packages if package.relevance is None}
    needs = [
        each.score.relevance if each.score and each.id in without_relevance else None for each in context.decisions
    ]
    scores = zip(context.decisions, _compute_scores(context, needs), strict=True)
    return [True if decision.score == computed else decision.score for decision, computed in scores], needs


def _restore_scores(context: Context, rest: _Rest) -> None:
    computed = _compute_scores(context, unpack(rest.needs))
    for decision, stored, score in zip(context.decisions, unpack(rest.scores), computed, strict=True):
        own = score if stored is True else stored and msgspec.convert(stored, Score)
        msgspec.structs.force_setattr(decision, "score", own)


def _compute_scores(context: Context, needs: Sequence[float | None]) -> list[Score | None]:
    known = {each.id: need for each, need in zip(context.decisions, needs, strict=True) if need is not None}
    score = make_scorer(context.inputs.policy.weights, context.inputs.now, known)
    packages = {package.id: package for package in context.inputs.packages}
    return [score(packages[each.id]) if each.id in packages else None for each in context.decisions]


def _decode_request(context: Context, request: Any, texts: Sequence[Pieces]) -> Any:
    """Return a request with its strings. A mark alone is the next string, one with a number is that string again."""
    strings = [content_strings(package.content) for package in context.inputs.packages]
    written = [
        strings[pieces][0]
        if isinstance(pieces, int)
        else "".join(piece if isinstance(piece, str) else strings[piece[0]][piece[1]] for piece in pieces)
        for pieces in texts
    ]
    following = iter(written)

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            if not value.startswith(_MARK):
                return value
            return next(following) if value == _MARK else written[int(value[1:])]
        if isinstance(value, dict):
            return {key: whole(item) for key, item in value.items()}
        if isinstance(value, list):
            return [whole(item) for item in value]
        return value

    return whole(request)


def _empty_content(content: Content) -> Content:
    return "" if isinstance(content, str) else tuple([_empty_part(part) for part in content])


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


def _join(head: _Head, rest: _Rest) -> bytes:
    first = zlib.compress(msgspec.msgpack.encode(head), _LEVEL)
    second = zlib.compress(_encode_rest(rest), _LEVEL)
    return b"".join((_VERSION, len(first).to_bytes(_LENGTH_BYTES, "big"), first, second))


def _encode_rest(rest: _Rest) -> bytes:
    try:
        return msgspec.msgpack.encode(rest)
    except OverflowError:  # a client may send any integer, but MessagePack has none of more than 64 bits
        return msgspec.msgpack.encode(_wrap_integers(msgspec.to_builtins(rest, builtin_types=(bytes,))))


def _wrap_integers(value: Any) -> Any:
    match value:
        case dict():
            return {key: _wrap_integers(each) for key, each in value.items()}
        case list() | tuple():
            return [_wrap_integers(each) for each in value]
        case int() if value.bit_length() >= _INTEGER_BITS:
            size = value.bit_length() // 8 + 1
            return msgspec.msgpack.Ext(_INTEGER, value.to_bytes(size, "big", signed=True))
    return value


def _read_head(body: bytes) -> _Head:
    return _unzip(_HEAD_DECODER, _split(body)[0])


def _read(body: bytes) -> tuple[_Head, _Rest]:
    first, second = _split(body)
    return _unzip(_HEAD_DECODER, first), _unzip(_REST_DECODER, second)


def _split(body: bytes) -> tuple[bytes, bytes]:
    start = len(_VERSION) + _LENGTH_BYTES
    end = start + int.from_bytes(body[len(_VERSION) : start], "big")
    return body[start:end], body[end:]


def _unzip(decoder: msgspec.msgpack.Decoder[S], data: bytes) -> S:
    try:
        return decoder.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise InvalidRecord("context", f"its record is damaged: {error}") from None
