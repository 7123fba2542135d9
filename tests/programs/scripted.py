"""A scripted model for the programs' own agents, and what holds for all requests that it gets."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, repeat

from brimful.core.content import Text, ToolCall
from brimful.core.labels import HISTORY_OPEN
from brimful.errors import ContextOverflow, ProviderError
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedServer, find_violations

SIGNATURE = "c2ln" * 100  # base64
TASK = "Read every page of the report and say which of them mentions the lighthouse of Porto. The code is QX-4417."


class ScriptedAgent:
    """A model that calls one tool for a number of steps, and then answers. Requests without the tool (for a title, a
    summary) get `other`, and are not among `requests`.

    With a `wire`, it refuses what a provider of this format would refuse; with `tokens`, which counts a request, what
    is longer than `window`. What it refused is in `refused`, with the reason.
    """

    other = "The report"
    completion = 20  # tokens that it says it wrote

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
        if self.tool in json.dumps(request.get("tools", [])):
            self.requests.append(request)
            parts = self.next_parts(request)
        else:
            self.others.append(request)
            parts = (Text(text=self.other),)
        return Reply(
            parts=parts,
            finish="tool-calls" if isinstance(parts[-1], ToolCall) else "stop",
            usage=Usage(prompt=prompt, completion=self.completion),
            model=str(request.get("model", "")),
            id=f"answer_{len(self.requests) + len(self.others)}",  # Claude Code joins answers with the same id
        )

    def next_parts(self, request: dict) -> tuple[Text | ToolCall, ...]:  # noqa: ARG002 - for scripts that look into it
        """Return the next calls, or the answer."""
        number = len(self.requests) - 1
        return (self.call(number),) if number < self.steps else (Text(text=self.answer),)

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


def shared_prefix(requests: list[dict], *, fields: Sequence[str] = ("messages", "input", "contents")) -> list[float]:
    """Return which share of each request its next one begins with: of these fields, in this order, without marks."""
    texts = [
        "".join(json.dumps(_without_marks(each[name])) for name in fields if name in each)[:-1] for each in requests
    ]
    return [_common(before, after) / len(before) for before, after in pairwise(texts)]


def _without_marks(value: object) -> object:
    """Return JSON without the marks of what to cache, which clients move."""
    if isinstance(value, dict):
        return {key: _without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def thinking(app):
    """Put a signed thought before each streamed answer of a scripted server, as models that reason do."""

    async def serve(scope, receive, send):
        async def think(message):
            head, mark, data = message.get("body", b"").partition(b"data: ")
            if mark and data.startswith(b"{"):
                events = [_write_event(each, is_named=bool(head)) for each in _with_thought(json.loads(data))]
                message = message | {"body": b"".join(events)}
            await send(message)

        await app(scope, receive, think)

    return serve


def _write_event(event: dict, *, is_named: bool) -> bytes:
    name = f"event: {event['type']}\n" if is_named else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _with_thought(event: dict) -> Iterator[dict]:
    """Yield an event of Anthropic, OpenAI's Responses or Gemini, and those of a thought after the first one."""
    for index in {"index", "output_index"} & event.keys():
        event = event | {index: event[index] + 1}
    parts = [part for each in event.get("candidates", ()) for part in each["content"]["parts"]]
    for call in (part for part in parts if "functionCall" in part):
        call["thoughtSignature"] = SIGNATURE
    item = {"type": "reasoning", "id": "", "summary": [], "encrypted_content": SIGNATURE}
    match event:
        case {"type": "response.completed", "response": {"id": id, "output": output}}:
            output.insert(0, item | {"id": f"rs_{id}"})
            yield event
        case {"type": "response.in_progress", "response": {"id": id}}:
            yield event
            for kind in ("added", "done"):
                yield {"type": f"response.output_item.{kind}", "output_index": 0, "item": item | {"id": f"rs_{id}"}}
        case {"type": "message_start"}:
            yield event
            block = {"type": "thinking", "thinking": "", "signature": ""}
            yield {"type": "content_block_start", "index": 0, "content_block": block}
            for name, text in (("thinking", "The next page."), ("signature", SIGNATURE)):
                delta = {"type": f"{name}_delta", name: text}
                yield {"type": "content_block_delta", "index": 0, "delta": delta}
            yield {"type": "content_block_stop", "index": 0}
        case _:
            yield event
