"""`brimful doctor`: check what an installation needs, one line each, and say what to do."""

import asyncio
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

import brimful
from brimful.cli import output
from brimful.cli.app import FAILED
from brimful.cli.options import DEFAULT_DB, DEFAULT_EMBEDDER, DEFAULT_MODEL, Db, EmbedderSpec, Json, Model
from brimful.cli.output import Table, columns
from brimful.cli.store import has_store
from brimful.errors import BrimfulError, MigrationError, MissingExtra

if TYPE_CHECKING:
    from brimful.stores import Database

EXAMPLES: Final = """\
Examples:
  brimful doctor
  brimful doctor --provider ollama --model qwen2.5:7b
  brimful doctor --db postgresql://ada@db.example.org/chat --embedder small
  brimful doctor --config brimful.toml --json"""

_SAMPLE: Final = "Fill the window to the brim."
_SAMPLE_TOKENS: Final = {"o200k_base": 7, "cl100k_base": 7}  # by tiktoken
_TIMEOUT: Final = 10.0  # seconds for an answer of a server
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA: Final = re.compile(r"extra == ['\"]([\w-]+)['\"]")

State = Literal["ok", "note", "failed"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. `advice` is what to do, if there is something to do."""

    state: State
    part: str
    result: str
    advice: str = ""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What to check: a store, an embedder, a model, and servers with their API keys, by name."""

    db: str
    embedder: str
    model: str
    providers: dict[str, str | None]


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog=EXAMPLES)(doctor)


def doctor(
    *,
    model: Model = DEFAULT_MODEL,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME|URL", help="A server that runs models, to check that it responds."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE.toml",
            help="A server configuration, to check its store, embedder and upstreams.",
        ),
    ] = None,
    db: Db = DEFAULT_DB,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Check the installation: versions, extras, programs, store, embedder and servers.

    Prints a line for each, with what to do about problems. Programs are
    those that `brimful install` changed. Nothing is changed: an old store is
    not migrated. The exit code is 1 if a check failed.
    """
    subject = Subject(db=db, embedder=embedder, model=model, providers={provider: None} if provider else {})
    if config is not None:
        subject = _read_config(config, subject)
    found = list(_examine(subject))
    if as_json:
        output.show_json(found)
    else:
        rows = [[each.state, each.part, each.result] for each in found]
        output.show_table(Table(columns("", "part", "result"), rows))
        for each in filter(lambda each: each.advice, found):
            output.write(f"\n{each.part}: {each.advice}")
    if any(each.state == "failed" for each in found):
        raise typer.Exit(FAILED)


def _read_config(path: Path, subject: Subject) -> Subject:
    try:
        from brimful.server.config import load_config  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "a configuration of `brimful serve`") from error
    config = load_config(path)
    upstreams = {each.url: os.environ.get(each.key) if each.key else None for each in config.upstreams}
    return Subject(
        db=config.store, embedder=config.remember.embedder, model=subject.model, providers=subject.providers | upstreams
    )


def _examine(subject: Subject) -> Iterator[Finding]:
    yield Finding(
        state="ok",
        part="brimful",
        result=f"{brimful.__version__}, Python {platform.python_version()}, {sys.platform} {platform.machine()}",
    )
    yield _check_extras()
    checks: dict[str, Callable[[], Finding]] = {
        "counts": lambda: _check_counts(subject.model),
        "prices": lambda: _check_prices(subject.model),
        "embedder": lambda: _check_embedder(subject.embedder),
        "store": lambda: _check_store(subject.db),
        "inspector": _check_inspector,
    }
    for part, check in checks.items():
        yield _attempt(part, check)
    yield from _check_programs()
    for name, key in subject.providers.items():
        yield _attempt("server", lambda name=name, key=key: _check_provider(name, key))  # type: ignore[misc]


def _attempt(part: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except MissingExtra as error:
        return Finding(state="note", part=part, result="not installed", advice=str(error))
    except (BrimfulError, OSError) as error:
        return Finding(state="failed", part=part, result=str(error).partition("\n")[0])


def _check_extras() -> Finding:
    missing: dict[str, bool] = {}
    for requirement in metadata.requires("brimful") or ():
        extra, name = _EXTRA.search(requirement), _NAME.match(requirement)
        if extra and name:
            missing[extra[1]] = missing.get(extra[1], False) or not _is_installed(name[0])
    installed = [extra for extra, lacks in missing.items() if not lacks]
    others = [extra for extra, lacks in missing.items() if lacks]
    return Finding(
        state="ok",
        part="extras",
        result=", ".join(installed) or "none",
        advice=f"pip install 'brimful[NAME]' adds one of {', '.join(others)}" if others else "",
    )


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _check_counts(name: str) -> Finding:
    from brimful.counting import counter_for  # noqa: PLC0415 - slow to import
    from brimful.models import default_registry  # noqa: PLC0415

    model = default_registry().resolve(name)
    counter = counter_for(model)
    count = counter.text(_SAMPLE)
    expected = _SAMPLE_TOKENS.get(counter.tokenizer, count.tokens)
    if count.tokens != expected:
        result = f"{counter.tokenizer} counts {count.tokens} tokens where {expected} are right"
        return Finding(state="failed", part="counts", result=result, advice="reinstall splintr-rs")
    result = f"{model.id}: window of {model.window:,}, {counter.tokenizer}, {count.basis}"
    if not model.known:
        advice = f"{name!r} is not in the registry: add it to a file of models, and set BRIMFUL_MODELS to its path"
        assumed = ", window assumed" if model.assumed_window else ""
        return Finding(state="note", part="counts", result=f"{result}{assumed}", advice=advice)
    return Finding(state="ok", part="counts", result=result)


def _check_prices(name: str) -> Finding:
    from brimful.models import default_registry, request_cost  # noqa: PLC0415 - slow to import

    found = request_cost(default_registry().resolve(name), 1_000_000, 0)
    if found is None:
        return Finding(state="note", part="prices", result=f"no price is known for {name}")
    return Finding(state="ok", part="prices", result=f"${found.prompt:,.2f} for a million input tokens ({found.as_of})")


def _check_embedder(name: str) -> Finding:
    from brimful.embedding import embedder_for  # noqa: PLC0415 - slow to import

    embedder = embedder_for(name)
    if embedder is None:
        return Finding(state="note", part="embedder", result="none: memories are found by words only")

    async def embed() -> Any:
        try:
            return await embedder.embed([_SAMPLE], "passage")
        finally:
            await embedder.close()

    rows = asyncio.run(embed())
    return Finding(state="ok", part="embedder", result=f"{embedder.id}, {rows.shape[1]} dimensions")


def _check_store(db: str) -> Finding:
    from brimful.stores import connect  # noqa: PLC0415 - slow to import
    from brimful.stores.urls import parse_url  # noqa: PLC0415

    shown = parse_url(db).shown
    if not has_store(db):
        return Finding(state="note", part="store", result=f"{shown}: none yet", advice="`brimful import` creates one")

    async def check(database: "Database") -> Finding:
        tenants = await database.tenants(limit=2)
        failed = await database.list_jobs(failed=True, limit=1)
        whose = {0: "empty", 1: f"tenant {tenants[0]!r}" if tenants else ""}.get(len(tenants), "several tenants")
        advice = "some background work failed: see `brimful work --failed`" if failed else ""
        return Finding(state="note" if failed else "ok", part="store", result=f"{shown}: {whose}", advice=advice)

    async def opened() -> Finding:
        async with connect(db, migrate=False, wait=_TIMEOUT) as database:
            return await check(database)

    try:
        return asyncio.run(opened())
    except MigrationError as error:
        advice = "`brimful db migrate` prepares a store of an older version"
        return Finding(state="failed", part="store", result=str(error), advice=advice)


def _check_inspector() -> Finding:
    if find_spec("starlette") is None:
        raise MissingExtra("server", "`brimful serve` with the inspector")
    page = Path(brimful.__file__).parent / "server" / "static" / "index.html"
    if page.is_file():
        return Finding(state="ok", part="inspector", result="built")
    return Finding(state="note", part="inspector", result="its page is not built", advice="in a clone, run `make web`")


def _check_programs() -> Iterator[Finding]:
    """Check the programs in which Brimful is installed for this user."""
    from brimful.plugins import install  # noqa: PLC0415 - slow to import

    for each in install.list_programs(install.Options()):
        if each.problem:
            yield Finding(state="note", part=each.program, result="not readable", advice=each.problem)
        elif each.installed:
            problems = install.check(each.program)
            state: State = "failed" if problems else "ok"
            yield Finding(state=state, part=each.program, result="installed", advice="; ".join(problems))


def _check_provider(name: str, key: str | None) -> Finding:
    try:
        from brimful.providers import HttpProvider, make_provider  # noqa: PLC0415 - an extra
        from brimful.providers.server_models import parse_server_models  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra("remote", "a server that runs models") from error
    provider = make_provider(name, key=key)
    assert isinstance(provider, HttpProvider)  # noqa: S101 - made from a string

    async def ask() -> bytes:
        try:
            async with asyncio.timeout(_TIMEOUT):
                path = provider.dialect.wire.models_path or "/models"
                return (await provider.connection.get(path)).body
        finally:
            await provider.close()

    try:
        models = parse_server_models(asyncio.run(ask()))
    except TimeoutError:
        result = f"{provider.route}: no answer within {_TIMEOUT:.0f} seconds"
        return Finding(state="failed", part="server", result=result, advice="is it running, and is the URL right?")
    return Finding(state="ok", part="server", result=f"{provider.route}: {len(models):,} models")
