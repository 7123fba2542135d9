"""`brimful serve`: a proxy before servers that run models, after which no request is too long."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from brimful.cli import output
from brimful.cli.options import DEFAULT_DB
from brimful.errors import MissingExtra

EXAMPLES: Final = """\
Examples:
  brimful serve --upstream http://127.0.0.1:8081/v1
  brimful serve --upstream https://api.openai.com/v1 --listen 127.0.0.1:9000
  brimful serve --config brimful.toml
  brimful serve --db sqlite:///chat.db"""

_FILE: Final = "brimful serve"  # what errors name where there is no file


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve", epilog=EXAMPLES)(serve)


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
    keys: Annotated[bool, typer.Option("--keys", help="Callers need a key; see `brimful callers`.")] = False,
    like: Annotated[
        str | None, typer.Option("--like", metavar="MODEL", help="With --upstream: count all models as this one.")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", metavar="TOKENS", min=1, help="With --upstream: its models' window.")
    ] = None,
) -> None:
    """Serve OpenAI's and Anthropic's APIs before the servers that run models, and the inspector.

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
        from brimful.server.config import config_of, read_config  # noqa: PLC0415 - an extra
        from brimful.server.running import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "`brimful serve`") from error
    if config is not None:
        data, file = read_config(config), str(config)
    else:
        data, file = {} if upstream is None else _of_upstream(upstream, like, window), _FILE
    said = {"listen": listen, "mode": mode, "store": db or (None if config else DEFAULT_DB), "keys": keys or None}
    data |= {key: value for key, value in said.items() if value is not None}
    settled = config_of(data, file)
    run(settled, file=file, tell=lambda address: _tell(address, asks=bool(settled.upstreams)))


def _of_upstream(url: str, like: str | None, window: int | None) -> dict[str, Any]:
    said = {"name": "upstream", "url": url, "like": like, "window": window}
    return {"upstreams": [{key: value for key, value in said.items() if value is not None}]}


def _tell(address: str, *, asks: bool) -> None:
    clients = f"OpenAI's clients: base URL {address}/v1; Anthropic's: {address}"
    nobody = "no --upstream: for browsers alone"
    output.say(f"listening on {address} ({clients if asks else nobody})")
