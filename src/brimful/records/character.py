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
# A comment may contain other macros. If one is not closed, the next opening ends the search, which keeps it linear.
_COMMENT: Final = re.compile(r"\{\{\s*(?:noop\s*|//(?:[^{}]|\{(?!\{)|\}(?!\})|\{\{[^{}]*+\}\})*+)\}\}", re.IGNORECASE)
_MACROS: Final = (_NAME_MACRO, _COMMENT, _NEWLINE, _TRIM)

DEFAULT_PERSONA_NAME: Final = "Assistant"  # the model's name if there is no persona
DEFAULT_USER_NAME: Final = "User"  # the user's name if none is set


class Character(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a character. Texts may contain the macros `{{char}}` and `{{user}}` for the two names.

    `prompt` is the character's own system prompt, used if its persona has none. `examples` are sample dialogue, and
    the first to be left out if the window is small. `greeting` is the first message of an empty room, and `greetings`
    are alternatives to it. `nickname` replaces `{{char}}`; the default is the persona's name.
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
        for field in TEXT_FIELDS:
            validation.normalize_field(self, field, validate_string, "character.")
        check_strings("character.greetings", self.greetings)

    @property
    def sheet(self) -> str:
        r"""The description, personality and scenario as one text for the prompt.

        >>> Character(description="A pilot.", scenario="In orbit.").sheet
        'Description: A pilot.\nScenario: In orbit.'
        """
        named = (("Description", self.description), ("Personality", self.personality), ("Scenario", self.scenario))
        return "\n".join(f"{name}: {text}" for name, text in named if text)

    def instead(self, other: "Character | None") -> "Character":
        r"""Return this character with its empty fields filled from the other one.

        >>> Character(scenario="At sea.").instead(Character(scenario="In orbit.", description="A pilot.")).sheet
        'Description: A pilot.\nScenario: At sea.'
        """
        known = msgspec.structs.asdict(other) if other else {}
        return Character(**known | {field: value for field, value in msgspec.structs.asdict(self).items() if value})


def has_macros(text: str) -> bool:
    """Return whether a text contains a known macro."""
    return ("{{" in text or "<" in text) and any(macro.search(text) for macro in _MACROS)


def expand_macros(text: str, *, char: str, user: str) -> str:
    r"""Replace the name macros with the two names, apply layout macros, and remove comments.

    >>> expand_macros("{{char}} greets {{User}}.{{// she knows {{user}}}}{{newline}}", char="Nova", user="Ada")
    'Nova greets Ada.\n'
    """
    laid_out = _NEWLINE.sub("\n", _apply_trim(_COMMENT.sub("", text)))
    return _NAME_MACRO.sub(lambda match: user if (match[1] or match[2]).lower() == "user" else char, laid_out)


def _apply_trim(text: str) -> str:
    """Remove `{{trim}}` and the line breaks around it."""
    pieces = _TRIM.split(text)
    last = len(pieces) - 1
    before = [piece.rstrip("\r\n") if i < last else piece for i, piece in enumerate(pieces)]
    return "".join(piece.lstrip("\r\n") if i else piece for i, piece in enumerate(before))


def validate_character(field: str, value: object) -> Character | None:
    """Return the value if it is a `Character` or None; raise `InvalidValue` otherwise."""
    if value is not None and not isinstance(value, Character):
        raise InvalidValue(field, f"must be a Character, not {validation.preview(value)}")
    return value
