"""From files to the registry: the package's own, then the user's."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from brimful.core.model import ModelInfo
from brimful.errors import InvalidModel
from brimful.models.build import EMPTY, add
from brimful.models.registry import Registry
from brimful.models.sheet import Entry, parse

ENVIRONMENT_KEY: Final = "BRIMFUL_MODELS"
"""The environment variable with the path of a file of one's own models."""


def load_registry(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Registry:
    """Return the package's models, with those of the user's file added.

    The file is `path`, or else the one that BRIMFUL_MODELS names in `environ` (if not given, the process's own).

    >>> load_registry(environ={}).resolve("openai/gpt-4o-2024-08-06").window
    128000
    """
    given = path or _path_of(os.environ if environ is None else environ)
    own = _own_models()
    return own if given is None else add(own, parse(_text(given), str(given)))


@cache
def default_registry() -> Registry:
    """Return the registry of this process: read on first use, then kept."""
    return load_registry()


def resolve(name: str, registry: Registry | None = None) -> ModelInfo:
    """Return what is known of a model under any of its names; an unknown one gets the fallback.

    >>> resolve("claude-3-5-sonnet-20241022").window
    200000
    >>> resolve("nobody-knows-me").known
    False
    """
    return (default_registry() if registry is None else registry).resolve(name)


@cache
def _own_models() -> Registry:
    return add(EMPTY, _own_entries())


def _own_entries() -> Iterator[Entry]:
    for file in sorted(Path(__file__).with_name("data").glob("*.toml")):
        yield from parse(file.read_text(encoding="utf-8"), file.name)


def _path_of(environ: Mapping[str, str]) -> Path | None:
    value = environ.get(ENVIRONMENT_KEY, "")
    return Path(value) if value else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidModel(str(path), "", f"is not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidModel(str(path), "", f"cannot be read: {reason}") from None
