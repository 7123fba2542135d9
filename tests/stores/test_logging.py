"""A store prints nothing; problems are errors."""

import subprocess
import sys

LOST = """
import asyncio, sys
import psycopg
from brimful.records import Room
from brimful.stores import connect


async def main(url):
    async with connect(url) as database:
        await database.tenant("acme").put(Room(id="den"))
        with psycopg.connect(url) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid()"
            )
        await database.tenant("acme").put(Room(id="attic"))


asyncio.run(main(sys.argv[1]))
"""


def test_a_program_without_a_log_shows_no_lines_of_the_pool_of_connections(postgres_url):
    done = subprocess.run([sys.executable, "-c", LOST, postgres_url], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
