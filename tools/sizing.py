"""Estimate the machines that a load needs: `python tools/sizing.py --messages 1e9 --builds-per-second 500`.

The costs are those of docs/scaling.md. Processors are planned for 60 % use, disks and memory for 70 %.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import Any, Final

# What one message and one build cost on PostgreSQL, measured by benchmarks/storage.py and benchmarks/records.py.
COSTS: Final = {
    "message_bytes": 2_500,  # with indexes and a vector of 256 numbers
    "record_bytes": 12_500,
    "summary_bytes": 2_100,  # of a build that is not recorded
    "build_client_ms": 75.0,  # milliseconds of processor, of a server and of the database
    "build_server_ms": 23.0,
    "write_client_ms": 1.2,
    "write_server_ms": 0.7,
}
GIGA, TERA = 1e9, 1e12
USE: Final = 0.6  # of the processors, so that peaks do not queue
FILL: Final = 0.7  # of disks and memory
HOT: Final = 0.05  # of the data is read often, and belongs into the memory of the database; a guess
CONNECTIONS: Final = 8  # of a process, unless the URL of the store says otherwise
MAX_CONNECTIONS: Final = 90  # PostgreSQL accepts 100 by default
ONE_SERVER_BYTES: Final = 1e12  # above, backups, vacuuming and moving take hours; a judgement
REPLICA_BYTES: Final = 100e9  # above, exports and backups disturb others; a judgement
MIN_SHARDS, MAX_SHARDS, SHARDS_PER_NODE = 32, 256, 8  # planning gets slow with thousands of tables
WRITES_PER_BUILD: Final = 2  # a question and its answer
OPTIONS: Final = {
    "tenants": (1, "tenants"),
    "keep-days": (30, "days for which records of contexts are kept"),
    "record-share": (1, "share of contexts that are recorded, from 0 to 1"),
    "node-cores": (32, "cores of a database server"),
    "node-memory-gb": (256, "its memory"),
    "node-disk-tb": (8, "its disk"),
}


def estimate(load: dict[str, float]) -> dict[str, Any]:
    """Return what a load needs."""
    data = load["messages"] * COSTS["message_bytes"]
    share = load["record_share"]
    per_build = share * COSTS["record_bytes"] + (1 - share) * COSTS["summary_bytes"]
    records = load["builds_per_second"] * 86_400 * load["keep_days"] * per_build
    total = data + records
    client_ms = COSTS["build_client_ms"] + WRITES_PER_BUILD * COSTS["write_client_ms"]
    server_ms = COSTS["build_server_ms"] + WRITES_PER_BUILD * COSTS["write_server_ms"]
    processes = max(1, math.ceil(load["builds_per_second"] * client_ms / 1_000 / USE))
    cores = load["builds_per_second"] * server_ms / 1_000 / USE
    nodes = math.ceil(
        max(
            total / (load["node_disk_tb"] * TERA * FILL),
            cores / load["node_cores"],
            total * HOT / (load["node_memory_gb"] * GIGA * FILL),
        )
    )
    is_cluster = total > ONE_SERVER_BYTES or nodes > 1
    return {
        "data_bytes": data,
        "record_bytes": records,
        "server_processes": processes,
        "database_cores": cores,
        "hot_bytes": total * HOT,
        "connections": processes * CONNECTIONS,
        "database_nodes": max(2 if is_cluster else 1, nodes),
        "shards": count_shards(nodes) if is_cluster else 0,
    }


def count_shards(nodes: int) -> int:
    """Return a power of two, with several shards on each node, so that they can be moved."""
    return min(MAX_SHARDS, max(MIN_SHARDS, 1 << (nodes * SHARDS_PER_NODE - 1).bit_length()))


def list_steps(load: dict[str, float], found: dict[str, Any]) -> Iterator[str]:
    """Yield the steps from one process to a cluster that a load takes."""
    if found["server_processes"] == 1:
        yield "One process: `brimful serve`, with SQLite or PostgreSQL."
    else:
        yield f"Several processes: {found['server_processes']:,} of `brimful serve`, with PostgreSQL."
        yield "Workers: run `brimful work` beside them, so that embedding does not delay answers."
    if found["connections"] > MAX_CONNECTIONS:
        yield f"A pooler: {found['connections']:,} connections are too many for PostgreSQL; use PgBouncer."
    if found["data_bytes"] + found["record_bytes"] > REPLICA_BYTES:
        yield "A replica for exports, backups and statistics."
    nodes, shards = found["database_nodes"], found["shards"]
    if shards and load["tenants"] < nodes:
        yield f"More tenants: {load['tenants']:,.0f} cannot be divided among {nodes:,} servers."
    elif shards:
        yield f"Citus by tenant: {nodes:,} workers and a coordinator, {shards} shards."
    if found["record_bytes"] > max(found["data_bytes"], REPLICA_BYTES):
        yield "Records take more than messages: keep them for fewer days, or record only a share of the builds."


def show_bytes(count: float) -> str:
    """Return a number of bytes for people."""
    unit, name = (TERA, "TB") if count >= TERA else (GIGA, "GB")
    return f"{count / unit:,.1f} {name}"


def describe(load: dict[str, float], found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an estimate."""
    kept = f"{COSTS['record_bytes']:,} bytes each, kept for {load['keep_days']:g} days"
    rows = {
        "messages": f"{show_bytes(found['data_bytes'])} ({COSTS['message_bytes']:,} bytes each)",
        "records": f"{show_bytes(found['record_bytes'])} ({kept})",
        "server processes": f"{found['server_processes']:,}, one core each",
        "database cores": f"{found['database_cores']:,.1f}",
        "often read": show_bytes(found["hot_bytes"]),
        "database connections": f"{found['connections']:,} without a pooler",
    }
    yield from (f"{name:<24}{value}" for name, value in rows.items())
    yield ""
    yield from (f"- {step}" for step in list_steps(load, found))


def main() -> None:
    """Print the estimate."""
    parser = argparse.ArgumentParser(description="Estimate the machines that a load needs.")
    parser.add_argument("--messages", type=float, required=True, help="stored messages")
    parser.add_argument("--builds-per-second", type=float, required=True, help="contexts built per second at the peak")
    for name, (default, meaning) in OPTIONS.items():
        parser.add_argument(f"--{name}", type=float, default=default, help=f"{meaning}; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON, with the costs")
    load = vars(parser.parse_args())
    as_json = load.pop("json")
    found = estimate(load)
    if as_json:
        steps = list(list_steps(load, found))
        print(json.dumps({"load": load, "costs": COSTS, "estimate": found, "steps": steps}))  # noqa: T201 - its output
    else:
        sys.stdout.writelines(f"{line}\n" for line in describe(load, found))


if __name__ == "__main__":
    main()
