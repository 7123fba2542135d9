"""Compaction in `fit` mode: a summary stands for what trimmed requests of a conversation leave out.

A model writes it only when a request is trimmed anyway. A request waits a few seconds for it; if it takes longer, the
rules write this summary, and the model's text is the start of the conversation's next one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, get_args

from brimful.assembly.compact import StepSummarizer, compact, compact_now
from brimful.cache import LRU
from brimful.core.compaction import Compaction
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import Compacting, Policy
from brimful.engine.own_calls import OwnCalls
from brimful.packagers.request_summary import find_summary, summary_digest
from brimful.protocols import Provider
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.retrieval.breaker import Breaker
from brimful.server.background import BackgroundTasks
from brimful.server.config import FitConfig
from brimful.server.errors import ApiError
from brimful.server.proxy.request import ProxyRequest
from brimful.threads import run_in_thread

COMPACTION_HEADER: Final = "x-brimful-compaction"
TIME_LIMIT: Final = 60.0  # seconds for a model, most of them in the background
_MAX_SUMMARIES: Final = 1_024  # by models, which the next trim of their conversations may need
_MAX_RUNNING: Final = 64  # summaries that are written at the same time
_MAX_BREAKERS: Final = 1_024  # tenants and upstreams
_ENTRY_BYTES: Final = 600  # memory of a summary besides its text

_Key = tuple[str, str]
RecordUsage = Callable[[ProxyRequest, ModelInfo, Usage], None]
"""Records the usage of a request to a model for a summary."""


class Compactor:
    """Summarizes what trimmed requests leave out. Summaries of different tenants are never shared."""

    def __init__(
        self,
        config: FitConfig,
        tasks: BackgroundTasks,
        clock: Callable[[], float],
        record: RecordUsage,
        find_own_calls: Callable[[str], OwnCalls],
    ) -> None:
        self._config = config
        self._tasks = tasks
        self._clock = clock
        self._record = record
        self._find_own_calls = find_own_calls
        self._written: LRU[_Key, Compaction] = LRU(
            max_entries=_MAX_SUMMARIES, name="summaries", size=lambda _, made: _ENTRY_BYTES + 4 * len(made.text)
        )
        self._running: dict[_Key, asyncio.Task[bool]] = {}
        self._breakers: LRU[_Key, Breaker] = LRU(max_entries=_MAX_BREAKERS)

    def choose(self, request: ProxyRequest, policy: Policy) -> Compacting:
        """Return who writes the summaries of a request: as its header says, the configuration, or else the policy."""
        choices: tuple[Compacting, ...] = get_args(Compacting)
        named = request.headers.get(COMPACTION_HEADER)
        if named is None:
            return self._config.compaction or policy.compaction
        for choice in choices:
            if named.strip().lower() == choice:
                return choice
        reason = f"must be {', '.join(choices[:-1])} or {choices[-1]}, not {named[:40]!r}"
        raise ApiError("invalid", f"{COMPACTION_HEADER}: {reason}", param=COMPACTION_HEADER)

    async def compact(
        self, request: ProxyRequest, context: Context, by: Compacting, model: ModelInfo, window: int
    ) -> Compaction | None:
        """Return a new summary of what a request left out; None if it left out nothing that has no summary yet."""
        tenant, before = request.client.tenant, summary_digest(context.inputs)
        late = self._written.get((tenant, before)) if before else None
        previous = late.text if late else ""
        rules = await run_in_thread(compact_now, context, previous=previous)
        current = find_summary(context.inputs)
        if rules is None or (current is not None and rules.text == current.text):
            return None
        if by != "model":
            return rules
        key = (tenant, rules.digest)
        if key not in self._written:
            await self._write(key, request, context, model, window, previous)
        return self._written.get(key) or _with_notice(rules)

    async def _write(
        self, key: _Key, request: ProxyRequest, context: Context, model: ModelInfo, window: int, previous: str
    ) -> None:
        """Have a model write a summary, and wait for it for some seconds. Requests of one conversation share it."""
        task = self._running.get(key)
        if task is None:
            if len(self._running) >= _MAX_RUNNING:
                return
            summarizer = StepSummarizer(
                model, request.upstream.provider(request.headers, {}), window=window, send=partial(self._send, request)
            )
            work = self._run(key, context, summarizer, self._find_breaker(request), previous)
            task = self._running[key] = self._tasks.start(work, "summarizing")
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.wait([task], timeout=self._config.compaction_wait)

    async def _send(self, request: ProxyRequest, provider: Provider, context: Context) -> Reply:
        own_calls = self._find_own_calls(request.client.tenant)
        reply = await own_calls.send("compact", provider, context)
        if reply.usage is not None:
            self._record(request, context.inputs.model, reply.usage)
        return reply

    async def _run(
        self, key: _Key, context: Context, summarizer: StepSummarizer, breaker: Breaker, previous: str
    ) -> None:
        made = await compact(
            context, summarizer=summarizer, time_limit=TIME_LIMIT, breaker=breaker, clock=self._clock, previous=previous
        )
        if made is not None and made.by == "model":
            self._written[key] = made

    def _find_breaker(self, request: ProxyRequest) -> Breaker:
        key = (request.client.tenant, request.upstream.route)
        breaker = self._breakers.get(key)
        if breaker is None:
            breaker = self._breakers[key] = Breaker(now=self._clock())
        return breaker


def _with_notice(rules: Compaction) -> Compaction:
    why = "the model failed, is still writing, or own calls have reached their daily limit"
    text = f"the summary of earlier steps was made by rules, because {why}"
    return Compaction(
        text=rules.text,
        positions=rules.positions,
        digest=rules.digest,
        notices=(Notice(kind="summarizer-failed", text=text),),
    )
