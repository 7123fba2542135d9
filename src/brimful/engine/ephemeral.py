"""Summaries made during a build, of older messages that neither the window nor a stored summary holds.

They are candidates of that one context and in its record, and are stored nowhere else. The policy has to allow them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.cache import LRU
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.cost import COVERED_KEY
from brimful.core.notice import Notice
from brimful.engine.history import Clusters
from brimful.engine.personas import as_seen_by
from brimful.engine.plan import BuildPlan
from brimful.errors import SpendingLimitReached
from brimful.janitor.extractive import ExtractiveSummarizer
from brimful.janitor.summaries import make_digest
from brimful.janitor.topics import group_by_thread
from brimful.packagers.package import summary as package_summary
from brimful.packagers.records import ephemeral_id
from brimful.protocols import Digest, Summarizer
from brimful.records import Message, Summary
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.breaker import Breaker
from brimful.stores import Store

MAX_MESSAGES: Final = 200  # that one summary covers; older ones are for the janitor
SUMMARY_TOKENS: Final = 160  # about the size of a summary, without its title
_MAX_TOKENS: Final = 2 * SUMMARY_TOKENS  # a longer one is cut
TIME_LIMIT: Final = 20.0  # seconds for a summarizer; the model's answer waits for it
_MAX_CACHED: Final = 256  # summaries; history begins with the same message for many turns
_HISTORY: Final = ("message-recent", "tool-call", "tool-result")

_log = logging.getLogger("brimful")


class EphemeralSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary for one context, and what went wrong while it was written."""

    package: ContentPackage
    notices: tuple[Notice, ...] = ()


class EphemeralSummaries:
    """Summarizes what a context leaves out. If the summarizer fails or takes too long, it quotes messages instead."""

    def __init__(
        self, store: Store, summarizer: Summarizer | None, *, clock: Callable[[], float], time_limit: float = TIME_LIMIT
    ) -> None:
        self._store = store
        self._summarizer = summarizer
        self._clock = clock
        self._time_limit = time_limit
        self._breaker = Breaker(now=clock())
        self._fallback = ExtractiveSummarizer(analyze)
        self._cache: LRU[Digest, str] = LRU(max_entries=_MAX_CACHED)

    async def find_messages(self, plan: BuildPlan, context: Context, summaries: Sequence[Summary]) -> list[Message]:
        """Return the messages before the history of a context that no summary covers, oldest first."""
        included = [
            each.position
            for each in context.inputs.packages
            if each.kind in _HISTORY and each.position and context.decision(each.id).included
        ]
        posted = plan.current.posted
        before = min(included, default=posted.seq if posted else None)
        page = await self._store.history(plan.room.id, before=before, limit=MAX_MESSAGES)
        clusters = Clusters(summaries)
        seen = as_seen_by([entry.message for entry in page], plan.persona)
        return [each for each in reversed(seen) if not each.hidden and clusters.find(each) is None]

    async def write(self, plan: BuildPlan, messages: Sequence[Message]) -> EphemeralSummary:
        digest = make_digest(group_by_thread(messages), messages, None)
        digest = msgspec.structs.replace(digest, tokens=SUMMARY_TOKENS, room=plan.room.id)
        text, notices = await self._write_text(digest)
        package = self._package(plan, f"{digest.title}\n{text}", messages)
        while package.tokens.upper > _MAX_TOKENS:
            text = text[: len(text) * _MAX_TOKENS // (package.tokens.upper + 1)]
            package = self._package(plan, f"{digest.title}\n{text}", messages)
        return EphemeralSummary(package=package, notices=notices)

    def _package(self, plan: BuildPlan, text: str, messages: Sequence[Message]) -> ContentPackage:
        id = ephemeral_id(plan.room.id)
        return package_summary(
            text,
            of=id,
            counter=plan.counter,
            id=id,
            timestamp=messages[-1].at,
            relevance=1.0,
            metadata={"ephemeral": True, "messages": len(messages), COVERED_KEY: [messages[0].seq, messages[-1].seq]},
            why=f"it was made for this context, of {len(messages):,} messages that did not fit",
        )

    async def _write_text(self, digest: Digest) -> tuple[str, tuple[Notice, ...]]:
        cached = self._cache.get(digest)
        if cached is not None:
            return cached, ()
        notices: tuple[Notice, ...] = ()
        text = None
        if self._summarizer is not None:
            text, problem = await self._ask(self._summarizer, digest)
            if text is None:
                what = f"the summary of older messages quotes them, because the summarizer {problem}"
                notices = (Notice(kind="summarizer-failed", text=what),)
        if text is None:
            text = await self._fallback.summarize(digest)
        if not notices:  # the next build asks the summarizer again
            self._cache[digest] = text
        return text, notices

    async def _ask(self, summarizer: Summarizer, digest: Digest) -> tuple[str | None, str]:
        """Return the summarizer's text; None, and why, if it fails."""
        if not self._breaker.allow(self._clock()):
            return None, "failed before and is not asked again for some minutes"
        try:
            async with asyncio.timeout(self._time_limit):
                text = await summarizer.summarize(digest)
        except asyncio.CancelledError:
            self._breaker.cancelled()
            raise
        except TimeoutError:
            self._breaker.failed(self._clock(), timed_out=True)
            return None, f"took longer than {self._time_limit:g} s"
        except SpendingLimitReached as limit:
            self._breaker.cancelled()
            return None, f"was not asked: {limit}"
        except Exception as error:  # noqa: BLE001 - a summarizer may be user code, and a summary is not worth a failure
            _log.warning("a summary quotes messages: %s: %s", type(error).__name__, error)
            self._breaker.failed(self._clock())
            return None, f"failed ({type(error).__name__})"
        self._breaker.succeeded(self._clock())
        return text, ""
