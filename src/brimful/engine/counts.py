"""Counts that live in the store: read before a build, made once where they are missing."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from brimful.answers import Counted
from brimful.core.content import content_hash
from brimful.counting import learn, raw_counts, texts_of, unknown
from brimful.protocols import Store
from brimful.records import Content


async def know(store: Store, vocabulary: str | None, contents: Iterable[Content]) -> int:
    """See to it that every text of these contents has a known count; return how many had to be tokenized.

    What this process remembers is not looked up. Tokenizing runs in a thread: a long text does not hold up the event
    loop.
    """
    if vocabulary is None:
        return 0
    return await _settle(store, vocabulary, unknown(vocabulary, [text for each in contents for text in texts_of(each)]))


async def keep(store: Store, vocabulary: str, contents: Iterable[Content]) -> None:
    """Count what is being written, and keep the counts with it."""
    await _settle(store, vocabulary, [text for content in contents for text in texts_of(content)])


async def _settle(store: Store, vocabulary: str, texts: Sequence[str]) -> int:
    if not texts:
        return 0
    named = {content_hash(text): text for text in texts}
    stored = await store.counts(vocabulary, list(named))
    learn(vocabulary, {named[hash]: tokens for hash, tokens in stored.items()})
    missing = {hash: text for hash, text in named.items() if hash not in stored}
    if missing:
        counted = await asyncio.to_thread(raw_counts, vocabulary, list(missing.values()))
        await store.keep_counts(vocabulary, dict(zip(missing, counted, strict=True)))
    return len(missing)


async def know_history(store: Store, vocabulary: str | None, page: Sequence[Counted]) -> int:
    """Do the same for a page of history, whose plain texts come with their counts."""
    if vocabulary is None:
        return 0
    known: Mapping[str, int] = {
        counted.message.content: counted.tokens
        for counted in page
        if counted.tokens is not None and isinstance(counted.message.content, str)
    }
    learn(vocabulary, known)
    rest = [counted.message.content for counted in page if counted.message.content not in known]
    return await know(store, vocabulary, rest) if rest else 0
