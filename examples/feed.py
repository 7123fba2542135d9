"""Feed a store from many files with several processes, and leave indexing and embedding to workers.

    python examples/feed.py postgresql://ada@db.example.org/chat exports/*.jsonl --processes 8
    brimful work --db postgresql://ada@db.example.org/chat

Each file holds the messages of one tenant, named as the file: JSON lines with `room`, `role` and `content`. After every
batch, a file `NAME.jsonl.at` says how far it got. If you stop the program, or it is killed, run it again: it continues
there. The batch that was on its way is sent twice and stored once, because ids are made from line numbers.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path

from brimful import SyncEngine
from brimful.records import Message
from brimful.stores import connect

BATCH = 5_000  # messages per transaction
WIDTH = 40  # characters of the bar


def main() -> None:
    """Feed all files, and draw a bar of the bytes that are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the store")
    parser.add_argument("files", nargs="+", type=Path, help="JSON lines, one file for each tenant")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--model", default="gpt-4o", help="messages are counted for this model; default: %(default)s")
    options = parser.parse_args()
    total, done, messages = sum(file.stat().st_size for file in options.files), 0, 0
    asyncio.run(_migrate(options.url))
    with ProcessPoolExecutor(options.processes) as pool:
        running = {pool.submit(feed, options.url, file, options.model): file for file in options.files}
        for each in as_completed(running):
            messages += each.result()
            done += running[each].stat().st_size
            filled = WIDTH * done // max(1, total)
            sys.stderr.write(f"\r[{'#' * filled}{'.' * (WIDTH - filled)}] {done / max(1, total):.0%}")
    sys.stderr.write("\n")
    sys.stdout.write(f"{messages} new messages from {len(options.files)} files\n")


async def _migrate(url: str) -> None:
    """Create the tables once, before all processes open the store."""
    async with connect(url):
        pass


def feed(url: str, file: Path, model: str) -> int:
    """Feed one file, from where it was left, and return the number of messages."""
    progress, count = Path(f"{file}.at"), 0
    start = int(progress.read_text(encoding="ascii")) if progress.exists() else 0
    with SyncEngine(url, tenant=file.stem, model=model, indexing="elsewhere") as engine:
        lines = islice(_messages(file), start, None)
        while batch := list(islice(lines, BATCH)):
            engine.load(batch, defer=True)
            count += len(batch)
            progress.write_text(str(start + count), encoding="ascii")
    return count


def _messages(file: Path) -> Iterator[Message]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            yield Message(
                id=f"{file.stem}-{number}",
                room=row["room"],
                role=row.get("role", "user"),
                content=row["content"],
                at=row.get("at", float(number)),
            )


if __name__ == "__main__":
    main()
