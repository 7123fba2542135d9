"""Decorators: lines that begin an entry's text and say when it is told, as V3 has them."""

from typing import Final

import msgspec

from brimful.core.learned import learn

_MOST_FALLBACKS: Final = 8  # of one decorator; V3 asks for five at least


class Decorators(msgspec.Struct, frozen=True, kw_only=True):
    """What the decorators that we know ask for."""

    activate: bool = False
    dont_activate: bool = False
    scan_depth: int | None = None
    additional_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()


learn(Decorators)

NONE: Final = Decorators()


def undecorated(content: str) -> tuple[Decorators, str]:
    r"""Return what the decorators of a text ask for, and the text without them.

    >>> undecorated("@@scan_depth 3\n@@unknown 1\n@@@activate\n\nA tower.")[1]
    'A tower.'
    >>> undecorated("@@scan_depth 3\n@@unknown 1\n@@@activate\n\nA tower.")[0].activate
    True
    """
    if not content.startswith("@@"):
        return NONE, content
    lines = content.split("\n")
    ends = next((at for at, line in enumerate(lines) if not line.startswith("@@")), len(lines))
    asked: dict[str, object] = {}
    settled = True
    fallbacks = 0
    for line in lines[:ends]:
        name, _, value = line.lstrip("@").partition(" ")
        fallbacks = fallbacks + 1 if line.startswith("@@@") else 0
        if fallbacks and (settled or fallbacks > _MOST_FALLBACKS):
            continue
        read = _read(name.strip(), value.strip())
        settled = bool(read)
        asked = {**read, **asked}
    return msgspec.convert(asked, Decorators), "\n".join(lines[ends:]).strip("\n")


def _read(name: str, value: str) -> dict[str, object]:
    """Return what a decorator asks for; nothing if it is unknown, or its value is none."""
    number = int(value) if value.isdecimal() and len(value) < len("1000000000") else None
    names = [each for part in value.split(",") if (each := part.strip())]
    match name:
        case "activate" | "dont_activate":
            return {name: True}
        case "additional_keys" | "exclude_keys" if names:
            return {name: names}
        case "scan_depth" if number is not None:
            return {"scan_depth": number}
        case _:
            return {}
