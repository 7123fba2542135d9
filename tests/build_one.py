"""Build one context with much in it and print its record: the same bytes in every process."""

import sys

import brimful
from brimful import packagers

NOW = 1_800_000_000.0
counter = brimful.counter("gpt-4o")
pile = [
    brimful.package("system-prompt", "You are Helper.", model="gpt-4o"),
    brimful.package("message-current", "And the memories?", model="gpt-4o", timestamp=NOW),
]
for n in range(60):
    pile.append(
        packagers.message(f"Message {n} about tea. " * (n % 9 + 1), counter=counter, id=f"m{n}", timestamp=NOW - n)
    )
    pile.append(
        packagers.memory(
            f"Fact {n % 40} is known.",
            counter=counter,
            id=f"f{n}",
            timestamp=NOW - 1e6,
            relevance=(n * 37 % 100) / 100,
            metadata={"tags": {"b": 1, "a": 2}},
        )
    )
unordered = {package.id for package in pile}
by_id = {package.id: package for package in pile}
context = brimful.assemble([by_id[id] for id in unordered], model="gpt-4o", window=1500, completion=200, now=NOW)
sys.stdout.buffer.write(context.to_json())
