"""`brimful mcp`: serve memories, conversations and contexts to an MCP client on standard input and output."""

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from brimful.cli import output
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    DEFAULT_TENANT,
    Db,
    EmbedderSpec,
    Model,
    Tenant,
    UntrustedText,
)
from brimful.cli.store import require_store
from brimful.errors import MissingExtra
from brimful.plugins.sessions import data_folder, store_url

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

PLUGIN_TOOLS: Final = "recall,remember,forget"
EXAMPLES: Final = """\
Examples:
  brimful mcp --db chat.db
  brimful mcp --db memories.db --write --user ada
  brimful mcp --db chat.db --tools recall,history"""


def register(app: typer.Typer) -> None:
    app.command("mcp", epilog=EXAMPLES)(mcp)


def mcp(  # noqa: PLR0913 - the options
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Also offer remember and forget. A missing store is created.")
    ] = False,
    plugin: Annotated[
        bool,
        typer.Option(
            "--plugin", help="Serve the store of `brimful hook`, with the tools recall, remember and forget by default."
        ),
    ] = False,
    tools: Annotated[
        str | None,
        typer.Option("--tools", metavar="LIST", help="Offer only these tools, separated by commas; pin must be named."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Bind the server to this user.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="The persona whose memories to use.")
    ] = None,
    untrusted: UntrustedText = "propose",
    model: Model = DEFAULT_MODEL,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Serve memories and conversations to an MCP client.

    Uses standard input and output: programs such as Claude Desktop, Claude
    Code, Cursor, VS Code and Zed start this command themselves. Their models
    can then search messages and memories, and with --write add memories.
    Budgets are counted with the tokenizer of --model.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "`brimful mcp`")
    if plugin:
        db, write, tools = store_url(data_folder()), True, tools or PLUGIN_TOOLS
    names = None if tools is None else [name.strip() for name in tools.split(",") if name.strip()]
    if names is not None:
        _check_tools(names)
    if not write:
        require_store(db)
    from brimful.mcp.stdio import serve_stdio  # noqa: PLC0415 - other commands do not need it

    if sys.stdin is not None and sys.stdin.isatty():
        output.warn("waiting for an MCP client on standard input; press Ctrl-C to stop")
    session = {"can_write": write, "user": user or None, "persona": persona or None, "model": model}
    serve_stdio(
        lambda: _make_server(names, session, db, {"tenant": tenant, "embedder": embedder, "untrusted": untrusted})
    )


def _check_tools(names: list[str]) -> None:
    from brimful.mcp.tools import TOOLS  # noqa: PLC0415 - slow to import

    unknown = [name for name in names if name not in TOOLS]
    if unknown or not names:
        problem = f"there is no tool {unknown[0]!r}" if unknown else "no tool is named"
        raise typer.BadParameter(f"{problem}; tools are {', '.join(TOOLS)}", param_hint="'--tools'")


def _make_server(names: list[str] | None, session: dict[str, Any], db: str, options: dict[str, Any]) -> "Server[None]":
    """Load the SDK, which takes longer than everything else, and return the server."""
    from brimful.mcp.server import LazyEngine, Session, create_server  # noqa: PLC0415 - slow to import
    from brimful.mcp.tools import select_tools  # noqa: PLC0415

    engine = LazyEngine(db, **options)
    served = Session(engine=engine.open, **session)
    return create_server(lambda _: served, tools=select_tools(names), on_close=engine.close)
