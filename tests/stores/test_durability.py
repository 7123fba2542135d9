"""Acknowledged messages survive killed processes, and rooms have neither gaps nor duplicates."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from brimful.stores import connect
from stores.samples import occurring

TESTS = Path(__file__).parent.parent
ROUNDS = {"sqlite": 4, "postgres": 2}
WRITERS = 3
FEWEST, MOST = 4, 12  # acknowledgements of a writer before it is killed


def start(url, name):
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, str(TESTS / "stores" / "writer.py"), url, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    )


def kill(writers, chance):
    """Let all of them get to work, and kill each at a moment of its own; return what they were told."""
    ready = [writer.stdout.readline() for writer in writers]
    for writer in writers:  # all at once: those that write without a pause may keep another one from opening the file
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    reports = []
    for writer in writers:
        reports += [
            writer.stdout.readline() for _ in range(chance.randint(FEWEST, MOST))
        ]  # however slow the machine is
        time.sleep(chance.uniform(0.0, 0.05))  # the moment of a death cannot be an argument
        writer.kill()
    acknowledged = {id for line in reports for id in line.decode().split()}
    for writer in writers:
        with writer:
            lines = writer.stdout.read().decode().split("\n")
        acknowledged.update(id for line in lines[:-1] for id in line.split())  # the last line may be cut off
        assert writer.returncode == -signal.SIGKILL
    assert ready == [b"ready\n"] * len(writers)
    return acknowledged


async def looked_at(url):
    async with connect(url) as database:
        history = await database.tenant("acme").history("general", limit=1_000_000)
        words = await occurring(database.tenant("acme"), ["room:general"], ["by"])
        return [(each.message.seq, each.message.id) for each in history], words, await database.check()


def test_nothing_acknowledged_is_lost_when_writers_are_killed(url, run):
    chance = random.Random(7)
    acknowledged = set()
    for number in range(ROUNDS["sqlite" if url.startswith("sqlite") else "postgres"]):
        acknowledged |= kill([start(url, f"{number}-{name}") for name in range(WRITERS)], chance)
        history, words, findings = run(looked_at(url))
        ids = [id for _, id in history]
        assert acknowledged <= set(ids)
        assert len(ids) == len(set(ids))
        assert [seq for seq, _ in history] == list(range(len(history), 0, -1))
        assert words.document_frequency == (len(history),)
        assert findings == []
        assert any(id.startswith("shared-") for id in ids)
    assert len(acknowledged) > 20
