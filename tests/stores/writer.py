"""Posts messages to one room until it is killed, and prints the id of each one that was acknowledged."""

import asyncio
import itertools
import sys

from brimful.stores import connect
from stores.samples import make_message


async def write(url, name):
    async with connect(url, wait=120.0) as database:
        store = database.tenant("acme")
        print("ready", flush=True)  # noqa: T201 - whoever started it listens
        sys.stdin.readline()  # … and says when to begin
        for number in itertools.count():
            batch = [make_message(f"{name}-{number}-{at}", f"text {number} by {name}") for at in range(1 + number % 3)]
            # An id that every writer posts: the first one stands, whoever it is.
            shared = make_message(f"shared-{number}", f"shared by {name}")
            posted = await store.post([*batch, shared])
            print(*(message.id for message in posted), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:]))
