"""`brimful embeddings` and `brimful index`: list and try embedders, and embed what is stored."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import DEFAULT_EMBEDDER, EmbedderSpec, Json, StoreOptions
from brimful.cli.output import Failure, Table, columns, progress
from brimful.cli.store import with_engine
from brimful.embedding import embedder_for
from brimful.embedding.registry import EmbedderInfo
from brimful.embedding.registry import list_embedders as _list_available
from brimful.protocols import Embedder

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.protocols import Vectors
    from brimful.records.search import IndexProgress


EMBEDDINGS_EXAMPLES: Final = """\
Examples:
  brimful embeddings list
  brimful embeddings try "a cat" "the kitten" "income tax\""""

_EMBEDDER_COLUMNS: Final = columns(
    *("embedder", "dims", "MB", "texts/s", "languages", "licence", "here"),
    right=("dims", "MB", "texts/s"),
    spare=("licence", "MB", "texts/s", "dims", "languages"),
)
_LABEL_LENGTH: Final = 24  # characters


def register(app: typer.Typer) -> None:
    group = typer.Typer(name="embeddings", no_args_is_help=True)
    group.callback(epilog=EMBEDDINGS_EXAMPLES)(embeddings)
    group.command("list")(list_embedders)
    group.command("try")(try_texts)
    app.add_typer(group)
    app.command("index", epilog=INDEX_EXAMPLES)(index)


def embeddings() -> None:
    """List and try embedders."""


def list_embedders(*, as_json: Json = False) -> None:
    """List embedders, and what each still needs on this machine."""
    found = _list_available()
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_EMBEDDER_COLUMNS, [_embedder_row(offer) for offer in found]))
        output.write("\nfor other languages, for example:")
        for offer in found:
            if offer.multilingual:
                output.write(f"  {offer.multilingual}")


def try_texts(
    *,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="Two or more texts.")],
    name: Annotated[
        str, typer.Option("--embedder", "-e", metavar="NAME", help="The embedder (see `brimful embeddings list`).")
    ] = "static",
    as_json: Json = False,
) -> None:
    """Show how similar texts are.

    Prints their cosine similarity: 1.00 is the same meaning, 0.00 is
    unrelated.
    """
    embedder = embedder_for(name)
    if embedder is None:
        raise Failure("the embedder 'none' embeds nothing")
    near = asyncio.run(_similarities(embedder, texts))
    if as_json:
        output.show_json({"embedder": embedder.id, "texts": texts, "similarities": near.round(4).tolist()})
    else:
        output.show_table(_matrix(texts, near))


async def _similarities(embedder: Embedder, texts: list[str]) -> "Vectors":
    try:
        rows = await embedder.embed(texts, "passage")
    finally:
        await embedder.close()
    near: Vectors = rows @ rows.T
    return near


def _matrix(texts: list[str], near: "Vectors") -> Table:
    numbers = [str(i + 1) for i in range(len(texts))]
    rows = [
        [number, _label(text), *(f"{value:.2f}" for value in row)]
        for number, text, row in zip(numbers, texts, near, strict=True)
    ]
    return Table(columns("", "text", *numbers, right=("", *numbers)), rows)


def _label(text: str) -> str:
    """Shorten a label.

    >>> _label("one of those long texts that go on")
    'one of those long texts…'
    """
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 1].rstrip()}…"


def _embedder_row(offer: EmbedderInfo) -> list[str]:
    numbers = [output.format_number(value) for value in (offer.dims, offer.megabytes, offer.per_second)]
    return [offer.name, *numbers, " ".join(offer.languages) or "the model's", offer.licence, offer.missing or "yes"]


INDEX_EXAMPLES: Final = """\
Examples:
  brimful index
  brimful index --embedder small
  brimful index --status
  brimful index --drop openai:text-embedding-3-small@1"""

_INDEX_COLUMNS: Final = columns("embedder", "done", "waiting", right=["done", "waiting"])


class IndexStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one embedder."""

    embedder: str
    done: int
    waiting: int


def index(
    *,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    status: Annotated[
        bool, typer.Option("--status", help="Show the progress of each embedder without embedding anything.")
    ] = False,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="ID", help="Delete all vectors of this embedder.")
    ] = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Embed all stored records that have no vector yet.

    If a run is interrupted, the next one continues where it stopped. From
    then on, any program with an open engine embeds new records with this
    embedder in the background.
    """
    if status and drop is not None:
        raise typer.BadParameter("cannot be combined with --status", param_hint="'--drop'")
    if drop is not None:
        found = with_engine(lambda engine: _drop_embedder(engine, drop), target=target)
    elif status:
        found = with_engine(_index_status, target=target)
    else:
        found = with_engine(lambda engine: _embed_pending(engine, quiet=as_json), target=target, embedder=embedder)
    output.show_rows(
        found,
        _INDEX_COLUMNS,
        lambda each: [each.embedder, f"{each.done:,}", f"{each.waiting:,}"],
        empty="no embedder is in use",
        as_json=as_json,
    )


async def _embed_pending(engine: "Engine", *, quiet: bool) -> list[IndexStatus]:
    with progress("embedding", 1, quiet=quiet) as advance:

        def report(progress: "IndexProgress") -> None:
            advance(progress.done / max(1, progress.done + progress.waiting))

        await engine.index(report)
    return await _index_status(engine)


async def _drop_embedder(engine: "Engine", id: str) -> list[IndexStatus]:
    known = await engine.store.embedders()
    if id not in known:
        raise Failure(f"embedder {id!r} is not in use; in use: {', '.join(known) or 'none'}")
    await engine.store.drop_embedder(id)
    return await _index_status(engine)


async def _index_status(engine: "Engine") -> list[IndexStatus]:
    """Return the progress of each embedder, most recent first."""
    found = []
    for id in await engine.store.embedders():
        state = await engine.store.index_progress(id)
        found.append(IndexStatus(embedder=id, done=state.done, waiting=state.waiting))
    return found
