"""A scripted model for the programs' own agents, and what holds for all requests that it gets."""

import json
import os
import subprocess
from collections.abc import Callable
from itertools import pairwise, repeat

from brimful.core.content import Text, ToolCall
from brimful.core.labels import HISTORY_OPEN
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedServer, find_violations

TASK = "Read every page of the report and say which of them mentions the lighthouse of Porto. The code is QX-4417."


class ScriptedAgent:
    """A model that calls one tool for a number of steps, and then answers. Requests without the tool (for a title, a
    summary) get a line of text, and are not among `requests`.
    """

    def __init__(self, tool: str, steps: int, arguments: Callable[[int], dict], answer: str = "Page 7 mentions it."):
        self.tool, self.steps, self.arguments, self.answer = tool, steps, arguments, answer
        self.requests: list[dict] = []
        self.others: list[dict] = []
        self.server = ScriptedServer(repeat(self))

    def __call__(self, request: dict) -> Reply:
        usage = Usage(prompt=len(json.dumps(request)) // 4, completion=20)
        if self.tool not in json.dumps(request.get("tools", [])):
            self.others.append(request)
            return Reply(parts=(Text(text="The report"),), usage=usage, model=str(request.get("model", "")))
        self.requests.append(request)
        number = len(self.requests) - 1
        if number >= self.steps:
            return Reply(parts=(Text(text=self.answer),), usage=usage, model=str(request.get("model", "")))
        call = ToolCall(id=f"call_{number:06}", name=self.tool, arguments=json.dumps(self.arguments(number)))
        return Reply(parts=(call,), finish="tool-calls", usage=usage, model=str(request.get("model", "")))


def run_program(command: list[str], folder, environ: dict[str, str], *, seconds: float = 600) -> str:
    """Run a program to its end, and return what it printed; what it says about an error if it fails."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "HOME": str(folder), "NO_COLOR": "1", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def check_requests(requests: list[dict], wire: str, *, tokens: Callable[[dict], int], limit: int) -> None:
    """Check that each request is valid, fits, has the task once, and has one ledger at most."""
    for number, request in enumerate(requests):
        text = json.dumps(request, ensure_ascii=False)
        assert find_violations(request, wire) == [], number
        assert tokens(request) <= limit, number
        assert text.count("QX-4417") >= 1, number
        assert text.count(HISTORY_OPEN) <= 1, number


def shared_prefix(requests: list[dict]) -> list[float]:
    """Return which share of each request's messages its next one begins with."""
    texts = [json.dumps(each.get("messages") or each.get("input") or each["contents"])[:-1] for each in requests]
    return [_common(before, after) / len(before) for before, after in pairwise(texts)]


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
