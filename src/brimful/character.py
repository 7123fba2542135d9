"""A character: who a persona is, as character cards tell it."""

import re
from typing import Final

import msgspec

from brimful.core import check
from brimful.errors import InvalidValue
from brimful.fields import text

_FIELDS: Final = ("prompt", "description", "personality", "scenario", "examples", "greeting")
_MACRO: Final = re.compile(r"\{\{(char|user)\}\}|<(BOT|USER)>", re.IGNORECASE)


class Character(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a character. Texts may say `{{char}}` and `{{user}}` for the two names.

    `prompt` is the character's own system prompt, for a persona that has none. `examples` show how it talks, and are
    the first to go where a window is small. `greeting` is what it says in a room where nobody spoke yet.
    """

    prompt: str = ""
    description: str = ""
    personality: str = ""
    scenario: str = ""
    examples: str = ""
    greeting: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        for field in _FIELDS:
            check.settle(self, field, text, "character.")

    @property
    def sheet(self) -> str:
        r"""Who it is, as the model reads it.

        >>> Character(description="A pilot.", scenario="In orbit.").sheet
        'Description: A pilot.\nScenario: In orbit.'
        """
        named = (("Description", self.description), ("Personality", self.personality), ("Scenario", self.scenario))
        return "\n".join(f"{name}: {said}" for name, said in named if said)


def has_names(said: str) -> bool:
    """Say whether a text asks for a name."""
    return _MACRO.search(said) is not None


def with_names(said: str, *, char: str, user: str) -> str:
    """Put the two names where a text asks for them.

    >>> with_names("{{char}} greets {{User}}.", char="Nova", user="Ada")
    'Nova greets Ada.'
    """
    names = {"char": char, "bot": char, "user": user}
    return _MACRO.sub(lambda found: names[(found[1] or found[2]).lower()], said)


def checked_character(field: str, value: object) -> Character | None:
    """Return a character, or nothing, as a record may hold it."""
    if value is not None and not isinstance(value, Character):
        raise InvalidValue(field, f"must be a Character, not {check.shown(value)}")
    return value
