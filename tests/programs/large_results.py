"""Large results for agents that run commands, and what holds for those that a plugin shortened."""

import asyncio
import json
import os
import random
from pathlib import Path

from mcp import Client, StdioServerParameters

STEPS = 40
_LINES = 190  # of about 90 characters: 4,000 tokens, and less than what Claude Code puts into a file
_WORDS = "harbour keeper lamp storm tide rope ladder ledger parcel candle oil stairs gull fog signal watch"


def write_pages(folder: Path) -> None:
    """Write the pages that the agent reads. One line of page 7 has what the task asks for."""
    draw = random.Random(7)
    for number in range(STEPS):
        lines = [
            f"{number}.{at} The {' '.join(draw.choices(_WORDS.split(), k=12))} of {draw.randint(1000, 9999)}."
            for at in range(_LINES)
        ]
        if number == 7:
            lines[100] = "7.100 The lighthouse of Porto is mentioned here, with its 214 steps."
        (folder / f"page{number}.txt").write_text("\n".join(lines) + "\n")


def tokens_of(requests: list[dict]) -> int:
    """Return the tokens of all requests, as a scripted server reports them."""
    return sum(len(json.dumps(request)) // 4 for request in requests)


def recall(home: Path, handles: list[str], **arguments: object) -> list[str]:
    """Ask the plugin's real MCP server for originals."""

    async def ask() -> list[str]:
        environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
        server = StdioServerParameters(command="brimful", args=["mcp", "--plugin"], env=environ)
        async with Client(server) as client:
            calls = [await client.call_tool("recall", {"handle": handle, **arguments}) for handle in handles]
        assert not any(call.is_error for call in calls)
        return [call.content[0].text for call in calls]

    return asyncio.run(ask())


def shortened_results(home: Path) -> list[dict]:
    """Return what the hooks noted of each shortened result, in all sessions."""
    logs = (home / ".local" / "share" / "brimful" / "sessions").glob("*.jsonl")
    entries = [json.loads(line) for log in sorted(logs) for line in log.read_text().splitlines()]
    return [entry for entry in entries if "handle" in entry]
