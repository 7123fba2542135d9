"""The example that feeds a store from files continues where it was stopped."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from brimful.stores import connect

EXAMPLE = Path(__file__).parent.parent / "examples" / "feed.py"


def feed(url, *files):
    done = subprocess.run([sys.executable, EXAMPLE, url, *files], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr.rstrip().rpartition("\n")[2]


async def stored(url):
    async with connect(url) as database:
        names = await database.tenants()
        histories = [await database.tenant(name).history("den", limit=9_999) for name in names]
        jobs = {job.tenant for job in await database.list_jobs() if job.kind == "embed"}
        return dict(zip(names, map(len, histories), strict=True)), jobs


def test_the_feed_continues_after_a_stop_and_stores_nothing_twice(tmp_path):
    files = [tmp_path / "acme.jsonl", tmp_path / "beta.jsonl"]
    for file in files:
        rows = ({"room": "den", "role": "user", "content": f"{file.stem} says {at}"} for at in range(700))
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    url = f"sqlite:///{tmp_path}/store.db"
    bar = f"[{'#' * 40}] 100%"
    assert feed(url, *files) == ("1400 new messages from 2 files\n", bar)
    assert feed(url, *files) == ("0 new messages from 2 files\n", bar)
    (tmp_path / "acme.jsonl.at").write_text("500")  # as after a kill between a batch and its mark
    assert feed(url, *files) == ("200 new messages from 2 files\n", bar)
    assert asyncio.run(stored(url)) == ({"acme": 700, "beta": 700}, {"acme", "beta"})
