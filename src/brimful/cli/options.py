"""Options shared by several commands, and how their values are parsed.

Every command imports this module, so it imports what only some of them need inside its functions.
"""

import inspect
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
import typer

from brimful.cli.output import warn
from brimful.core import validation
from brimful.core.model import ModelInfo
from brimful.core.validation import clean_text
from brimful.errors import InvalidPackage, InvalidValue

DEFAULT_MODEL: Final = "gpt-4o"
DEFAULT_DB: Final = "sqlite:///brimful.db"
DEFAULT_TENANT: Final = "default"
DEFAULT_EMBEDDER: Final = "static"
ENVIRONMENT: Final = ("BRIMFUL_DB", "BRIMFUL_TENANT", "BRIMFUL_EMBEDDER")
"""Environment variables for `--db`, `--tenant` and `--embedder`."""


def complete_model(incomplete: str) -> list[str]:
    """Complete a model name in the shell."""
    from brimful.models import default_registry  # noqa: PLC0415 - see above

    return [name for name in default_registry().names() if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Complete a policy name in the shell."""
    from brimful.policies import policy_names  # noqa: PLC0415 - see above

    return [name for name in policy_names() if name.startswith(incomplete)]


def read_time(text: str) -> float:
    """Parse a time: seconds since 1970, or ISO 8601 with a time zone.

    >>> read_time("1700000000"), read_time("2023-11-14T22:13:20Z")
    (1700000000.0, 1700000000.0)
    """
    from brimful.packagers.package import to_timestamp  # noqa: PLC0415 - see above

    try:
        number = _read_number(text)
        return (
            to_timestamp(datetime.fromisoformat(text))
            if number is None
            else validation.require_calendar_time("time", number)
        )
    except InvalidPackage as error:
        raise typer.BadParameter(error.reason) from None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time: use seconds since 1970 or ISO 8601") from None


def _read_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_duration(text: str) -> float:
    """Parse a duration: a number and s, m, h, d or w.

    >>> read_duration("90m"), read_duration("1.5h")
    (5400.0, 5400.0)
    """
    from brimful.records.base import parse_duration  # noqa: PLC0415 - see above

    try:
        return parse_duration(text)
    except InvalidValue as error:
        raise typer.BadParameter(error.reason) from None


def read_db_url(value: str | None) -> str | None:
    """Read the location of a store. A file name stands for its SQLite URL.

    >>> read_db_url("notes.db"), read_db_url("data/notes"), read_db_url("postgresql://db/notes"), read_db_url("notes")
    ('sqlite:///notes.db', 'sqlite:///data/notes', 'postgresql://db/notes', 'notes')
    """
    if value is None or "://" in value:
        return value
    is_file = Path(value).suffix or Path(value).name != value or Path(value).is_file()
    return f"sqlite:///{value}" if is_file else value


def model_option(help: str) -> Any:
    return typer.Option("--model", "-m", metavar="NAME", help=help, autocompletion=complete_model)


def policy_option(help: str, metavar: str = "NAME|FILE.toml") -> Any:
    return typer.Option("--policy", "-p", metavar=metavar, help=help, autocompletion=complete_policy)


Model = Annotated[str, model_option("Model name.")]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", help="A vocabulary by name, or the path of a tokenizer.json or GGUF file of the model."
    ),
]
PolicyName = Annotated[str, policy_option("Policy name (see `brimful policies`) or file.")]
Window = Annotated[
    int | None,
    typer.Option("--window", metavar="TOKENS", min=1, help="Context window in tokens. Default: the model's."),
]
Completion = Annotated[
    int | None, typer.Option("--completion", metavar="TOKENS", min=1, help="Tokens to reserve for the answer.")
]
MaxPromptTokens = Annotated[
    int | None,
    typer.Option(
        "--max-prompt-tokens", metavar="TOKENS", min=1, help="Limit the prompt, even if the window is larger."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a policy key, such as pools.recent.max_items=50. Repeatable."),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="NUMBER|NAME",
        help="Minimum score per 1,000 tokens: thrifty, balanced, full (0), or a number.",
    ),
]
Previous = Annotated[
    str | None, typer.Option("--previous", metavar="FILE", help="The previous context, to keep its prefix stable.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write the context to this file.")
]
Now = Annotated[
    float | None,
    typer.Option(
        "--now",
        metavar="TIME",
        parser=read_time,
        help="Current time, used to compute ages: seconds since 1970 or ISO 8601. Default: the system clock.",
    ),
]
At = Annotated[
    float | None,
    typer.Option(
        "--at", metavar="TIME", parser=read_time, help="Timestamp: seconds since 1970 or ISO 8601. Default: now."
    ),
]
RequestOnly = Annotated[bool, typer.Option("--request", help="Print only the request, byte for byte.")]
Last = Annotated[
    float | None,
    typer.Option("--last", metavar="TIME", parser=read_duration, help="Only a recent period, such as 90m, 24h or 7d."),
]
PersonaFilter = Annotated[str | None, typer.Option("--persona", metavar="ID", help="Only for this persona.")]
RoomFilter = Annotated[str | None, typer.Option("--room", metavar="ID", help="Only in this room.")]
ModelFilter = Annotated[str | None, model_option("Only for this model.")]

RoomOption = Annotated[str, typer.Option("--room", metavar="ID", help="The room.")]
NewRoomOption = Annotated[
    str, typer.Option("--room", metavar="ID", help="The room. It is created if it does not exist.")
]
PersonaOption = Annotated[str | None, typer.Option("--persona", metavar="ID", help="The persona that answers.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="The user. Default: the room's.")]
ModelOption = Annotated[str | None, model_option("Model name. Default: the persona's.")]
PolicyOption = Annotated[str | None, policy_option("Policy name or file. Default: the persona's.")]
MinRelevance = Annotated[
    float | None,
    typer.Option("--min-relevance", metavar="0…1", min=0.0, max=1.0, help="Leave out less relevant search results."),
]
Db = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="URL|FILE",
        envvar="BRIMFUL_DB",
        callback=read_db_url,
        help="The store: a SQLite file, sqlite:///FILE, or postgresql://HOST/NAME.",
    ),
]
Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", envvar="BRIMFUL_TENANT", help="The tenant.")]
EmbedderSpec = Annotated[
    str,
    typer.Option(
        "--embedder",
        metavar="SPEC",
        envvar="BRIMFUL_EMBEDDER",
        help="Embedder: static, small, openai:MODEL, ollama:MODEL or none.",
    ),
]


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The store that a command uses, and its tenant."""

    db: Db = DEFAULT_DB
    tenant: Tenant = DEFAULT_TENANT


Erase = Annotated[bool, typer.Option("--erase", help="Also erase its content from past contexts.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Maximum number of results.")]
Lorebooks = Annotated[list[str] | None, typer.Option("--lorebook", metavar="ID", help="A lorebook to use. Repeatable.")]
NameOption = Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Display name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SummaryProvider = Annotated[
    str, typer.Option("--provider", metavar="SPEC", help="Where the model runs. Default: its vendor.")
]
TokensPerDay = Annotated[
    int | None,
    typer.Option(
        "--tokens-per-day",
        metavar="N",
        min=0,
        envvar="BRIMFUL_TOKENS_PER_DAY",
        help="Limit of the tokens of own calls of models in a UTC day. Default: none.",
    ),
]
DollarsPerDay = Annotated[
    float | None,
    typer.Option(
        "--dollars-per-day",
        metavar="AMOUNT",
        min=0,
        envvar="BRIMFUL_DOLLARS_PER_DAY",
        help="Limit of their cost in US dollars. Default: none.",
    ),
]
UntrustedText = Annotated[
    Literal["propose", "trust", "ignore"],
    typer.Option("--untrusted", help="What to do with text for memories that the user did not write."),
]
SummaryFocus = Annotated[
    str, typer.Option("--focus", metavar="TEXT", help="What matters most in the summaries, such as open orders.")
]


_LAST: Final = (
    *("memory_types", "min_relevance", "max_memories", "other_rooms", "memories", "lore", "media"),
    *("embedder", "db", "tenant", "as_json"),
)
"""Options that come last in the help of a command, in this order."""


def expand_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command in which a parameter that is a struct is replaced by options for its fields.

    So several commands can share options.
    """
    signature = inspect.signature(command)
    own = list(signature.parameters.values())
    struct = next((each for each in own if isinstance(each.annotation, type(msgspec.Struct))), None)
    if struct is None:
        return command
    name, options = struct.name, struct.annotation

    def expanded(**values: Any) -> None:
        command(**{name: options(**{field: values.pop(field) for field in options.__struct_fields__})}, **values)

    hints = get_type_hints(options, include_extras=True)
    fields = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.required else field.default,
        )
        for field in msgspec.structs.fields(options)
    ]
    index = own.index(struct)
    ordered = sorted(
        [*own[:index], *fields, *own[index + 1 :]],
        key=lambda parameter: _LAST.index(parameter.name) if parameter.name in _LAST else -1,
    )
    expanded.__dict__["__signature__"] = signature.replace(parameters=ordered)
    expanded.__annotations__ = {}
    expanded.__doc__ = command.__doc__
    return expanded


def resolve_model(name: str, tokenizer: str | None = None) -> ModelInfo:
    """Return a model by name, with a warning if it is unknown and so is its tokenizer."""
    from brimful.models import default_registry, unknown_model_warning  # noqa: PLC0415 - see above

    info = default_registry().resolve(clean_text(name))
    if tokenizer is not None:
        return info.with_tokenizer(tokenizer)
    if not info.known:
        warn(unknown_model_warning(info))
    return info


def read_overrides(settings: Sequence[str] | None, price: str | None = None) -> dict[str, Any] | None:
    """Parse `--set` options, and `--price`. A value is read as JSON if it is valid JSON, otherwise as a string.

    >>> read_overrides(["pools.recent.max_items=50", "counting=exact"])
    {'pools.recent.max_items': 50, 'counting': 'exact'}
    """
    priced = [] if price is None else [f"price={price}"]
    return dict(map(_read_setting, [*(settings or ()), *priced])) or None


def _read_setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="'--set'")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value
