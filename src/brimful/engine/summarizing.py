"""Summaries by a language model. What it is asked is itself a context, which never overflows its window."""

import asyncio
from collections.abc import Sequence
from typing import Final

from brimful.assembly import assemble, package
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.errors import ProviderError
from brimful.protocols import Provider
from brimful.protocols.summarizer import Digest, Passage

INSTRUCTIONS: Final = (
    "You keep the minutes of a conversation. Tell what somebody must still know of it later: decisions, facts, names, "
    "numbers, dates, open questions, and who said what. Leave out greetings and small talk. Write plain sentences, "
    "without headings, and nothing else. If there is a summary of what came before, keep of it whatever still holds."
)
_WORDS_A_TOKEN: Final = 0.7
_LETTERS_A_TOKEN: Final = 8  # characters; a summary that is longer than its tokens could be is cut
_LEAST_TOKENS: Final = 64  # to which a passage that is larger than the window may be cut


class ModelSummarizer:
    """Lets a model tell what was said, as much at a time as its window holds, and goes on from what it told."""

    incremental: Final = True

    def __init__(self, model: ModelInfo, provider: Provider, *, window: int | None = None) -> None:
        """Ask this model at this provider; `window` stands in the place of the model's own."""
        self._model = model
        self._provider = provider
        self._window = window

    async def summarize(self, digest: Digest) -> str:
        """Return what the passages say, told by the model."""
        waiting = [passage for topic in digest.topics for passage in topic]
        text = digest.previous
        while waiting:
            context, taken = await asyncio.to_thread(self._most, digest, text, waiting)
            reply = await self._provider.send(context.request)
            text = reply.text.strip()[: digest.tokens * _LETTERS_A_TOKEN]
            if not text:
                raise ProviderError(self._provider.route, "answered with nothing when asked for a summary")
            waiting = waiting[taken:]
        return text

    def _most(self, digest: Digest, previous: str, waiting: Sequence[Passage]) -> tuple[Context, int]:
        """Return a request with as many of the passages as fit whole, and how many they are."""
        taken = len(waiting)
        while True:
            context = self._request(digest, previous, waiting[:taken])
            inside = {decision.id for decision in context.decisions if decision.outcome in ("kept", "duplicate")}
            if taken == 1 or all(f"passage-{at}" in inside for at in range(taken)):
                return context, taken
            taken = max(1, min(taken // 2, len(inside)))

    def _request(self, digest: Digest, previous: str, passages: Sequence[Passage]) -> Context:
        words = int(digest.tokens * _WORDS_A_TOKEN)
        asked = f"Sum up what was said ({digest.title}) in at most {words} words."
        packages = [
            package("system-prompt", INSTRUCTIONS, model=self._model, id="instructions"),
            *(self._packaged(at, passage) for at, passage in enumerate(passages)),
            package("message-current", asked, model=self._model, id="asked", role="user", position=len(passages) + 1),
        ]
        if previous:
            packages.append(package("summary", previous, model=self._model, id="previous", can_drop=False))
        now = max((passage.at for passage in passages), default=0.0)
        return assemble(
            packages, model=self._model, policy="default", now=now, window=self._window, wire=self._provider.wire
        )

    def _packaged(self, at: int, passage: Passage) -> ContentPackage:
        return package(
            "message-older",
            passage.text,
            model=self._model,
            id=f"passage-{at}",
            name=passage.speaker,
            timestamp=passage.at,
            position=at,
            relevance=1.0,
            min_tokens=_LEAST_TOKENS,
        )
