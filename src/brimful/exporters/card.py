"""A persona → a character card: the one that it came from, with what was changed since, or a new one (V3)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.character import Character
from brimful.importers.cards import BOOK, CARD, FIELDS, character_of, fields_of, name_of
from brimful.importers.loose import mapping
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
    """Return the card of a persona, with its own lorebook in it.

    >>> card_of(Persona(id="nova", name="Nova", prompt="You are Nova."))["data"]["system_prompt"]
    'You are Nova.'
    """
    card = mapping(persona.metadata.get(CARD)) or {**SPEC, "data": dict(_EMPTY)}
    changed = _changed(persona, fields_of(card), name_of(card), new=CARD not in persona.metadata)
    if book is not None:
        changed["character_book"] = exported(book, entries, _format_of(book, card))
    top = {field: value for field, value in changed.items() if field in card}  # V2 cards tell it twice, for old readers
    return {**card, **top, "data": {**card["data"], **changed}} if mapping(card.get("data")) else {**card, **changed}


def _changed(persona: Persona, told: dict[str, Any], name: str, *, new: bool) -> dict[str, Any]:
    """Return the fields that say something else than the card did."""
    was, now = character_of(told), persona.character or Character()
    if persona.prompt:
        now = msgspec.structs.replace(now, prompt=persona.prompt)
    fields = {
        theirs: getattr(now, ours) for theirs, ours in FIELDS.items() if new or getattr(now, ours) != getattr(was, ours)
    }
    named = {"name": persona.called} if new or persona.name != name else {}
    return {**named, **fields}


def _format_of(book: Lorebook, card: dict[str, Any]) -> Any:
    """Return the format in which the book came; a new one is written as the card is."""
    came = next((format for format in FORMATS if format in book.settings), None)
    return came or ("v2" if card.get("spec") == "chara_card_v2" else "v3")


def book_of(persona: Persona) -> str | None:
    """Return the id of the lorebook that goes into a persona's card: the one that came in it, else its first."""
    own = persona.metadata.get(BOOK)
    return own if isinstance(own, str) else next(iter(persona.lorebooks), None)
