"""A scripted model for the programs' own agents, and what holds for all requests that it gets."""

import json
import os
import subprocess
from collections.abc import Callable
from itertools import pairwise, repeat

from brimful.core.content import Text, ToolCall
from brimful.core.labels import HISTORY_OPEN
from brimful.errors import ContextOverflow, ProviderError
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedServer, find_violations

TASK = "Read every page of the report and say which of them mentions the lighthouse of Porto. The code is QX-4417."


class ScriptedAgent:
    """A model that calls one tool for a number of steps, and then answers. Requests without the tool (for a title, a
    summary) get a line of text, and are not among `requests`.

    With a `wire`, it refuses what a provider of this format would refuse; with `tokens`, which counts a request, what
    is longer than `window`. What it refused is in `refused`, with the reason.
    """

    def __init__(
        self,
        tool: str,
        steps: int,
        arguments: Callable[[int], dict],
        answer: str = "Page 7 mentions it.",
        *,
        wire: str | None = None,
        tokens: Callable[[dict], int] | None = None,
        window: int | None = None,
    ):
        self.tool, self.steps, self.arguments, self.answer = tool, steps, arguments, answer
        self.wire, self.tokens, self.window = wire, tokens, window
        self.requests: list[dict] = []
        self.others: list[dict] = []
        self.refused: list[tuple[str, dict]] = []
        self.server = ScriptedServer(repeat(self))

    def __call__(self, request: dict) -> Reply:
        prompt = self.tokens(request) if self.tokens else len(json.dumps(request)) // 4
        if error := self._find_error(request, prompt):
            self.refused.append((str(error), request))
            raise error
        usage, model = Usage(prompt=prompt, completion=20), str(request.get("model", ""))
        if self.tool not in json.dumps(request.get("tools", [])):
            self.others.append(request)
            return Reply(parts=(Text(text="The report"),), usage=usage, model=model)
        self.requests.append(request)
        step = self.next_step(request)
        parts = (Text(text=step),) if isinstance(step, str) else (step,)
        finish = "stop" if isinstance(step, str) else "tool-calls"
        # Claude Code joins answers with the same id.
        return Reply(parts=parts, finish=finish, usage=usage, model=model, id=f"answer_{len(self.requests)}")

    def next_step(self, request: dict) -> ToolCall | str:  # noqa: ARG002 - for scripts that look into it
        """Return the next call, or the answer."""
        return self.call(len(self.requests) - 1) if len(self.requests) <= self.steps else self.answer

    def call(self, number: int) -> ToolCall:
        """Return the call of a step."""
        return ToolCall(id=f"call_{number:06}", name=self.tool, arguments=json.dumps(self.arguments(number)))

    def _find_error(self, request: dict, prompt: int) -> ProviderError | None:
        """Return the error of a provider that does not accept a request."""
        if self.wire and (violations := find_violations(request, self.wire)):
            return ProviderError("scripted", "; ".join(violations), status=400)
        if self.window is not None and prompt > self.window:
            reason = f"the prompt has {prompt:,} tokens, the window {self.window:,}"
            return ContextOverflow("scripted", reason, status=400, window=self.window, prompt=prompt)
        return None


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
