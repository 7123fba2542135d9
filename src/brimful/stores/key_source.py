"""Where keys come from: the environment, or a command that it names."""

from collections.abc import Mapping
from typing import Final, cast

from brimful.errors import InvalidValue
from brimful.stores import key_command
from brimful.stores.keys import SEARCHES, Keys, Search, key_bytes

KEY: Final = "BRIMFUL_KEY"
PREVIOUS: Final = "BRIMFUL_KEY_PREVIOUS"
COMMAND: Final = key_command.VARIABLE
SEARCH: Final = "BRIMFUL_KEY_SEARCH"
ENVIRONMENT: Final = (KEY, PREVIOUS, COMMAND, SEARCH)


def keys_in(environ: Mapping[str, str]) -> Keys | None:
    """Return the keys that the environment gives, or None if it gives none."""
    if environ.get(KEY) and environ.get(COMMAND):
        raise InvalidValue(KEY, f"and {COMMAND} are both set; unset one of them")
    given = key_command.printed_keys(environ[COMMAND]) if environ.get(COMMAND) else [environ.get(KEY, "")]
    if given[0]:
        variable = COMMAND if environ.get(COMMAND) else KEY
        opening = [key_bytes(variable, key) for key in given] + [key_bytes(PREVIOUS, key) for key in _previous(environ)]
        return Keys(*opening, search=_search(environ))
    if environ.get(PREVIOUS):
        raise InvalidValue(PREVIOUS, f"is set, and {KEY} is not; set the key that is used now")
    return None


def _previous(environ: Mapping[str, str]) -> list[str]:
    return environ.get(PREVIOUS, "").replace(",", " ").split()


def _search(environ: Mapping[str, str]) -> Search:
    search = environ.get(SEARCH) or "terms"
    if search not in SEARCHES:
        raise InvalidValue(SEARCH, f"must be one of {', '.join(SEARCHES)}, not {search!r}")
    return cast("Search", search)
