"""Options that several commands share, and how their values are read."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from brimful.cli.output import warn
from brimful.core import check
from brimful.core.content import clean_text
from brimful.core.model import ModelInfo
from brimful.errors import InvalidPackage, InvalidValue
from brimful.fields import duration
from brimful.models import default_registry, unknown_model_warning
from brimful.packagers.package import seconds
from brimful.policies import policy_names

DEFAULT_MODEL: Final = "gpt-4o"
DEFAULT_DB: Final = "sqlite:///brimful.db"
DEFAULT_TENANT: Final = "default"
DEFAULT_EMBEDDER: Final = "static"
ENVIRONMENT: Final = ("BRIMFUL_DB", "BRIMFUL_TENANT", "BRIMFUL_EMBEDDER")
"""Variables that stand in for `--db`, `--tenant` and `--embedder`."""


def complete_model(incomplete: str) -> list[str]:
    """Complete the name of a model in a shell."""
    return [name for name in default_registry().names() if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Complete the name of a policy in a shell."""
    return [name for name in policy_names() if name.startswith(incomplete)]


def read_moment(text: str) -> float:
    """Read a moment: seconds since 1970, or ISO 8601 with a time zone.

    >>> read_moment("1700000000"), read_moment("2023-11-14T22:13:20Z")
    (1700000000.0, 1700000000.0)
    """
    try:
        number = _number(text)
        return seconds(datetime.fromisoformat(text)) if number is None else check.moment("time", number)
    except InvalidPackage as error:
        raise typer.BadParameter(error.reason) from None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number of seconds nor an ISO 8601 time") from None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_duration(text: str) -> float:
    """Read how long something lasts: a number and s, m, h, d or w.

    >>> read_duration("90m"), read_duration("1.5h")
    (5400.0, 5400.0)
    """
    try:
        return duration(text)
    except InvalidValue as error:
        raise typer.BadParameter(error.reason) from None


Model = Annotated[
    str,
    typer.Option("--model", "-m", metavar="NAME", help="The model's name.", autocompletion=complete_model),
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME|FILE.toml",
        help="A policy by name (see `brimful policies`), or a policy file.",
        autocompletion=complete_policy,
    ),
]
Window = Annotated[
    int | None, typer.Option("--window", metavar="TOKENS", min=1, help="Use this window, not the model's own.")
]
Completion = Annotated[
    int | None,
    typer.Option("--completion", metavar="TOKENS", min=1, help="Keep this much for the answer, not the policy's own."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one key of the policy, as in pools.recent.most=50. Repeatable."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write the record of the context to this file."),
]
Now = Annotated[
    float | None,
    typer.Option(
        "--now",
        metavar="TIME",
        parser=read_moment,
        help="The time that ages are reckoned from: seconds since 1970, or ISO 8601. Default: the clock.",
    ),
]
At = Annotated[
    float | None,
    typer.Option(
        "--at",
        metavar="TIME",
        parser=read_moment,
        help="When it was: seconds since 1970, or ISO 8601. Default: now.",
    ),
]
RequestOnly = Annotated[
    bool, typer.Option("--request", help="Print the finished request, byte for byte, and nothing else.")
]
Last = Annotated[
    float | None,
    typer.Option("--last", metavar="TIME", parser=read_duration, help="Only the last 90m, 24h, 7d. Default: all."),
]
OfPersona = Annotated[str | None, typer.Option("--persona", metavar="ID", help="Only for this persona.")]
OfRoom = Annotated[str | None, typer.Option("--room", metavar="ID", help="Only in this room.")]
OfModel = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME", help="Only for this model.", autocompletion=complete_model),
]
Db = Annotated[
    str,
    typer.Option("--db", metavar="URL", envvar="BRIMFUL_DB", help="The store: sqlite:///FILE, or postgresql://…."),
]
Tenant = Annotated[
    str, typer.Option("--tenant", metavar="NAME", envvar="BRIMFUL_TENANT", help="Whose records in the store.")
]
Embedder = Annotated[
    str,
    typer.Option(
        "--embedder",
        metavar="SPEC",
        envvar="BRIMFUL_EMBEDDER",
        help="What makes vectors: static, minilm, openai:MODEL, ollama:MODEL, …, or none.",
    ),
]
Erase = Annotated[bool, typer.Option("--erase", help="Take its content out of past contexts, too.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")]
Lorebooks = Annotated[
    list[str] | None, typer.Option("--lorebook", metavar="ID", help="A lorebook to look into. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def known_model(name: str) -> ModelInfo:
    """Return what is known of a model; warn where that is nothing."""
    info = default_registry().resolve(clean_text(name))
    if not info.known:
        warn(unknown_model_warning(info))
    return info


def overrides(settings: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the policy keys that `--set` changes. A value is JSON where it can be read as such, else a text.

    >>> overrides(["pools.recent.most=50", "counting=exact"])
    {'pools.recent.most': 50, 'counting': 'exact'}
    """
    return dict(map(_setting, settings)) if settings else None


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="'--set'")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value
