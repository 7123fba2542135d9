"""Characters: the description of a persona, as in a character card."""

import re
from typing import Final

import msgspec

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.records.base import check_strings, validate_string

TEXT_FIELDS: Final = ("prompt", "description", "personality", "scenario", "examples", "greeting", "nickname")
_NAME_MACRO: Final = re.compile(
    r"\{\{\s*(charIfNotGroup|char|user)\s*\}\}|<(BOT|CHAR|CHARIFNOTGROUP|USER)>", re.IGNORECASE
)
_TRIM: Final = re.compile(r"\{\{\s*trim\s*\}\}", re.IGNORECASE)
_NEWLINE: Final = re.compile(r"\{\{\s*newline\s*\}\}", re.IGNORECASE)
# A comment may hold other macros. Where one is not closed, the next opening ends the search, so that it stays linear.
_COMMENT: Final = re.compile(r"\{\{\s*(?:noop\s*|//(?:[^{}]|\{(?!\{)|\}(?!\})|\{\{[^{}]*+\}\})*+)\}\}", re.IGNORECASE)
_MACROS: Final = (_NAME_MACRO, _COMMENT, _NEWLINE, _TRIM)

DEFAULT_PERSONA_NAME: Final = "Assistant"  # who answers, where no persona does
DEFAULT_USER_NAME: Final = "User"  # whom a character talks to, where nobody is named


class Character(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a character. Texts may say `{{char}}` and `{{user}}` for the two names.

    `prompt` is the character's own system prompt, for a persona that has none. `examples` show how it talks, and are
    the first to go where a window is small. `greeting` is what it says in a room where nobody spoke yet, and
    `greetings` are others that it may say instead. `nickname` is what `{{char}}` stands for, if not its persona's name.
    """

    prompt: str = ""
    description: str = ""
    personality: str = ""
    scenario: str = ""
    examples: str = ""
    greeting: str = ""
    greetings: tuple[str, ...] = ()
    nickname: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        for field in TEXT_FIELDS:
            validation.normalize_field(self, field, validate_string, "character.")
        check_strings("character.greetings", self.greetings)

    @property
    def sheet(self) -> str:
        r"""Who it is, as the model reads it.

        >>> Character(description="A pilot.", scenario="In orbit.").sheet
        'Description: A pilot.\nScenario: In orbit.'
        """
        named = (("Description", self.description), ("Personality", self.personality), ("Scenario", self.scenario))
        return "\n".join(f"{name}: {said}" for name, said in named if said)

    def instead(self, other: "Character | None") -> "Character":
        r"""Return what this one says, and what the other says where it says nothing.

        >>> Character(scenario="At sea.").instead(Character(scenario="In orbit.", description="A pilot.")).sheet
        'Description: A pilot.\nScenario: At sea.'
        """
        known = msgspec.structs.asdict(other) if other else {}
        return Character(**known | {field: said for field, said in msgspec.structs.asdict(self).items() if said})


def has_macros(said: str) -> bool:
    """Say whether a text asks for a name, or has another macro that is known."""
    return ("{{" in said or "<" in said) and any(macro.search(said) for macro in _MACROS)


def expand_macros(said: str, *, char: str, user: str) -> str:
    r"""Put the two names where a text asks for them; comments go, and so does what else says how a text is laid out.

    >>> expand_macros("{{char}} greets {{User}}.{{// she knows {{user}}}}{{newline}}", char="Nova", user="Ada")
    'Nova greets Ada.\n'
    """
    laid_out = _NEWLINE.sub("\n", _apply_trim(_COMMENT.sub("", said)))
    return _NAME_MACRO.sub(lambda found: user if (found[1] or found[2]).lower() == "user" else char, laid_out)


def _apply_trim(said: str) -> str:
    """Take the line breaks away that stand around `{{trim}}`."""
    pieces = _TRIM.split(said)
    last = len(pieces) - 1
    before = [piece.rstrip("\r\n") if at < last else piece for at, piece in enumerate(pieces)]
    return "".join(piece.lstrip("\r\n") if at else piece for at, piece in enumerate(before))


def validate_character(field: str, value: object) -> Character | None:
    """Return a character, or nothing, as a record may hold it."""
    if value is not None and not isinstance(value, Character):
        raise InvalidValue(field, f"must be a Character, not {validation.preview(value)}")
    return value
