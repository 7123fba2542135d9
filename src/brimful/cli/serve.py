"""`brimful serve` and `brimful api-key`: run the proxy and the web inspector, and manage their API keys."""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant, read_db_url, read_duration, read_time
from brimful.cli.output import Failure, columns
from brimful.cli.store import with_database
from brimful.errors import MissingExtra

if TYPE_CHECKING:
    from brimful.stores import ApiKey, ApiKeys


SERVE_EXAMPLES: Final = """\
Examples:
  brimful serve --upstream http://127.0.0.1:8081/v1
  brimful serve --upstream https://api.openai.com/v1 --listen 127.0.0.1:9000
  brimful serve --config brimful.toml
  brimful serve --db sqlite:///chat.db
  brimful serve --sessions"""

_NO_FILE: Final = "brimful serve"  # named in errors if there is no file


def register(app: typer.Typer) -> None:
    app.command("serve", epilog=SERVE_EXAMPLES)(serve)
    group = typer.Typer(no_args_is_help=True, epilog=API_KEY_EXAMPLES, help="Manage API keys for `brimful serve`.")
    group.command("add")(add_api_key)
    group.command("list")(list_api_keys)
    group.command("remove")(remove_api_key)
    app.add_typer(group, name="api-key")


def serve(  # noqa: PLR0913 - one argument per option
    *,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE.toml", help="The configuration file.")
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            "--upstream", "-u", metavar="URL", help="URL of a single upstream, instead of a configuration file."
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help="Address to listen on; port 0 picks a free one."),
    ] = None,
    mode: Annotated[str | None, typer.Option("--mode", metavar="fit|remember", help="Default mode.")] = None,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL|FILE", envvar="BRIMFUL_DB", callback=read_db_url, help="The store."),
    ] = None,
    replica: Annotated[
        str | None,
        typer.Option(
            "--replica",
            metavar="URL",
            envvar="BRIMFUL_REPLICA",
            help="URL of a read replica of a PostgreSQL store, for lists and exports.",
        ),
    ] = None,
    require_keys: Annotated[
        bool, typer.Option("--require-keys", help="Require API keys; see `brimful api-key`.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, max=256, help="Number of server processes.")
    ] = None,
    sessions: Annotated[
        bool,
        typer.Option("--sessions", help="Show sessions of coding agents on this machine, too. For local use only."),
    ] = False,
    like: Annotated[
        str | None, typer.Option("--like", metavar="MODEL", help="With --upstream: count tokens as for this model.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option("--window", metavar="TOKENS", min=1, help="With --upstream: context window of its models."),
    ] = None,
) -> None:
    """Run the proxy and the web inspector.

    Point the base URL of an OpenAI, Anthropic, Gemini or Ollama client at
    it. Requests that are too long are trimmed to fit; others are passed on
    unchanged. In the mode `remember`, conversations are stored, and relevant
    older turns are added. Open the same address in a browser for the
    inspector. Without an upstream, only the inspector is served.
    """
    if config is not None and upstream is not None:
        raise typer.BadParameter("cannot be combined with --upstream", param_hint="'--config'")
    if config is not None and (like or window):
        raise typer.BadParameter(
            "belongs in the configuration file, for each upstream", param_hint="'--like' / '--window'"
        )
    if upstream is None and config is None and (like or window):
        raise typer.BadParameter("needs --upstream", param_hint="'--like' / '--window'")
    try:
        from brimful.server.config import load_config, parse_config  # noqa: PLC0415 - an extra
        from brimful.server.logs import configure_logging  # noqa: PLC0415
        from brimful.server.proxy.upstreams import find_missing_keys  # noqa: PLC0415
        from brimful.server.runner import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "`brimful serve`") from error
    options = {
        "listen": listen,
        "mode": mode,
        "store": db or (None if config else DEFAULT_DB),
        "replica": replica,
        "require_keys": require_keys or None,
        "workers": workers,
        "sessions": sessions or None,
    }
    options = {key: value for key, value in options.items() if value is not None}
    if config is not None:
        file, read = str(config), partial(load_config, config, options)
    else:
        data = {} if upstream is None else _upstream_config(upstream, like, window)
        file, read = _NO_FILE, partial(parse_config, data | options, _NO_FILE)
    settings = read()
    configure_logging(settings.telemetry)
    warn = output.warn if settings.telemetry.log_format == "text" else logging.getLogger("brimful.server").warning
    for warning in find_missing_keys(settings):
        warn(warning)
    run(
        settings,
        file=file,
        announce=lambda address: _announce(address, has_upstream=bool(settings.upstreams)),
        read=read,
    )


def _upstream_config(url: str, like: str | None, window: int | None) -> dict[str, Any]:
    options = {"name": "upstream", "url": url, "like": like, "window": window}
    return {"upstreams": [{key: value for key, value in options.items() if value is not None}]}


def _announce(address: str, *, has_upstream: bool) -> None:
    clients = f"base URL for OpenAI clients: {address}/v1; for all others: {address}"
    inspector = "inspector only: no upstream"
    output.write(f"listening on {address} ({clients if has_upstream else inspector})")


T = TypeVar("T")

SCOPES: Final = ("chat", "read", "write", "metrics", "admin", "keys")  # as in brimful.server, which is an extra
API_KEY_EXAMPLES: Final = """\
Examples:
  brimful api-key add --tenant acme --name "the support bot"
  brimful api-key add --name "Ada's laptop" --scopes read,write --user ada
  brimful api-key add --name "a trial" --expires 30d --model "gpt-4o*"
  brimful api-key list --tenant acme
  brimful api-key remove 5f1c0a9e77d2 --tenant acme"""

_API_KEY_COLUMNS: Final = columns(
    *("id", "name", "scopes", "user", "models", "policies", "since", "last used", "expires", "state"),
    spare=("expires", "models", "last used", "policies", "since"),
)
_DURATION: Final = re.compile(r"[0-9.]+[a-z]")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _read_expiry(text: str) -> float:
    """Return the time at which a key expires: a duration from now, a date in UTC, or a time.

    >>> _read_expiry("2030-01-01"), _read_expiry("2030-01-01T00:00:00+01:00")
    (1893456000.0, 1893452400.0)
    """
    if _DURATION.fullmatch(text):
        return time.time() + read_duration(text)
    return read_time(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)


def add_api_key(  # noqa: PLR0913 - one argument per option
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Who the key is for.")],
    scopes: Annotated[
        str, typer.Option("--scopes", metavar="LIST", help="Comma-separated: chat, read, write, metrics, admin, keys.")
    ] = "chat,read",
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Bind the key to this user, for chats and /mcp.")
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(
            "--expires",
            metavar="TIME",
            parser=_read_expiry,
            help="When it expires: 12h, 30d, or a date. Default: never.",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="PATTERN", help='A model that it may use, such as "gpt-4o*". Repeatable.'),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME", help="A policy that it may use; the first one is its default."),
    ] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Create an API key and print it. It is shown only once, because the store keeps only a hash."""
    granted = _read_scopes(scopes)
    key_record, key = _with_api_keys(
        lambda callers: callers.create(
            name=name,
            scopes=granted,
            at=time.time(),
            user=user,
            expires=expires,
            models=models or None,
            policies=policies or None,
        ),
        db,
        tenant,
        new=True,
    )
    if as_json:
        output.show_json({"key": key, **msgspec.structs.asdict(key_record)})
        return
    output.write(key)
    output.warn(f"the key is shown only once; to revoke it, run `brimful api-key remove {key_record.id}`")


def list_api_keys(*, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """List the API keys of a tenant, without their secrets."""
    found = _with_api_keys(lambda callers: callers.list_keys(), db, tenant)
    empty, row = "no API keys; create one with `brimful api-key add`", partial(_api_key_row, now=time.time())
    output.show_rows(found, _API_KEY_COLUMNS, row, empty=empty, as_json=as_json, data=msgspec.structs.asdict)


def remove_api_key(
    *,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as in the list.")],
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Revoke an API key. Running servers reject it within seconds."""
    if not _with_api_keys(lambda callers: callers.revoke(id, at=time.time()), db, tenant):
        raise Failure(f"there is no active key {id!r}; see `brimful api-key list`")
    output.write(f"revoked {id}")


def _with_api_keys(work: "Callable[[ApiKeys], Awaitable[T]]", db: str, tenant: str, *, new: bool = False) -> T:
    return with_database(lambda database: work(database.api_keys(tenant)), db, new=new)


def _read_scopes(text: str) -> list[str]:
    scopes = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    wrong = [word for word in scopes if word not in SCOPES]
    if wrong or not scopes:
        problem = f"{wrong[0]!r} is not a scope" if wrong else "no scope is given"
        raise typer.BadParameter(f"{problem}; scopes are {', '.join(SCOPES)}", param_hint="'--scopes'")
    return scopes


def _api_key_row(key_record: "ApiKey", *, now: float) -> list[str]:
    if key_record.revoked is not None:
        state = f"revoked {output.format_time(key_record.revoked)}"
    else:
        state = "active" if key_record.expires is None or key_record.expires > now else "expired"
    return [
        key_record.id,
        key_record.name,
        ", ".join(key_record.scopes),
        key_record.user or "",
        "all" if key_record.models is None else ", ".join(key_record.models),
        "all" if key_record.policies is None else ", ".join(key_record.policies),
        output.format_time(key_record.created),
        output.format_time(key_record.used),
        output.format_time(key_record.expires),
        state,
    ]
