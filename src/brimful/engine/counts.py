"""Counts that live in the store: read before a build, made once where they are missing."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, ParamSpec, TypeVar

from brimful.answers import Counted
from brimful.core.content import content_hash
from brimful.counting import is_ready, learn, make_ready, raw_counts, texts_of, unknown
from brimful.protocols import Store
from brimful.records import Content
from brimful.retrieval.wanted import Hit

_LONG: Final = 131_072  # characters, to digest which takes so long that others would wait

P = ParamSpec("P")
T = TypeVar("T")


async def aside(texts: Sequence[str], work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do some work on texts: at once, or on another thread where they are long."""
    if sum(map(len, texts)) < _LONG:
        return work(*args, **more)
    return await asyncio.to_thread(work, *args, **more)


async def ready(vocabulary: str | None) -> None:
    """Make a vocabulary ready, on another thread, so that a store can be asked meanwhile."""
    if vocabulary is not None and not is_ready(vocabulary):
        await asyncio.to_thread(make_ready, vocabulary)


async def know(store: Store, vocabulary: str | None, contents: Iterable[Content]) -> int:
    """See to it that every text of these contents has a known count; return how many had to be tokenized.

    What this process remembers is not looked up. Tokenizing runs in a thread: a long text does not hold up the event
    loop.
    """
    if vocabulary is None:
        return 0
    texts = [text for each in contents for text in texts_of(each)]
    return await _settle(store, vocabulary, await aside(texts, unknown, vocabulary, texts))


async def keep(store: Store, vocabulary: str, contents: Iterable[Content]) -> None:
    """Count what is being written, and keep the counts with it."""
    await _settle(store, vocabulary, [text for content in contents for text in texts_of(content)])


async def _settle(store: Store, vocabulary: str, texts: Sequence[str]) -> int:
    if not texts:
        return 0
    named = dict(zip(await aside(texts, lambda: list(map(content_hash, texts))), texts, strict=True))
    stored = await store.counts(vocabulary, list(named))
    await aside(texts, learn, vocabulary, {named[hash]: tokens for hash, tokens in stored.items()})
    missing = {hash: text for hash, text in named.items() if hash not in stored}
    if missing:
        counted = await asyncio.to_thread(raw_counts, vocabulary, list(missing.values()))
        await store.keep_counts(vocabulary, dict(zip(missing, counted, strict=True)))
    return len(missing)


async def know_found(vocabulary: str | None, hits: Iterable[Hit]) -> None:
    """Take over the counts that came with what was found: it need not be asked for again."""
    if vocabulary is not None:
        found = {
            hit.record.content: hit.tokens
            for hit in hits
            if hit.tokens is not None and isinstance(hit.record.content, str)
        }
        await aside(list(found), learn, vocabulary, found)


async def know_history(store: Store, vocabulary: str | None, page: Sequence[Counted]) -> int:
    """Do the same for a page of history, whose plain texts come with their counts."""
    if vocabulary is None:
        return 0
    known: Mapping[str, int] = {
        counted.message.content: counted.tokens
        for counted in page
        if counted.tokens is not None and isinstance(counted.message.content, str)
    }
    await aside(list(known), learn, vocabulary, known)
    rest = [counted.message.content for counted in page if counted.message.content not in known]
    return await know(store, vocabulary, rest) if rest else 0
