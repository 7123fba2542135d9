"""Measurements in processes and databases of their own, with this checkout of Brimful or with another one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

HERE = Path(__file__).parent.parent


def checkouts(against: Path | None) -> dict[str, Path]:
    """Return the checkouts to measure, by name."""
    return {"now": HERE} if against is None else {"before": against, "now": HERE}


def call(script: str, checkout: Path, *arguments: str) -> Any:
    """Return what a script of this folder prints as its last line, in JSON, if it imports Brimful from a checkout."""
    command = [sys.executable, script, "--measure", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(HERE / "benchmarks")])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Create an empty database, yield its URL, and drop it."""
    import psycopg  # noqa: PLC0415 - an extra

    name = f"bench_{uuid4().hex}"
    start, _, end = server.partition("?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield f"{start.rpartition('/')[0]}/{name}{'?' if end else ''}{end}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
