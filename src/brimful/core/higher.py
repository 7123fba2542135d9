"""Functions of higher layers that a context offers as methods, such as its report.

`brimful` says how to load them when it is imported, so that the core knows nothing of what is above it, and a program
loads only what it uses.
"""

from collections.abc import Callable
from typing import Any


def _load_nothing(name: str) -> Any:
    raise LookupError(name)


_load: Callable[[str], Any] = _load_nothing


def set_loader(load: Callable[[str], Any]) -> None:
    """Set what returns a function of a higher layer by name."""
    global _load  # noqa: PLW0603 - set once, when the package is imported
    _load = load


def find_function(name: str) -> Any:
    """Return a function of a higher layer."""
    return _load(name)
