"""Move a tenant from one store of a directory to another.

Meanwhile the tenant can be read, but not written. It is in the old store until one commit says that it has moved. If a
move is interrupted, the next one starts again.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from brimful.errors import InvalidValue, StoreError
from brimful.stores.admin.backup import COPIED_TABLES, copy_tenant
from brimful.stores.backends.directory import PLACEMENT_LOCK, DirectoryDriver, State, get_placement
from brimful.stores.backends.driver import Driver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.session import Session

_SET_PLACEMENT: Final = """
INSERT INTO placements (tenant, store, state) VALUES (:tenant, :store, :state)
ON CONFLICT (tenant) DO UPDATE SET store = excluded.store, state = excluded.state
"""
_END_PLACEMENT: Final = "DELETE FROM placements WHERE tenant = :tenant"
_TENANT_TABLES: Final = {
    "sqlite": """
        SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c ON c.name = 'tenant'
        WHERE t.type = 'table' AND :tenant <> ''""",
    "postgres": """
        SELECT t.table_name FROM information_schema.tables t
        JOIN information_schema.columns c USING (table_schema, table_name)
        WHERE c.column_name = 'tenant' AND t.table_type = 'BASE TABLE' AND t.table_schema = current_schema()
          AND :tenant::text <> ''""",
}


async def move_tenant(
    directory: DirectoryDriver, keyring: Keyring, tenant: str, to: str, go_on: Callable[[], None]
) -> None:
    """Move a tenant to a store. `go_on` raises if it has to stop."""
    if to not in directory.stores:
        raise InvalidValue("to", f"must be one of {', '.join(directory.stores)}, not {to!r}")
    origin, target = await directory.locate(tenant), await directory.driver(to)
    if origin != to:
        await _move(directory, keyring, tenant, origin, to, go_on)
    arrival = await target.read(tenant, get_placement)
    if arrival is not None:  # clean up after this move, or one that was interrupted
        source = await directory.driver(arrival.store)
        await source.write(tenant, _delete_tenant)
        if directory.home not in (arrival.store, to):
            home = await directory.driver(directory.home)
            await home.write(tenant, partial(_place, store=to, state="moved"))
        await target.write(tenant, lambda session: session.run(_END_PLACEMENT))


async def _move(
    directory: DirectoryDriver, keyring: Keyring, tenant: str, origin: str, to: str, go_on: Callable[[], None]
) -> None:
    source, target = await directory.driver(origin), await directory.driver(to)
    if target.dialect.name != "postgres":
        raise InvalidValue("to", f"tenants can be moved to PostgreSQL stores only, and {to!r} is a SQLite file")
    await target.write(tenant, _delete_tenant)  # what an interrupted move has left
    await target.write(tenant, partial(_place, store=origin, state="arriving"))
    await source.write(tenant, partial(_place, store=to, state="moving"))
    try:
        copy = partial(_copy, target=target, keyring=keyring, go_on=go_on)
        await source.read(tenant, keyring.reading(copy))
    except BaseException:
        await source.write(tenant, lambda session: session.run(_END_PLACEMENT))
        await target.write(tenant, _delete_tenant)
        raise
    await source.write(tenant, partial(_place, store=to, state="moved"))
    await directory.locate(tenant)


def _place(session: Session, *, store: str, state: State) -> None:
    session.dialect.lock(session, PLACEMENT_LOCK)  # waits for all that are writing
    session.run(_SET_PLACEMENT, store=store, state=state)


def _copy(source: Session, *, target: Driver, keyring: Keyring, go_on: Callable[[], None]) -> None:
    """Copy a tenant in one transaction, and check that everything has arrived."""

    def copy_to(session: Session) -> None:
        def write(function: Callable[[Session], None]) -> None:
            go_on()
            function(session)

        copy_tenant(source, write, lambda function: write(keyring.writing(function)))
        for table in COPIED_TABLES:
            count = f"SELECT count(*) FROM {table} WHERE tenant = :tenant"  # noqa: S608 - our own tables
            if source.row(count) != session.row(count):
                raise StoreError(table, f"not all rows of tenant {source.tenant!r} were copied; nothing was moved")

    target.write_now(source.tenant, copy_to)


def _delete_tenant(session: Session) -> None:
    """Delete everything that a tenant has in a store, but not where it is."""
    session.dialect.text_index.clear(session)
    for (table,) in session.rows(_TENANT_TABLES[session.dialect.name]):
        if table != "placements":
            session.run(f"DELETE FROM {table} WHERE tenant = :tenant")  # noqa: S608 - our own tables
