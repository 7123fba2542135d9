"""`brimful sizing`."""

import json

from brimful.cli.sizing import Load, Measured, estimate


def make_load(**changes):
    load = {"tenants": 1e6, "messages": 1e6, "builds_per_second": 1.0, "keep_days": 30, "record_share": 1.0}
    return Load(**load | {"node_cores": 32, "node_memory_gb": 256, "node_disk_tb": 8.0} | changes)


def steps(**changes):
    return [step.partition(":")[0].split(" for ")[0] for step in estimate(make_load(**changes)).steps]


def test_each_step_comes_with_its_load():
    assert steps() == ["One process"]
    assert steps(builds_per_second=40, keep_days=0) == ["Several processes", "Workers"]
    assert steps(builds_per_second=300, keep_days=0) == ["Several processes", "Workers", "A pooler"]
    assert steps(messages=1e8) == ["One process", "A replica"]
    assert steps(messages=1e9) == ["One process", "A replica", "Citus by tenant"]
    assert steps(messages=1e11, tenants=2) == ["One process", "A replica", "More tenants"]
    assert steps(builds_per_second=5)[-1] == "Records take more than messages"
    assert steps(builds_per_second=5, record_share=0.01) == ["One process"]


def test_the_estimate_follows_what_was_measured():
    load = make_load(messages=1e9, builds_per_second=100, keep_days=2, record_share=0.5)
    costs = {"build_client_ms": 58, "build_server_ms": 28, "write_client_ms": 1, "write_server_ms": 1}
    found = estimate(load, Measured(message_bytes=1_000, record_bytes=10, summary_bytes=2, **costs))
    assert found.data_bytes == 1e12
    assert found.record_bytes == 100 * 86_400 * 2 * (0.5 * 10 + 0.5 * 2)
    assert found.server_processes == 10
    assert found.database_cores == 5
    assert found.connections == 80


def test_the_command_shows_it_as_text_and_json(run):
    assert "- Citus by tenant: " in run("sizing", "--messages=1e9", "--builds-per-second=500", "--tenants=1e6").stdout
    data = json.loads(run("sizing", "--messages=1e9", "--builds-per-second=500", "--json").stdout)
    assert data["load"]["messages"] == 1e9
    assert data["estimate"]["steps"]
    assert data["measured"]["message_bytes"] == Measured().message_bytes
    assert "'--messages'" in run("sizing", "--messages=-1", "--builds-per-second=1", code=2).stderr
