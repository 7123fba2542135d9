"""Character cards: V1, V2 and V3, as JSON or in the texts of a PNG (`ccv3` before `chara`, both base64).

A card is a persona with a character. Its book is a lorebook that the persona has. The card itself is kept beside it,
word for word, so that it can be given back: see the specifications of malfoyslastname/character-card-spec-v2 and
kwaroran/character-card-spec-v3.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from brimful.character import Character
from brimful.core.lenient import decode_json
from brimful.errors import BrimfulError, DamagedFile, InvalidValue
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import kept, mapping, text, texts
from brimful.importers.png import SIGNATURE, texts_of
from brimful.importers.source import MOST, Entry, Skipped, Source, room_name
from brimful.importers.tavern import books_of, home_of
from brimful.importers.tavern_notes import notes_of_card, without_original
from brimful.lore.formats import book_of, entries_of
from brimful.records import Persona

CARD: Final = "card"
"""Under which key of a persona's metadata its card is kept."""
BOOK: Final = "book"
"""Under which key it says which lorebook came with the card."""
FIELDS: Final = {
    "system_prompt": "prompt",
    "description": "description",
    "personality": "personality",
    "scenario": "scenario",
    "mes_example": "examples",
    "first_mes": "greeting",
}
"""What fields of a card are called in a character of ours."""
GREETINGS: Final = "alternate_greetings"
"""Under which field a card has its other greetings."""
NICKNAME: Final = "nickname"
"""Under which field a card of V3 has the name that `{{char}}` stands for."""

_CHUNKS: Final = ("ccv3", "chara")
_SPECS: Final = ("chara_card_v2", "chara_card_v3")
_V1: Final = {"name", "description", "first_mes", "mes_example"}


def recognises(source: Source) -> bool:
    """Say whether it is a PNG, or JSON with the fields of a card."""
    if source.head.startswith(SIGNATURE):
        return True
    keys = source.keys
    return source.head.lstrip().startswith(b"{") and (keys >= _V1 or ("spec" in keys and _names_spec(source)))


def _names_spec(source: Source) -> bool:
    return any(spec.encode() in source.outline for spec in _SPECS)


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield a persona, and its lorebook with all entries."""
    try:
        found = _from_png(source) if source.head.startswith(SIGNATURE) else source.whole()
        if isinstance(found, Skipped):
            yield found
        else:
            yield from list(_records(source, found))  # all of a card, or nothing
    except BrimfulError as error:
        reason = error.reason if isinstance(error, InvalidValue) else str(error)
        yield Skipped(source.name, reason, damaged=isinstance(error, DamagedFile))


def _from_png(source: Source) -> Entry | Skipped:
    found = texts_of(source.stream(), source.name, frozenset(_CHUNKS), MOST)
    reason = ""
    for chunk in _CHUNKS:
        if chunk in found:
            try:
                return Entry(source.name, decode_json(_decoded(found[chunk])), 1)
            except ValueError as error:
                reason = f"has a damaged card in it: {error}"
    return Skipped(source.name, reason or "is a picture without a character card", damaged=bool(reason))


def _decoded(data: bytes) -> bytes:
    """Return the JSON of a chunk: base64, or as it is."""
    if data.lstrip().startswith(b"{"):
        return data
    try:
        return base64.b64decode(data)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _records(source: Source, entry: Entry) -> Iterator[Imported]:
    card = mapping(entry.data)
    told = fields_of(card)
    name = name_of(card)
    if not name and not text(told.get("description")):
        raise InvalidValue(source.name, "is no character card: it has neither a name nor a description")
    persona = persona_id(source, name)
    linked = books_of(source, persona, text(mapping(told.get("extensions")).get("world")))
    book = mapping(told.get("character_book"))
    own = joined(persona, "book")
    if book:
        yield book_of(book, own, name)
        yield from entries_of(book, own)
    yield Persona(
        id=persona,
        name=name,
        character=character_of(told),
        lorebooks=tuple(dict.fromkeys(linked or ([own] if book else []))),
        notes=notes_of_card(told),
        metadata={
            CARD: _without_book(card),
            **({BOOK: own} if book else {}),
            **kept(creator_notes=text(told.get("creator_notes")), tags=texts(told.get("tags"))),
        },
    )


def _without_book(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card whose book is kept as a lorebook."""
    told = {key: value for key, value in fields_of(card).items() if key != "character_book" or not mapping(value)}
    return {**card, "data": told} if mapping(card.get("data")) else told


def fields_of(card: dict[str, Any]) -> dict[str, Any]:
    """Return where a card tells of the character: V1 at its top, V2 and V3 under `data`."""
    return mapping(card.get("data")) or card


def name_of(card: dict[str, Any]) -> str:
    """Return what the character is called; empty if nobody says."""
    return text(fields_of(card).get("name")) or text(card.get("name"))


def character_of(told: dict[str, Any]) -> Character:
    """Return the character of a card."""
    fields = {ours: text(told.get(theirs)) for theirs, ours in FIELDS.items()}
    fields["prompt"] = without_original(fields["prompt"])
    return Character(**fields, nickname=text(told.get(NICKNAME)), greetings=tuple(texts(told.get(GREETINGS))))


def persona_id(source: Source, name: str) -> str:
    """Return what SillyTavern knows a character by, the name of its file; elsewhere it is the character's own."""
    stem = room_name(source.name)
    return joined(stem if home_of(source) or not name else name)


IMPORTER: Final = Importer(
    name="card",
    description="a character card, V1 to V3: a PNG, JSON, or .charx; its book becomes a lorebook",
    recognises=recognises,
    read=read,
)
