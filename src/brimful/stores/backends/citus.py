"""Citus: an extension of PostgreSQL that distributes tables by tenant over several servers. This sets it up."""

from collections.abc import Callable
from graphlib import TopologicalSorter
from typing import Any, Final

import msgspec
import psycopg
from psycopg import sql

from brimful.errors import MigrationError, StoreError

Connection = psycopg.Connection[tuple[Any, ...]]

# Without it, workers would not know the tenant, and row-level security would hide every row.
PROPAGATE: Final = "SET LOCAL citus.propagate_set_commands = 'local'"
_IS_INSTALLED: Final = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
# An aggregate returns a row even where the tenant has none, and the worker evaluates the setting.
READ_BACK: Final = "SELECT count(*), current_setting('brimful.tenant', true) FROM tenants WHERE tenant = :tenant"
_IS_DISTRIBUTED: Final = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('tenants'))"
# Tables of a transaction that changes several of them are changed one after the other.
SEQUENTIAL: Final = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"
_TABLES: Final = """
SELECT c.relname, p.logicalrelid IS NOT NULL,
  array(SELECT f.relname FROM pg_constraint k JOIN pg_class f ON f.oid = k.confrelid
    WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid)
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid
WHERE c.relkind = 'r' AND NOT relation_is_a_known_shard(c.oid)
  AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('tenants'))
ORDER BY c.relname
"""
_SIZE: Final = """
SELECT (SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = to_regclass('tenants')),
  (SELECT count(*) FROM pg_dist_node WHERE isactive AND shouldhaveshards)
"""
_DISTRIBUTE: Final = "SELECT create_distributed_table(%s, 'tenant', colocate_with => %s, shard_count => %s)"
_TRUNCATE_LOCAL: Final = "SELECT truncate_local_data_after_distributing_table(%s)"
# The shard of a tenant, and another server, with the fewest shards.
_SHARD: Final = """
SELECT s.shardid, s.shardminvalue::int, s.shardmaxvalue::int, worker_hash(%(tenant)s::text), (
  SELECT n.nodeid FROM pg_dist_node n LEFT JOIN pg_dist_placement o ON o.groupid = n.groupid
  WHERE n.isactive AND n.shouldhaveshards AND n.groupid <> p.groupid
  GROUP BY n.nodeid ORDER BY count(o.shardid) LIMIT 1)
FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid
WHERE s.shardid = get_shard_id_for_distribution_column('tenants', %(tenant)s::text)
"""
# To another server: on the same one, Citus does not find the keys of rows that change while it copies (version 14).
_SPLIT: Final = "SELECT citus_split_shard_by_split_points(%s, %s::text[], %s::int[], 'force_logical')"
_MISSING: Final = (
    "has no Citus; install it on every server, run CREATE EXTENSION citus in this database on each of them, and add "
    "the workers with citus_add_node"
)
_HIDDEN: Final = (
    "this needs a superuser: Citus copies rows as the current role, from which row-level security would hide them"
)
NO_LOGIN: Final = "is not permitted to log in"
NOT_PROPAGATED: Final = (
    "the tenant of a transaction does not reach the workers, where row-level security would hide every row; connect to "
    "the coordinator, and let no pooler change `SET LOCAL`"
)


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How tables are distributed, and which ones were distributed just now."""

    tables: list[str]
    shards: int
    servers: int


def is_installed(connection: Connection) -> bool:
    """Tell whether a database has the extension."""
    return is_true(connection, _IS_INSTALLED)


def require_coordinator(connection: Connection, store: str) -> None:
    """Raise if a database belongs to a worker: it has the tables, but migrations and locks are the coordinator's."""
    if is_installed(connection) and not is_true(connection, "SELECT citus_is_coordinator()"):
        raise MigrationError(store, "is a worker of a Citus cluster; connect to its coordinator")


def is_distributed(connection: Connection) -> bool:
    """Tell whether the tables of a store are distributed."""
    return is_installed(connection) and is_true(connection, _IS_DISTRIBUTED)


def distribute_tables(
    connection: Connection,
    store: str,
    *,
    shards: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Distribution:
    """Distribute all tables with a tenant that are not distributed yet, with their rows.

    All in one transaction: until it commits, programs wait for it, and if it fails, nothing has changed.
    """
    if not is_installed(connection):
        raise StoreError(store, _MISSING)
    connection.execute(SEQUENTIAL)
    found = connection.execute(_TABLES).fetchall()
    distributed = {name for name, done, _ in found if done}
    references = {name: {"tenants", *others} - {name} for name, _, others in found}
    waiting = [name for name in TopologicalSorter(references).static_order() if name not in distributed]
    _check_shards(connection, store, shards)
    for done, table in enumerate(waiting):
        _distribute(connection, table, shards)
        progress(done + 1, len(waiting))
    for table in reversed(waiting):  # rows were copied; without this, the copies here would never be erased
        connection.execute(_TRUNCATE_LOCAL, (table,))
    count, servers = _size(connection)
    return Distribution(tables=sorted(waiting), shards=count, servers=servers)


def allow_login(connection: Connection, role: str) -> None:
    """Let a role log in: the coordinator connects to the workers as the role of a transaction."""
    if not is_true(connection, f"SELECT rolcanlogin FROM pg_roles WHERE rolname = '{role}'"):  # noqa: S608 - our own
        connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(role)))


def isolate_tenant(connection: Connection, store: str, tenant: str, *, may_copy: bool) -> bool:
    """Move the rows of a tenant to a shard of their own, while they are used. Return False if it has one."""
    if not is_distributed(connection):
        raise StoreError(store, "is not distributed; run `brimful db distribute` first")
    if not may_copy:
        raise StoreError(store, _HIDDEN)
    (shard, first, last, hashed, server), *_ = connection.execute(_SHARD, {"tenant": tenant}).fetchall()
    if first == last:
        return False
    points = [str(point) for point in (hashed - 1, hashed) if first <= point < last]
    if server is None:
        connection.execute(
            "SELECT isolate_tenant_to_new_shard('tenants', %s::text, 'CASCADE', 'block_writes')", (tenant,)
        )
    else:
        connection.execute(_SPLIT, (shard, points, [server] * (len(points) + 1)))
    return True


def _distribute(connection: Connection, table: str, shards: int | None) -> None:
    # Row-level security would hide the rows from the owner of the table, who copies them.
    name = sql.Identifier(table)
    connection.execute(sql.SQL("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY").format(name))
    if table == "tenants":
        connection.execute(_DISTRIBUTE, (table, "none", shards))
    else:
        connection.execute(_DISTRIBUTE, (table, "tenants", None))
    connection.execute(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(name))


def _check_shards(connection: Connection, store: str, shards: int | None) -> None:
    count, _ = _size(connection)
    if shards and count and shards != count:
        raise StoreError(
            store,
            f"has {count} shards; to change that, run SELECT alter_distributed_table('tenants', "
            f"shard_count => {shards}, cascade_to_colocated => true)",
        )


def _size(connection: Connection) -> tuple[int, int]:
    (count, servers), *_ = connection.execute(_SIZE).fetchall()
    return count, servers


def is_true(connection: Connection, statement: str) -> bool:
    """Return whether the first value that a statement selects is true."""
    row = connection.execute(statement.encode()).fetchone()
    return bool(row and row[0])
