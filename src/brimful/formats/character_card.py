"""Character cards V1, V2 and V3: JSON, or a PNG with the card in its text chunks (`ccv3` before `chara`, both base64).

A card becomes a persona with a character; its book becomes a lorebook of the persona. The card itself is stored
verbatim in the persona's metadata, so that it can be exported unchanged. See the specifications
malfoyslastname/character-card-spec-v2 and kwaroran/character-card-spec-v3.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from brimful.core.validation import decode_json
from brimful.errors import BrimfulError, DamagedFile, InvalidValue
from brimful.formats.files import Limits
from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_str, as_strs, without_empty
from brimful.formats.lorebooks import LOREBOOK_FORMATS, read_lorebook, read_lorebook_entries, write_lorebook
from brimful.formats.sillytavern_folder import (
    card_notes,
    changed_note_fields,
    character_books,
    data_folder,
    strip_original,
)
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source, room_name
from brimful.records import Lorebook, LoreEntry, Persona
from brimful.records.character import Character

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
PNG_CUT_OFF: Final = "is cut off: the chunk that ends an image is missing"
_CHUNK_HEAD: Final = struct.Struct(">I4s")
_CRC: Final = struct.Struct(">I")  # after each chunk, of its kind and its data
_TEXT_CHUNKS: Final = (b"tEXt", b"zTXt", b"iTXt")
_SKIP_BYTES: Final = 2**20  # read at once
CARD_KEY: Final = "card"
"""The key of a persona's metadata with its card."""
BOOK_KEY: Final = "book"
"""The key of a persona's metadata with the id of the lorebook that was part of its card."""
CARD_FIELDS: Final = {
    "system_prompt": "prompt",
    "description": "description",
    "personality": "personality",
    "scenario": "scenario",
    "mes_example": "examples",
    "first_mes": "greeting",
}
"""Fields of a card, and the fields of a character that they become."""
GREETINGS_FIELD: Final = "alternate_greetings"
NICKNAME_FIELD: Final = "nickname"  # V3: the name that `{{char}}` stands for
_CARD_KEYWORDS: Final = ("ccv3", "chara")
_SPECS: Final = ("chara_card_v2", "chara_card_v3")
_V1_FIELDS: Final = {"name", "description", "first_mes", "mes_example"}
V3_SPEC: Final = {"spec": "chara_card_v3", "spec_version": "3.0"}
_EMPTY_CARD_DATA: Final = {
    "creator": "",
    "character_version": "",
    "creator_notes": "",
    "post_history_instructions": "",
    "alternate_greetings": [],
    "group_only_greetings": [],
    "tags": [],
    "extensions": {},
}
"""Required fields of a card that a persona does not have."""


def read_png_texts(stream: BinaryIO, name: str, keywords: Collection[str], limits: Limits) -> dict[str, bytes]:
    """Return the text chunks of a PNG with these keywords. The image is not decoded; `name` is for errors."""
    texts: dict[str, bytes] = {}
    max_bytes = limits.piece_bytes
    for kind, length in _chunks(stream, name, limits.png_chunks):
        if kind not in _TEXT_CHUNKS:
            _skip(stream, length)
            _skip(stream, _CRC.size)
        elif length > max_bytes:
            raise DamagedFile(name, f"contains a text of {length:,} bytes; the limit is {max_bytes:,}")
        else:
            keyword, _, rest = _read_chunk(stream, kind, length, name).partition(b"\0")
            key = keyword.decode("latin-1").lower()
            if key in keywords:
                texts.setdefault(key, _chunk_text(kind, rest, name, max_bytes))
    return texts


def _read_chunk(stream: BinaryIO, kind: bytes, length: int, name: str) -> bytes:
    """Return the data of a chunk, verified by its checksum."""
    data, crc = stream.read(length), stream.read(_CRC.size)
    if len(crc) < _CRC.size:
        raise DamagedFile(name, PNG_CUT_OFF)
    if _CRC.unpack(crc)[0] != zlib.crc32(data, zlib.crc32(kind)):
        raise DamagedFile(name, "contains a damaged text: its checksum is wrong")
    return data


def _chunks(stream: BinaryIO, name: str, max_chunks: int) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and the length of each chunk; the caller reads its data."""
    stream.read(len(PNG_SIGNATURE))
    for _ in range(max_chunks):
        head = stream.read(_CHUNK_HEAD.size)
        if len(head) < _CHUNK_HEAD.size:
            raise DamagedFile(name, PNG_CUT_OFF)
        length, kind = _CHUNK_HEAD.unpack(head)
        if kind == b"IEND":
            return
        yield kind, length
    raise DamagedFile(name, f"has more than {max_chunks:,} chunks, like no real image")


def _skip(stream: BinaryIO, length: int) -> None:
    while length > 0 and (skipped := len(stream.read(min(length, _SKIP_BYTES)))):
        length -= skipped


def _chunk_text(kind: bytes, rest: bytes, name: str, max_bytes: int) -> bytes:
    """Return the text that follows the keyword of a chunk."""
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return _decompress(rest[1:], name, max_bytes)
    compressed = rest[:1] == b"\1"
    _, _, text = rest[2:].partition(b"\0")  # after the language …
    _, _, text = text.partition(b"\0")  # … and the translated keyword
    return _decompress(text, name, max_bytes) if compressed else text


def _decompress(data: bytes, name: str, max_bytes: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(data, max_bytes)
    except zlib.error as error:
        raise DamagedFile(name, f"contains a damaged text ({error})") from None
    if reader.unconsumed_tail:
        raise DamagedFile(name, f"contains a text that expands beyond {max_bytes:,} bytes, like a zip bomb")
    return text


def recognizes(source: Source) -> bool:
    """Return whether a file is a PNG, or JSON with the fields of a card."""
    if source.head.startswith(PNG_SIGNATURE):
        return True
    keys = source.keys
    return source.head.lstrip().startswith(b"{") and (keys >= _V1_FIELDS or ("spec" in keys and _has_spec(source)))


def _has_spec(source: Source) -> bool:
    return any(spec.encode() in source.outline for spec in _SPECS)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield a persona, and its lorebook with all entries."""
    try:
        entry = _read_png(source) if source.head.startswith(PNG_SIGNATURE) else source.whole()
        if isinstance(entry, Skipped):
            yield entry
        else:
            yield from list(_read_records(source, entry))  # all of a card, or nothing
    except BrimfulError as error:
        reason = error.reason if isinstance(error, InvalidValue) else str(error)
        yield Skipped(source.name, reason, damaged=isinstance(error, DamagedFile))


def _read_png(source: Source) -> Entry | Skipped:
    texts = read_png_texts(source.stream(), source.name, _CARD_KEYWORDS, source.limits)
    reason = ""
    for keyword in _CARD_KEYWORDS:
        if keyword in texts:
            try:
                return Entry(source.name, decode_json(_decode_chunk(texts[keyword])), 1)
            except ValueError as error:
                reason = f"contains a damaged card: {error}"
    return Skipped(source.name, reason or "is an image without a character card", damaged=bool(reason))


def _decode_chunk(data: bytes) -> bytes:
    """Return the JSON of a chunk, which is usually base64."""
    if data.lstrip().startswith(b"{"):
        return data
    try:
        return base64.b64decode(data)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _read_records(source: Source, entry: Entry) -> Iterator[ImportedRecord]:
    card = as_dict(entry.data)
    data = card_data(card)
    name = card_name(card)
    if not name and not as_str(data.get("description")):
        raise InvalidValue(source.name, "is not a character card: it has neither a name nor a description")
    persona = persona_id(source, name)
    linked = character_books(source, persona, as_str(as_dict(data.get("extensions")).get("world")))
    book = as_dict(data.get("character_book"))
    own = join_id(persona, "book")
    if book:
        yield read_lorebook(book, own, name)
        yield from read_lorebook_entries(book, own)
    yield Persona(
        id=persona,
        name=name,
        character=read_character(data),
        lorebooks=tuple(dict.fromkeys(linked or ([own] if book else []))),
        notes=card_notes(data),
        metadata={
            CARD_KEY: _without_book(card),
            **({BOOK_KEY: own} if book else {}),
            **without_empty(creator_notes=as_str(data.get("creator_notes")), tags=as_strs(data.get("tags"))),
        },
    )


def _without_book(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card without its book, which becomes a lorebook."""
    data = {key: value for key, value in card_data(card).items() if key != "character_book" or not as_dict(value)}
    return {**card, "data": data} if as_dict(card.get("data")) else data


def card_data(card: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the character: V1 has them at the top level, V2 and V3 under `data`."""
    return as_dict(card.get("data")) or card


def card_name(card: dict[str, Any]) -> str:
    """Return the name of the character; empty if it has none."""
    return as_str(card_data(card).get("name")) or as_str(card.get("name"))


def read_character(data: dict[str, Any]) -> Character:
    fields = {field: as_str(data.get(card_field)) for card_field, field in CARD_FIELDS.items()}
    fields["prompt"] = strip_original(fields["prompt"])
    return Character(
        **fields, nickname=as_str(data.get(NICKNAME_FIELD)), greetings=tuple(as_strs(data.get(GREETINGS_FIELD)))
    )


def persona_id(source: Source, name: str) -> str:
    """Return the id of a persona: the file name in SillyTavern's folder, elsewhere the character's name."""
    stem = room_name(source.name)
    return join_id(stem if data_folder(source) or not name else name)


FORMAT: Final = Format(
    name="card",
    description="character cards V1 to V3: PNG, JSON or .charx; their books become lorebooks",
    recognizes=recognizes,
    read=read,
)


def write_card(persona: Persona, book: Lorebook | None = None, entries: Sequence[LoreEntry] = ()) -> dict[str, Any]:
    """Return the card of a persona: the one it was imported from with all later changes, or a new one (V3).

    >>> write_card(Persona(id="nova", name="Nova", prompt="You are Nova."))["data"]["system_prompt"]
    'You are Nova.'
    """
    card = as_dict(persona.metadata.get(CARD_KEY)) or {**V3_SPEC, "data": dict(_EMPTY_CARD_DATA)}
    changed = _changed_fields(persona, card_data(card), card_name(card), new=CARD_KEY not in persona.metadata)
    if book is not None and (card_book := _card_book(card, persona, book, entries)) is not None:
        changed["character_book"] = card_book
    top = {field: value for field, value in changed.items() if field in card}  # V2 cards may repeat V1 fields
    return {**card, **top, "data": {**card["data"], **changed}} if as_dict(card.get("data")) else {**card, **changed}


def _changed_fields(persona: Persona, data: dict[str, Any], name: str, *, new: bool) -> dict[str, Any]:
    """Return the fields that differ from the card."""
    was, now = read_character(data), persona.character or Character()
    if persona.prompt:
        now = msgspec.structs.replace(now, prompt=persona.prompt)
    fields: dict[str, Any] = {
        card_field: getattr(now, field)
        for card_field, field in CARD_FIELDS.items()
        if new or getattr(now, field) != getattr(was, field)
    }
    named = {"name": persona.called} if new or persona.name != name else {}
    if now.greetings != was.greetings:
        fields[GREETINGS_FIELD] = list(now.greetings)
    if now.nickname != was.nickname:
        fields[NICKNAME_FIELD] = now.nickname
    return {**named, **fields, **changed_note_fields(data, persona.notes)}


def _card_book(
    card: dict[str, Any], persona: Persona, book: Lorebook, entries: Sequence[LoreEntry]
) -> dict[str, Any] | None:
    """Return a lorebook as part of a card: in its original format if it was imported with the card."""
    original = next((format for format in LOREBOOK_FORMATS if format in book.settings), None)
    if original and persona.metadata.get(BOOK_KEY) == book.id:
        return write_lorebook(book, entries, original)
    if not as_dict(card.get("data")):
        return None  # V1 cards have no lorebook
    if card.get("spec") == "chara_card_v2":
        return write_lorebook(book, entries, "v2")
    return as_dict(write_lorebook(book, entries, "v3").get("data"))  # without the wrapper of standalone books


def card_lorebook_id(persona: Persona) -> str | None:
    """Return the id of the lorebook to export with a persona's card.

    An imported card gets the one it had, if any; a new card gets the persona's first.
    """
    own = persona.metadata.get(BOOK_KEY)
    if isinstance(own, str):
        return own
    return None if CARD_KEY in persona.metadata else next(iter(persona.lorebooks), None)
