"""Open the store or the engine for one command, and close it afterwards.

The engine is imported only when a command needs one, so that other commands start faster.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from brimful.cli import output
from brimful.cli.output import Failure

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store


T = TypeVar("T")

INDEX_WAIT: Final = 2.0  # seconds that a search waits for what was written and not embedded yet


def with_engine(
    question: "Callable[[Engine], Awaitable[T]]",
    *,
    db: str,
    tenant: str,
    embedder: str = "none",
    indexing: bool = True,
    new: bool = False,
) -> T:
    """Open an engine, ask it, and return its answer. Only with `new` is a store made where there is none.

    Without `indexing`, nothing is embedded meanwhile: whoever only looks leaves no trace.
    """
    from brimful.engine import Engine  # noqa: PLC0415 - see above

    if not new:
        require_store(db)

    async def asked() -> T:
        async with Engine(db, tenant=tenant, embedder=embedder, indexing=indexing) as engine:
            return await question(engine)

    return _run(asked())


def with_store(question: "Callable[[Store], Awaitable[T]]", *, db: str, tenant: str) -> T:
    """Open a store alone, ask it, and return its answer: who only reads what is kept waits for no engine."""
    from brimful.stores import connect  # noqa: PLC0415 - see above

    require_store(db)

    async def asked() -> T:
        async with connect(db) as database:
            return await question(database.tenant(tenant))

    return _run(asked())


def _run(question: Awaitable[T]) -> T:
    """Wait for an answer in a loop of its own.

    Before Python 3.13, `asyncio.run` writes out as text whatever its task returned, and shows it to nobody; of a
    context with thousands of candidates that takes as long as to build it. So the task returns nothing.
    """
    answers: list[T] = []

    async def kept() -> None:
        answers.append(await question)

    asyncio.run(kept())
    return answers[0]


def has_store(db: str) -> bool:
    """Say whether there is a file with a store where it should be; of a server, only a connection can tell."""
    from brimful.stores.backends.sqlite import is_store_file  # noqa: PLC0415 - see above
    from brimful.stores.urls import parse_url  # noqa: PLC0415 - see above

    path = parse_url(db).path
    return not path or (Path(path).exists() and is_store_file(Path(path)))


def require_store(db: str) -> None:
    """Refuse a file that is not there, or is another program's: a question must not leave an empty store behind."""
    from brimful.stores.urls import parse_url  # noqa: PLC0415 - see above

    target = parse_url(db)
    if not has_store(db):
        which = "store in this file" if Path(target.path).exists() else "such store"
        raise Failure(f"{target.shown}: there is no {which}; `brimful import` or `brimful room create` makes one")


async def wait_for_index(engine: "Engine") -> None:
    """Wait a little for what was written and not embedded yet; if it takes longer, say how much still waits."""
    try:
        async with asyncio.timeout(INDEX_WAIT):
            await engine.wait_indexed()
    except TimeoutError:
        output.warn("some of what is stored has no vectors yet, and is found by its words alone; see `brimful index`")
