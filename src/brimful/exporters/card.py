"""A persona → a character card: the one that it came from, with what was changed since, or a new one (V3)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.character import Character
from brimful.importers.cards import BOOK, CARD, FIELDS, GREETINGS, NICKNAME, character_of, fields_of, name_of
from brimful.importers.loose import mapping
from brimful.importers.tavern_notes import fields_with
from brimful.lore.formats import FORMATS, exported
from brimful.records import Lorebook, LoreEntry, Persona

SPEC: Final = {"spec": "chara_card_v3", "spec_version": "3.0"}
_EMPTY: Final = {
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


def card_of(persona: Persona, book: Lorebook | None = None, entries: Sequence[LoreEntry] = ()) -> dict[str, Any]:
    """Return the card of a persona, with its own lorebook in it, if it has a place for one.

    >>> card_of(Persona(id="nova", name="Nova", prompt="You are Nova."))["data"]["system_prompt"]
    'You are Nova.'
    """
    card = mapping(persona.metadata.get(CARD)) or {**SPEC, "data": dict(_EMPTY)}
    changed = _changed(persona, fields_of(card), name_of(card), new=CARD not in persona.metadata)
    if book is not None and (told := _book_in(card, persona, book, entries)) is not None:
        changed["character_book"] = told
    top = {field: value for field, value in changed.items() if field in card}  # V2 cards tell it twice, for old readers
    return {**card, **top, "data": {**card["data"], **changed}} if mapping(card.get("data")) else {**card, **changed}


def _changed(persona: Persona, told: dict[str, Any], name: str, *, new: bool) -> dict[str, Any]:
    """Return the fields that say something else than the card did."""
    fields: dict[str, Any]
    was, now = character_of(told), persona.character or Character()
    if persona.prompt:
        now = msgspec.structs.replace(now, prompt=persona.prompt)
    fields = {
        theirs: getattr(now, ours) for theirs, ours in FIELDS.items() if new or getattr(now, ours) != getattr(was, ours)
    }
    named = {"name": persona.called} if new or persona.name != name else {}
    if now.greetings != was.greetings:
        fields[GREETINGS] = list(now.greetings)
    if now.nickname != was.nickname:
        fields[NICKNAME] = now.nickname
    return {**named, **fields, **fields_with(told, persona.notes)}


def _book_in(
    card: dict[str, Any], persona: Persona, book: Lorebook, entries: Sequence[LoreEntry]
) -> dict[str, Any] | None:
    """Return a book as a card holds it: the one that came in it as it came, any other one in the card's own form."""
    came = next((format for format in FORMATS if format in book.settings), None)
    if came and persona.metadata.get(BOOK) == book.id:
        return exported(book, entries, came)
    if not mapping(card.get("data")):
        return None  # V1 has no place for books
    if card.get("spec") == "chara_card_v2":
        return exported(book, entries, "v2")
    return mapping(exported(book, entries, "v3").get("data"))  # what is around it is for books that stand alone


def book_of(persona: Persona) -> str | None:
    """Return the id of the lorebook that goes into a persona's card: the one that came in it.

    A card that came without one only names its books. A new card has the first of the persona's.
    """
    own = persona.metadata.get(BOOK)
    if isinstance(own, str):
        return own
    return None if CARD in persona.metadata else next(iter(persona.lorebooks), None)
