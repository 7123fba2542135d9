"""Open the store or the engine for one command, and close it afterwards.

The engine is imported only when a command needs one, so that other commands start faster.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from brimful.cli import output
from brimful.cli.options import StoreOptions
from brimful.cli.output import Failure

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.records.memory import Untrusted
    from brimful.records.own_calls import SpendingLimit
    from brimful.stores import Database, Store


T = TypeVar("T")

INDEX_WAIT: Final = 2.0  # seconds that a search waits for new records to be embedded


def with_engine(
    work: "Callable[[Engine], Awaitable[T]]",
    *,
    target: StoreOptions,
    embedder: str = "none",
    provider: str = "",
    indexing: bool = True,
    own_calls: "SpendingLimit | None" = None,
    new: bool = False,
    untrusted: "Untrusted" = "propose",
) -> T:
    """Open an engine, run `work` with it, and return the result. A missing store is created only with `new`.

    Without `indexing`, nothing is embedded in the meantime, so that a preview changes nothing.
    """
    from brimful.engine import Engine  # noqa: PLC0415 - see above

    if not new:
        require_store(target.db)

    async def run() -> T:
        async with Engine(
            target.db,
            tenant=target.tenant,
            embedder=embedder,
            provider=provider,
            indexing=indexing,
            own_calls=own_calls,
            untrusted=untrusted,
        ) as engine:
            return await work(engine)

    return _run(run())


def with_store(work: "Callable[[Store], Awaitable[T]]", *, target: StoreOptions) -> T:
    """Open a store without an engine, which is faster, run `work` with it, and return the result."""
    return with_database(lambda database: work(database.tenant(target.tenant)), target.db)


def with_database(work: "Callable[[Database], Awaitable[T]]", db: str, *, new: bool = False) -> T:
    """Open the database of all tenants, run `work` with it, and return the result."""
    from brimful.stores import connect  # noqa: PLC0415 - see above

    if not new:
        require_store(db)

    async def run() -> T:
        async with connect(db) as database:
            return await work(database)

    return _run(run())


def _run(work: Awaitable[T]) -> T:
    """Run a coroutine in an event loop of its own.

    Before Python 3.13, `asyncio.run` formats the result of its task as text and discards it. For a context with
    thousands of candidates, that takes as long as building it. So the task returns nothing.
    """
    results: list[T] = []

    async def collect() -> None:
        results.append(await work)

    asyncio.run(collect())
    return results[0]


def has_store(db: str) -> bool:
    """Return whether there is a store in the file. For a server, only a connection can tell."""
    from brimful.stores.backends.sqlite import is_store_file  # noqa: PLC0415 - see above
    from brimful.stores.urls import parse_url  # noqa: PLC0415 - see above

    path = parse_url(db).path
    return not path or (Path(path).exists() and is_store_file(Path(path)))


def require_store(db: str) -> None:
    """Fail if the file does not exist or is not a store: reading must not create an empty store."""
    from brimful.stores.urls import parse_url  # noqa: PLC0415 - see above

    target = parse_url(db)
    if not has_store(db):
        problem = "this file is not a store" if Path(target.path).exists() else "there is no such store"
        raise Failure(f"{target.shown}: {problem}; create one with `brimful import` or `brimful room add`")


async def wait_for_index(engine: "Engine") -> None:
    """Wait a little for new records to be embedded; warn if it takes longer."""
    try:
        async with asyncio.timeout(INDEX_WAIT):
            await engine.wait_indexed()
    except TimeoutError:
        output.warn("some records have no vectors yet and are found by words only; see `brimful index`")
