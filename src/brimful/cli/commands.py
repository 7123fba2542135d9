"""All commands by name. Each is loaded when it is asked for: no command waits for what another one imports."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import typer

from brimful.cli.values import read_plainly

MODULES: Final = {
    "fill": "fill",
    "explain": "explain",
    "diff": "compare",
    "replay": "compare",
    "count": "count",
    "budget": "budget",
    "models": "models",
    "policies": "policies",
    "embeddings": "embeddings",
    "import": "imports",
    "export": "export",
    "room": "rooms",
    "message": "messages",
    "memory": "memories",
    "lorebook": "lorebooks",
    "persona": "personas",
    "user": "users",
    "assemble": "assemble",
    "chat": "chat",
    "inspect": "inspect",
    "monitor": "monitor",
    "context": "contexts",
    "stats": "stats",
    "index": "index",
    "janitor": "janitor",
    "db": "db",
    "serve": "serve",
    "callers": "callers",
}
"""The module of each command, in the order in which help lists them."""


class Commands(Mapping[str, Any]):
    """The commands of the app: their names are known, and what is asked for is loaded."""

    def __init__(self) -> None:
        """Begin with nothing loaded."""
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a command, which knows its options and its help."""
        if name not in self._loaded:
            self._loaded |= loaded(MODULES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(MODULES)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(MODULES)


def loaded(module: str) -> dict[str, Any]:
    """Return the commands that a module registers, by their names."""
    holder = typer.Typer(rich_markup_mode="rich")
    import_module(f"brimful.cli.{module}").register(holder)
    found = dict(typer.main.get_group(holder).commands)
    for command in _all(found):
        read_plainly(command)
    return found


def _all(commands: Mapping[str, Any]) -> Iterator[Any]:
    """Yield commands, and those within them."""
    for command in commands.values():
        yield command
        yield from _all(getattr(command, "commands", {}))
