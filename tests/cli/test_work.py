"""`brimful work`: jobs are done, listed and retried."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from brimful.embedding import StaticEmbedder
from brimful.engine import Engine
from brimful.records import Message
from brimful.stores import connect

URL = "sqlite:///brimful.db"


def post(*tenants, count=3):
    async def write():
        async with connect(URL) as database:
            for tenant in tenants:
                async with Engine(database, tenant=tenant, indexing="elsewhere") as engine:
                    await engine.post_many(
                        [Message(id=f"m{at}", room="den", content=f"text {at}", at=float(at)) for at in range(count)]
                    )

    asyncio.run(write())


def progress(tenant):
    async def read():
        async with connect(URL) as database:
            found = await database.tenant(tenant).index_progress(StaticEmbedder.id)
            return found.done, found.waiting

    return asyncio.run(read())


def test_due_jobs_are_done_once(run):
    post("acme", "beta")
    done = run("work", "--once", "--json").stdout
    assert sorted((report["tenant"], report["count"]) for report in map(json.loads, done.splitlines())) == [
        ("acme", 3),
        ("beta", 3),
    ]
    assert run("work", "--once").stdout == "0 jobs done\n"
    assert progress("acme") == (3, 0)


def test_the_janitor_and_retention_run_where_they_are_wanted(run):
    post("acme")
    done = run("work", "--once", "--json", "--janitor-interval", "6h", "--retention", "30d").stdout
    assert {json.loads(line)["kind"] for line in done.splitlines()} == {"embed", "janitor", "summarize", "retention"}


def test_a_worker_does_only_the_kinds_that_are_named(run):
    post("acme")
    kinds = []
    for options in ("count, janitor", "--janitor-interval", "6h"), ("summarize",), ("embed", "--retention", "30d"):
        done = run("work", "--once", "--json", "--kinds", *options).stdout
        kinds.append([json.loads(line)["kind"] for line in done.splitlines()])
    assert kinds == [["janitor"], ["summarize"], ["embed"]]
    assert "'summary' is not a kind of jobs; kinds are embed, " in run("work", "--kinds", "summary", code=2).stderr
    assert "janitor need --janitor-interval" in run("work", "--kinds", "janitor,embed", code=2).stderr
    assert "need --embedder" in run("work", "--kinds", "embed", "--embedder", "none", code=2).stderr


def test_failed_jobs_are_listed_and_retried(run, run_json):
    post("acme")
    assert run("work", "--failed").stdout == "no job has failed\n"
    with closing(sqlite3.connect("brimful.db")) as connection, connection:
        connection.execute("UPDATE jobs SET error = 'TimeoutError', attempts = 3, due = 9e9 WHERE kind = 'embed'")
    connection.close()
    assert "TimeoutError" in run("work", "--failed").stdout
    assert [job["tenant"] for job in run_json("work", "--failed")] == ["acme"]
    assert run_json("work", "--retry") == {"retried": 1}
    assert run("work", "--once").stdout == "1 job done\n"
    assert run("work", "--retry").stdout == "0 jobs due now\n"
    run("work", "--retry", "--failed", code=2)


def test_a_failure_is_the_exit_code(run):
    post("acme")
    with closing(sqlite3.connect("brimful.db")) as connection, connection:  # vectors of this length are refused
        connection.execute("UPDATE embedders SET dims = 7")
    connection.close()
    assert run("work", "--once", code=1).stdout == "0 jobs done, 1 failed\n"


def test_a_queued_file_is_imported(run, run_json, tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "den.jsonl").write_text('{"role": "user", "content": "Hi"}\n')
    assert run_json("import", "den.jsonl", "none.jsonl", "--queue", "--tenant", "acme") == {"queued": 2}
    assert run("import", "den.jsonl", "--queue", "--tenant", "acme").stdout.startswith("0 imports queued")
    run("import", "den.jsonl", "--queue", "--dry-run", code=2)
    done = run("work", "--once", "--json", "--import-folder", str(folder), code=1).stdout
    outcomes = [(report["kind"], report["outcome"], report["count"]) for report in map(json.loads, done.splitlines())]
    assert sorted(each for each in outcomes if each[0] == "import") == [("import", "done", 1), ("import", "failed", 0)]
    assert sum(count for kind, _, count in outcomes if kind == "embed") == 1  # while the import goes on, or after it
    assert run_json("work", "--discard") == {"discarded": 1}
    assert run("work", "--failed").stdout == "no job has failed\n"


def test_a_model_for_summaries_needs_jobs_of_that_kind(run):
    post("acme")
    run("work", "--once", "--model", "gpt-4o-mini", code=2)
    run("work", "--once", "--model", "gpt-4o-mini", "--janitor-interval", "6h", "--kinds", "janitor", code=2)
    assert run("work", "--once", "--model", "gpt-4o-mini", "--kinds", "summarize").stdout == "0 jobs done\n"


def test_a_heartbeat_shows_that_it_lives_and_a_signal_stops_it(run, tmp_path):
    post("acme")
    heartbeat = tmp_path / "alive"
    with subprocess.Popen(
        [sys.executable, "-m", "brimful", "work", "--db", URL, "--heartbeat", str(heartbeat), "--json"],
        stdout=subprocess.PIPE,
    ) as worker:
        assert json.loads(worker.stdout.readline())["outcome"] == "done"
        while not heartbeat.exists():
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=120) == 0
    assert progress("acme") == (3, 0)
    missing = tmp_path / "none" / "alive"
    failed = run("work", "--db", URL, "--heartbeat", str(missing), code=2)
    assert f"{missing} cannot be written: No such file or directory" in " ".join(failed.stderr.split())


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_worker_waits_for_an_unreachable_database(tmp_path, log_format):
    url = f"postgresql://ada@/chat?host={tmp_path}"
    command = [sys.executable, "-m", "brimful", "work", "--db", url, "--log-format", log_format]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        worker.stderr.readline()  # "working; Ctrl-C stops"
        line = (worker.stderr if log_format == "text" else worker.stdout).readline()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=120) == 0
    if log_format == "json":
        record = json.loads(line)
        assert (record["level"], record["logger"], record["time"][-6:]) == ("WARNING", "brimful", "+00:00")
        line = record["message"]
    assert line.startswith("no jobs can be read; trying again in 1 seconds")
