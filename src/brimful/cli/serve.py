"""`brimful serve` and `brimful api-key`: run the proxy and the web inspector, and manage their API keys."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.output import Failure
from brimful.cli.store import require_store
from brimful.cli.terminal import Table, columns
from brimful.errors import MissingExtra

if TYPE_CHECKING:
    from brimful.stores import ApiKey, ApiKeys


SERVE_EXAMPLES: Final = """\
Examples:
  brimful serve --upstream http://127.0.0.1:8081/v1
  brimful serve --upstream https://api.openai.com/v1 --listen 127.0.0.1:9000
  brimful serve --config brimful.toml
  brimful serve --db sqlite:///chat.db"""

_NO_FILE: Final = "brimful serve"  # what errors name where there is no file


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("serve", epilog=SERVE_EXAMPLES)(serve)
    group = typer.Typer(no_args_is_help=True, epilog=API_KEY_EXAMPLES, help="Manage API keys for `brimful serve`.")
    group.command("add")(add_api_key)
    group.command("list")(list_api_keys)
    group.command("revoke")(revoke_api_key)
    app.add_typer(group, name="api-key")


def serve(
    *,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE.toml", help="The configuration file.")
    ] = None,
    upstream: Annotated[
        str | None, typer.Option("--upstream", "-u", metavar="URL", help="The one server to ask, in place of a file.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Where to listen; port 0 is any.")
    ] = None,
    mode: Annotated[str | None, typer.Option("--mode", metavar="fit|remember", help="What is done by default.")] = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", envvar="BRIMFUL_DB", help="The store of records.")
    ] = None,
    require_keys: Annotated[
        bool, typer.Option("--require-keys", help="Require an API key; see `brimful api-key`.")
    ] = False,
    like: Annotated[
        str | None, typer.Option("--like", metavar="MODEL", help="With --upstream: count all models as this one.")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", metavar="TOKENS", min=1, help="With --upstream: its models' window.")
    ] = None,
) -> None:
    """Run the proxy and the web inspector.

    Point a client's base URL at it: what is too long is made to fit, the rest
    is passed on untouched. With the mode `remember`, conversations are kept,
    and older turns come back when they matter. The same address in a browser
    shows every context. Without an upstream, that is all it does.
    """
    if config is not None and upstream is not None:
        raise typer.BadParameter("give --config or --upstream, and not both", param_hint="'--config'")
    if config is not None and (like or window):
        raise typer.BadParameter("is said in the file, for each upstream", param_hint="'--like' or '--window'")
    if upstream is None and config is None and (like or window):
        raise typer.BadParameter("is said of an --upstream", param_hint="'--like' or '--window'")
    try:
        from brimful.server.config import parse_config, read_config  # noqa: PLC0415 - an extra
        from brimful.server.runner import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "`brimful serve`") from error
    if config is not None:
        data, file = read_config(config), str(config)
    else:
        data, file = {} if upstream is None else _upstream_config(upstream, like, window), _NO_FILE
    said = {
        "listen": listen,
        "mode": mode,
        "store": db or (None if config else DEFAULT_DB),
        "require_keys": require_keys or None,
    }
    data |= {key: value for key, value in said.items() if value is not None}
    settled = parse_config(data, file)
    run(settled, file=file, announce=lambda address: _announce(address, asks=bool(settled.upstreams)))


def _upstream_config(url: str, like: str | None, window: int | None) -> dict[str, Any]:
    said = {"name": "upstream", "url": url, "like": like, "window": window}
    return {"upstreams": [{key: value for key, value in said.items() if value is not None}]}


def _announce(address: str, *, asks: bool) -> None:
    clients = f"OpenAI's clients: base URL {address}/v1; Anthropic's: {address}"
    nobody = "no --upstream: for browsers alone"
    output.write(f"listening on {address} ({clients if asks else nobody})")


T = TypeVar("T")

SCOPES: Final = ("chat", "read", "write", "metrics")  # as the server knows them; it is an extra
API_KEY_EXAMPLES: Final = """\
Examples:
  brimful api-key add --tenant acme --name "the support bot"
  brimful api-key list --tenant acme
  brimful api-key revoke 5f1c0a9e77d2 --tenant acme"""

_API_KEY_COLUMNS: Final = columns("id", "name", "scopes", "since", "state", spare=("since",))


def add_api_key(
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Who it is for.")],
    scopes: Annotated[
        str, typer.Option("--scopes", metavar="LIST", help="What it allows: chat, read, write, metrics, with commas.")
    ] = "chat,read",
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a key, and print it: now, and never again. Only a digest of it is kept."""
    wanted = _read_scopes(scopes)
    caller, key = _with_api_keys(
        lambda callers: callers.create(name=name, scopes=wanted, at=time.time()), db, tenant, new=True
    )
    if as_json:
        output.show_json({"key": key, **_api_key_data(caller)})
        return
    output.write(key)
    output.warn(f"this is the only time that the key is shown; `brimful api-key revoke {caller.id}` ends it")


def list_api_keys(*, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """List the keys of a tenant. The keys themselves are not kept, and cannot be shown."""
    found = _with_api_keys(lambda callers: callers.listed(), db, tenant)
    if as_json:
        output.show_json([_api_key_data(caller) for caller in found])
    elif found:
        output.show_table(Table(_API_KEY_COLUMNS, [_api_key_row(caller) for caller in found]))
    else:
        output.write("no keys; see `brimful api-key add`")


def revoke_api_key(
    *,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as the list shows it.")],
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Let a key hold no longer. Servers that are running know within seconds."""
    if not _with_api_keys(lambda callers: callers.revoke(id, at=time.time()), db, tenant):
        raise Failure(f"no key {id!r} that holds; see `brimful api-key list`")
    output.write(f"revoked {id}")


def _with_api_keys(question: "Callable[[ApiKeys], Awaitable[T]]", db: str, tenant: str, *, new: bool = False) -> T:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    if not new:
        require_store(db)

    async def asked() -> T:
        async with connect(db) as database:
            return await question(database.callers(tenant))

    return asyncio.run(asked())


def _read_scopes(text: str) -> list[str]:
    wanted = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    wrong = [word for word in wanted if word not in SCOPES]
    if wrong or not wanted:
        named = f"not {wrong[0]!r}" if wrong else "and none is named"
        raise typer.BadParameter(f"must be among {', '.join(SCOPES)}, {named}", param_hint="'--scopes'")
    return wanted


def _api_key_data(caller: "ApiKey") -> dict[str, Any]:
    return msgspec.structs.asdict(caller)


def _api_key_row(caller: "ApiKey") -> list[str]:
    state = "holds" if caller.revoked is None else f"revoked {output.format_time(caller.revoked)}"
    return [caller.id, caller.name, ", ".join(caller.scopes), output.format_time(caller.created), state]
