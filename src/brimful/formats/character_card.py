"""Character cards V1, V2 and V3: JSON, or a PNG with the card in its text chunks (`ccv3` before `chara`, both base64).

A card becomes a persona with a character; its book becomes a lorebook of the persona. The card itself is stored
verbatim in the persona's metadata, so that it can be exported unchanged. See the specifications
malfoyslastname/character-card-spec-v2 and kwaroran/character-card-spec-v3.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from brimful.core.decode import decode_json
from brimful.errors import BrimfulError, DamagedFile, InvalidValue
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
from brimful.formats.source import MAX_PIECE_BYTES, Entry, Format, ImportedRecord, Skipped, Source, room_name
from brimful.records import Lorebook, LoreEntry, Persona
from brimful.records.character import Character

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
PNG_CUT_OFF: Final = "is cut off: a picture ends with a chunk that says so"
MAX_PNG_CHUNKS: Final = 100_000  # a picture has a few hundred
_CHUNK_HEAD: Final = struct.Struct(">I4s")
_CRC: Final = struct.Struct(">I")  # after each chunk, of its kind and of what it holds
_TEXT_CHUNKS: Final = (b"tEXt", b"zTXt", b"iTXt")
_SKIP_BYTES: Final = 2**20  # bytes passed over at once


def read_png_texts(stream: BinaryIO, name: str, wanted: frozenset[str], most: int) -> dict[str, bytes]:
    """Return the wanted texts by their keywords; `name` is the file's, for errors, and `most` the bytes of a text."""
    found: dict[str, bytes] = {}
    for kind, length in _chunks(stream, name):
        if kind not in _TEXT_CHUNKS:
            _skip(stream, length)
            _skip(stream, _CRC.size)
        elif length > most:
            raise DamagedFile(name, f"has a text of {length:,} bytes in it, and more than {most:,} are not read")
        else:
            keyword, _, rest = _read_chunk(stream, kind, length, name).partition(b"\0")
            key = keyword.decode("latin-1").lower()
            if key in wanted:
                found.setdefault(key, _chunk_text(kind, rest, name, most))
    return found


def _read_chunk(stream: BinaryIO, kind: bytes, length: int, name: str) -> bytes:
    """Return what a chunk holds, if it is what was written there."""
    data, crc = stream.read(length), stream.read(_CRC.size)
    if len(crc) < _CRC.size:
        raise DamagedFile(name, PNG_CUT_OFF)
    if _CRC.unpack(crc)[0] != zlib.crc32(data, zlib.crc32(kind)):
        raise DamagedFile(name, "has a damaged text in it: it is not what its checksum says")
    return data


def _chunks(stream: BinaryIO, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and the length of each chunk; whoever asks reads it."""
    stream.read(len(PNG_SIGNATURE))
    for _ in range(MAX_PNG_CHUNKS):
        head = stream.read(_CHUNK_HEAD.size)
        if len(head) < _CHUNK_HEAD.size:
            raise DamagedFile(name, PNG_CUT_OFF)
        length, kind = _CHUNK_HEAD.unpack(head)
        if kind == b"IEND":
            return
        yield kind, length
    raise DamagedFile(name, f"has more than {MAX_PNG_CHUNKS:,} chunks, as no picture has")


def _skip(stream: BinaryIO, length: int) -> None:
    while length > 0 and (gone := len(stream.read(min(length, _SKIP_BYTES)))):
        length -= gone


def _chunk_text(kind: bytes, rest: bytes, name: str, most: int) -> bytes:
    """Return the text of a chunk, after its keyword."""
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return _decompress(rest[1:], name, most)
    packed = rest[:1] == b"\1"
    _, _, said = rest[2:].partition(b"\0")  # after the language …
    _, _, said = said.partition(b"\0")  # … and the keyword in it
    return _decompress(said, name, most) if packed else said


def _decompress(data: bytes, name: str, most: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(data, most)
    except zlib.error as error:
        raise DamagedFile(name, f"has a damaged text in it ({error})") from None
    if reader.unconsumed_tail:
        raise DamagedFile(name, f"has a text in it that inflates beyond {most:,} bytes, as only a bomb does")
    return text


CARD_KEY: Final = "card"
"""Under which key of a persona's metadata its card is kept."""
BOOK_KEY: Final = "book"
"""Under which key it says which lorebook came with the card."""
CARD_FIELDS: Final = {
    "system_prompt": "prompt",
    "description": "description",
    "personality": "personality",
    "scenario": "scenario",
    "mes_example": "examples",
    "first_mes": "greeting",
}
"""What fields of a card are called in a character of ours."""
GREETINGS_FIELD: Final = "alternate_greetings"
"""Under which field a card has its other greetings."""
NICKNAME_FIELD: Final = "nickname"
"""Under which field a card of V3 has the name that `{{char}}` stands for."""

_CARD_KEYWORDS: Final = ("ccv3", "chara")
_SPECS: Final = ("chara_card_v2", "chara_card_v3")
_V1_FIELDS: Final = {"name", "description", "first_mes", "mes_example"}


def recognizes(source: Source) -> bool:
    """Say whether it is a PNG, or JSON with the fields of a card."""
    if source.head.startswith(PNG_SIGNATURE):
        return True
    keys = source.keys
    return source.head.lstrip().startswith(b"{") and (keys >= _V1_FIELDS or ("spec" in keys and _has_spec(source)))


def _has_spec(source: Source) -> bool:
    return any(spec.encode() in source.outline for spec in _SPECS)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield a persona, and its lorebook with all entries."""
    try:
        found = _from_png(source) if source.head.startswith(PNG_SIGNATURE) else source.whole()
        if isinstance(found, Skipped):
            yield found
        else:
            yield from list(_read_records(source, found))  # all of a card, or nothing
    except BrimfulError as error:
        reason = error.reason if isinstance(error, InvalidValue) else str(error)
        yield Skipped(source.name, reason, damaged=isinstance(error, DamagedFile))


def _from_png(source: Source) -> Entry | Skipped:
    found = read_png_texts(source.stream(), source.name, frozenset(_CARD_KEYWORDS), MAX_PIECE_BYTES)
    reason = ""
    for chunk in _CARD_KEYWORDS:
        if chunk in found:
            try:
                return Entry(source.name, decode_json(_decode_chunk(found[chunk])), 1)
            except ValueError as error:
                reason = f"has a damaged card in it: {error}"
    return Skipped(source.name, reason or "is a picture without a character card", damaged=bool(reason))


def _decode_chunk(data: bytes) -> bytes:
    """Return the JSON of a chunk: base64, or as it is."""
    if data.lstrip().startswith(b"{"):
        return data
    try:
        return base64.b64decode(data)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _read_records(source: Source, entry: Entry) -> Iterator[ImportedRecord]:
    card = as_dict(entry.data)
    told = card_data(card)
    name = card_name(card)
    if not name and not as_str(told.get("description")):
        raise InvalidValue(source.name, "is no character card: it has neither a name nor a description")
    persona = persona_id(source, name)
    linked = character_books(source, persona, as_str(as_dict(told.get("extensions")).get("world")))
    book = as_dict(told.get("character_book"))
    own = join_id(persona, "book")
    if book:
        yield read_lorebook(book, own, name)
        yield from read_lorebook_entries(book, own)
    yield Persona(
        id=persona,
        name=name,
        character=read_character(told),
        lorebooks=tuple(dict.fromkeys(linked or ([own] if book else []))),
        notes=card_notes(told),
        metadata={
            CARD_KEY: _without_book(card),
            **({BOOK_KEY: own} if book else {}),
            **without_empty(creator_notes=as_str(told.get("creator_notes")), tags=as_strs(told.get("tags"))),
        },
    )


def _without_book(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card whose book is kept as a lorebook."""
    told = {key: value for key, value in card_data(card).items() if key != "character_book" or not as_dict(value)}
    return {**card, "data": told} if as_dict(card.get("data")) else told


def card_data(card: dict[str, Any]) -> dict[str, Any]:
    """Return where a card tells of the character: V1 at its top, V2 and V3 under `data`."""
    return as_dict(card.get("data")) or card


def card_name(card: dict[str, Any]) -> str:
    """Return what the character is called; empty if nobody says."""
    return as_str(card_data(card).get("name")) or as_str(card.get("name"))


def read_character(told: dict[str, Any]) -> Character:
    """Return the character of a card."""
    fields = {ours: as_str(told.get(theirs)) for theirs, ours in CARD_FIELDS.items()}
    fields["prompt"] = strip_original(fields["prompt"])
    return Character(
        **fields, nickname=as_str(told.get(NICKNAME_FIELD)), greetings=tuple(as_strs(told.get(GREETINGS_FIELD)))
    )


def persona_id(source: Source, name: str) -> str:
    """Return what SillyTavern knows a character by, the name of its file; elsewhere it is the character's own."""
    stem = room_name(source.name)
    return join_id(stem if data_folder(source) or not name else name)


FORMAT: Final = Format(
    name="card",
    description="a character card, V1 to V3: a PNG, JSON, or .charx; its book becomes a lorebook",
    recognizes=recognizes,
    read=read,
)


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
"""What every card has, and a persona has not."""


def write_card(persona: Persona, book: Lorebook | None = None, entries: Sequence[LoreEntry] = ()) -> dict[str, Any]:
    """Return the card of a persona, with its own lorebook in it, if it has a place for one.

    >>> write_card(Persona(id="nova", name="Nova", prompt="You are Nova."))["data"]["system_prompt"]
    'You are Nova.'
    """
    card = as_dict(persona.metadata.get(CARD_KEY)) or {**V3_SPEC, "data": dict(_EMPTY_CARD_DATA)}
    changed = _changed_fields(persona, card_data(card), card_name(card), new=CARD_KEY not in persona.metadata)
    if book is not None and (told := _card_book(card, persona, book, entries)) is not None:
        changed["character_book"] = told
    top = {field: value for field, value in changed.items() if field in card}  # V2 cards tell it twice, for old readers
    return {**card, **top, "data": {**card["data"], **changed}} if as_dict(card.get("data")) else {**card, **changed}


def _changed_fields(persona: Persona, told: dict[str, Any], name: str, *, new: bool) -> dict[str, Any]:
    """Return the fields that say something else than the card did."""
    fields: dict[str, Any]
    was, now = read_character(told), persona.character or Character()
    if persona.prompt:
        now = msgspec.structs.replace(now, prompt=persona.prompt)
    fields = {
        theirs: getattr(now, ours)
        for theirs, ours in CARD_FIELDS.items()
        if new or getattr(now, ours) != getattr(was, ours)
    }
    named = {"name": persona.called} if new or persona.name != name else {}
    if now.greetings != was.greetings:
        fields[GREETINGS_FIELD] = list(now.greetings)
    if now.nickname != was.nickname:
        fields[NICKNAME_FIELD] = now.nickname
    return {**named, **fields, **changed_note_fields(told, persona.notes)}


def _card_book(
    card: dict[str, Any], persona: Persona, book: Lorebook, entries: Sequence[LoreEntry]
) -> dict[str, Any] | None:
    """Return a book as a card holds it: the one that came in it as it came, any other one in the card's own form."""
    came = next((format for format in LOREBOOK_FORMATS if format in book.settings), None)
    if came and persona.metadata.get(BOOK_KEY) == book.id:
        return write_lorebook(book, entries, came)
    if not as_dict(card.get("data")):
        return None  # V1 has no place for books
    if card.get("spec") == "chara_card_v2":
        return write_lorebook(book, entries, "v2")
    return as_dict(write_lorebook(book, entries, "v3").get("data"))  # what is around it is for books that stand alone


def card_lorebook_id(persona: Persona) -> str | None:
    """Return the id of the lorebook that goes into a persona's card: the one that came in it.

    A card that came without one only names its books. A new card has the first of the persona's.
    """
    own = persona.metadata.get(BOOK_KEY)
    if isinstance(own, str):
        return own
    return None if CARD_KEY in persona.metadata else next(iter(persona.lorebooks), None)
