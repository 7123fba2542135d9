"""`brimful sizing`: estimate the machines that a load needs."""

import math
from typing import Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import Json

SIZING_EXAMPLES: Final = """\
Examples:
  brimful sizing --tenants 1000 --messages 5e6 --builds-per-second 5
  brimful sizing --tenants 10e6 --messages 10e9 --builds-per-second 5000 --keep-days 1
  brimful sizing --messages 1e9 --builds-per-second 500 --json"""

_GIGA, _TERA = 1e9, 1e12
_USE: Final = 0.6  # of the processors, so that peaks do not queue
_FILL: Final = 0.7  # of disks and memory
_HOT: Final = 0.05  # of the data is read often, and belongs into the memory of the database; a guess
_CONNECTIONS: Final = 8  # of a process, unless the URL of the store says otherwise
_MAX_CONNECTIONS: Final = 90  # PostgreSQL accepts 100 by default
_ONE_SERVER_BYTES: Final = 1e12  # above, backups, vacuuming and moving take hours; a judgement
_REPLICA_BYTES: Final = 100e9  # above, exports and backups disturb others; a judgement
_MIN_SHARDS, _MAX_SHARDS, _SHARDS_PER_NODE = 32, 256, 8  # planning gets slow with thousands of tables
_WRITES_PER_BUILD: Final = 2  # a question and its answer


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one message and one build cost on PostgreSQL: bytes of tables and indexes, milliseconds of processor.

    Measured by `benchmarks/storage.py` and `benchmarks/records.py` on a busy machine; see docs/benchmarks.md.
    """

    message_bytes: int = 2_500
    record_bytes: int = 12_500
    summary_bytes: int = 2_100  # of a build that is not recorded
    build_client_ms: float = 75.0
    build_server_ms: float = 23.0
    write_client_ms: float = 1.2
    write_server_ms: float = 0.7


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to store and to do, and the machines for the database."""

    tenants: float
    messages: float
    builds_per_second: float
    keep_days: float
    record_share: float
    node_cores: int
    node_memory_gb: int
    node_disk_tb: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a load needs, and the `steps` from one process to a cluster that it takes."""

    data_bytes: float
    record_bytes: float
    server_processes: int
    database_cores: float
    hot_bytes: float
    connections: int
    database_nodes: int
    shards: int
    steps: list[str]


def estimate(load: Load, measured: Measured = Measured()) -> Estimate:  # noqa: B008 - frozen
    """Estimate what a load needs.

    >>> small = Load(tenants=1, messages=1e6, builds_per_second=1, keep_days=30, record_share=1, node_cores=32,
    ...              node_memory_gb=256, node_disk_tb=8)
    >>> estimate(small).steps
    ['One process: `brimful serve`, with SQLite or PostgreSQL.']
    """
    data = load.messages * measured.message_bytes
    per_build = load.record_share * measured.record_bytes + (1 - load.record_share) * measured.summary_bytes
    records = load.builds_per_second * 86_400 * load.keep_days * per_build
    total = data + records
    client_ms = measured.build_client_ms + _WRITES_PER_BUILD * measured.write_client_ms
    server_ms = measured.build_server_ms + _WRITES_PER_BUILD * measured.write_server_ms
    processes = max(1, math.ceil(load.builds_per_second * client_ms / 1_000 / _USE))
    cores = load.builds_per_second * server_ms / 1_000 / _USE
    nodes = math.ceil(
        max(
            total / (load.node_disk_tb * _TERA * _FILL),
            cores / load.node_cores,
            total * _HOT / (load.node_memory_gb * _GIGA * _FILL),
        )
    )
    is_cluster = total > _ONE_SERVER_BYTES or nodes > 1
    found = Estimate(
        data_bytes=data,
        record_bytes=records,
        server_processes=processes,
        database_cores=cores,
        hot_bytes=total * _HOT,
        connections=processes * _CONNECTIONS,
        database_nodes=max(2 if is_cluster else 1, nodes),
        shards=_count_shards(nodes) if is_cluster else 0,
        steps=[],
    )
    return msgspec.structs.replace(found, steps=list(_list_steps(load, found)))


def _count_shards(nodes: int) -> int:
    """Return a power of two, with several shards on each node, so that they can be moved."""
    return min(_MAX_SHARDS, max(_MIN_SHARDS, 1 << (nodes * _SHARDS_PER_NODE - 1).bit_length()))


def _list_steps(load: Load, found: Estimate) -> list[str]:
    total = found.data_bytes + found.record_bytes
    steps = []
    if found.server_processes == 1:
        steps.append("One process: `brimful serve`, with SQLite or PostgreSQL.")
    else:
        steps.append(f"Several processes: {found.server_processes:,} of `brimful serve`, with PostgreSQL.")
        steps.append("Workers: run `brimful work` beside them, so that embedding does not delay answers.")
    if found.connections > _MAX_CONNECTIONS:
        steps.append(f"A pooler: {found.connections:,} connections are too many for PostgreSQL; use PgBouncer.")
    if total > _REPLICA_BYTES:
        steps.append("A replica for exports, backups and statistics.")
    if found.shards and load.tenants < found.database_nodes:
        steps.append(f"More tenants: {load.tenants:,.0f} cannot be divided among {found.database_nodes:,} servers.")
    elif found.shards:
        nodes, shards = found.database_nodes, found.shards
        steps.append(f"Citus by tenant: {nodes:,} workers and a coordinator, {shards} shards.")
    if found.record_bytes > max(found.data_bytes, _REPLICA_BYTES):
        steps.append("Records take more than messages: keep them for fewer days, or record only a share of the builds.")
    return steps


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sizing", epilog=SIZING_EXAMPLES)(size)


def size(  # noqa: PLR0913 - one argument per option
    *,
    messages: Annotated[float, typer.Option("--messages", metavar="N", min=0, help="Stored messages.")],
    builds_per_second: Annotated[
        float, typer.Option("--builds-per-second", metavar="N", min=0, help="Contexts built per second at the peak.")
    ],
    tenants: Annotated[float, typer.Option("--tenants", metavar="N", min=1, help="Tenants.")] = 1,
    keep_days: Annotated[
        float, typer.Option("--keep-days", metavar="N", min=0, help="Days for which records of contexts are kept.")
    ] = 30,
    record_share: Annotated[
        float, typer.Option("--record-share", metavar="0…1", min=0, max=1, help="Share of contexts that are recorded.")
    ] = 1,
    node_cores: Annotated[
        int, typer.Option("--node-cores", metavar="N", min=1, help="Cores of a database server.")
    ] = 32,
    node_memory_gb: Annotated[
        int, typer.Option("--node-memory-gb", metavar="N", min=1, help="Memory of a database server.")
    ] = 256,
    node_disk_tb: Annotated[
        float, typer.Option("--node-disk-tb", metavar="N", min=0.001, help="Disk of a database server.")
    ] = 8,
    as_json: Json = False,
) -> None:
    """Estimate the machines that a load needs.

    The estimate uses the measured cost of a message and a context; see the
    benchmarks in the documentation. It plans processors for 60 % use, and disks
    and memory for 70 %. Measure your own load before you buy.
    """
    load = Load(
        tenants=tenants,
        messages=messages,
        builds_per_second=builds_per_second,
        keep_days=keep_days,
        record_share=record_share,
        node_cores=node_cores,
        node_memory_gb=node_memory_gb,
        node_disk_tb=node_disk_tb,
    )
    found = estimate(load)
    if as_json:
        output.show_json({"load": load, "measured": Measured(), "estimate": found})
        return
    for name, value in _rows(load, found):
        output.write(f"{name:<24}{value}")
    output.write("")
    for step in found.steps:
        output.write(f"- {step}")


def _rows(load: Load, found: Estimate) -> list[tuple[str, Any]]:
    return [
        ("messages", f"{_amount(found.data_bytes)} ({Measured().message_bytes:,} bytes each)"),
        (
            "records",
            f"{_amount(found.record_bytes)} ({Measured().record_bytes:,} bytes each, kept for {load.keep_days:g} days)",
        ),
        ("server processes", f"{found.server_processes:,}, one core each"),
        ("database cores", f"{found.database_cores:,.1f}"),
        ("often read", _amount(found.hot_bytes)),
        ("database connections", f"{found.connections:,} without a pooler"),
    ]


def _amount(count: float) -> str:
    """Return a number of bytes for people.

    >>> _amount(3.2e9), _amount(45e12)
    ('3.2 GB', '45.0 TB')
    """
    unit, name = (_TERA, "TB") if count >= _TERA else (_GIGA, "GB")
    return f"{count / unit:,.1f} {name}"
