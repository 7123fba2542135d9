"""What the tests of opencode and pi share: a task with long results, and a server that may be killed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from brimful.core.content import ToolCall
from brimful.counting import counter_for
from brimful.models import default_registry
from brimful.records.reply import Reply
from brimful.wires.incoming import read_incoming
from programs.scripted import ScriptedAgent, check_requests, shared_prefix

STEPS = 30
LIMIT = 16_000  # tokens; the history alone grows to 52,000
PAGE = (
    'seq 1 120 | while read i; do echo "page {0}, line $i: the tide was $((i * {0} % 97))"; done; echo "seal K{0:03}"'
)
SEEN = "seal K{0:03}"  # in the result of a page, at its end
WARNING = "Brimful did not fit this request"


class Reader(ScriptedAgent):
    """A model that reads a page a step, recalls some that it does not see any more, and answers."""

    def __init__(self, recalls: int = 0, before=lambda _: None):
        super().__init__("bash", STEPS, self.read_page)
        self.recalls, self.before = recalls, before
        self.handles: dict[str, int] = {}

    def read_page(self, number):
        self.before(number)
        return {"command": PAGE.format(number + 1), "description": f"Read page {number + 1}"}

    def __call__(self, request: dict) -> Reply:
        reply = super().__call__(request)
        if self.handles or len(self.requests) <= STEPS or not self.recalls:
            return reply
        lines = re.findall(r"\\n(r\d+) bash\(.{0,99}?page (\d+)", json.dumps(request["messages"]))
        self.handles = {handle: int(page) for handle, page in lines[: self.recalls]}
        calls = [
            ToolCall(id=f"recall_{handle}", name="recall", arguments=json.dumps({"handle": handle, "max_tokens": 3000}))
            for handle in self.handles
        ]
        return Reply(parts=tuple(calls), finish="tool-calls", usage=reply.usage, model=reply.model)


def count(request: dict) -> int:
    counter = counter_for(default_registry().resolve("gpt-4o"), "exact")
    return counter.prompt(read_incoming(request, "openai").prompt).tokens


def check_run(requests: list[dict], *, least_shared: float) -> None:
    """Check all requests of a run, and print its figures, which the docs have."""
    check_requests(requests, "openai", tokens=count, limit=LIMIT)
    shares = shared_prefix(requests)
    mean = sum(shares) / len(shares)
    print(f"at most {max(map(count, requests)):,} tokens, shared prefix {mean:.2f}, least {min(shares):.2f}")  # noqa: T201
    assert "<history>" in json.dumps(requests[-1]["messages"])
    assert mean > least_shared


def check_recalls(agent: Reader) -> None:
    """Check that each handle led to the page that its line names."""
    results = {each.get("tool_call_id"): json.dumps(each) for each in agent.requests[-1]["messages"]}
    assert len(agent.handles) == agent.recalls
    for handle, page in agent.handles.items():
        assert SEEN.format(page) in results[f"recall_{handle}"]
        assert f"page {page}, line 1:" in results[f"recall_{handle}"]


@contextmanager
def serve_brimful(folder) -> Iterator[tuple[str, subprocess.Popen]]:
    """Run `brimful serve` with a store in a folder; yield its address and the process."""
    command = [sys.executable, "-m", "brimful", "serve", "--db", f"{folder}/brimful.db", "--listen", "127.0.0.1:0"]
    environ = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            output = process.stdout.readline()
            address = re.search(r"http://[\d.:]+", output)
            assert address, output
            yield address[0], process
        finally:
            process.kill()


def killing(process: subprocess.Popen, step: int):
    """Return a function that kills the server before a step."""

    def before(number):
        if number == step:
            process.kill()
            process.wait()

    return before
