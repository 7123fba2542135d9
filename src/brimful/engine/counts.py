"""Token counts kept in the store: read before a build, computed once where they are missing."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, ParamSpec, TypeVar

from brimful.core.content import content_hash
from brimful.counting import count_raw, count_texts, find_uncounted, is_preloaded, preload, remember_counts, texts_in
from brimful.records import Content
from brimful.records.search import CountedMessage
from brimful.retrieval.search import Hit
from brimful.stores import Store
from brimful.stores.tables.contents import TokenCounts
from brimful.threads import run_in_thread

_MAX_INLINE: Final = 131_072  # characters; more would block the event loop too long

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread_if_long(texts: Sequence[str], work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Call a function on texts, in a thread if they are long."""
    if sum(map(len, texts)) < _MAX_INLINE:
        return work(*args, **more)
    return await run_in_thread(work, *args, **more)


async def prepare_tokenizer(vocabulary: str | None) -> None:
    """Load a tokenizer in a thread, so that the store can be read meanwhile."""
    if vocabulary is not None and not is_preloaded(vocabulary):
        await asyncio.to_thread(preload, vocabulary)


async def ensure_counts(
    store: Store, vocabulary: str | None, contents: Iterable[Content], *, limit: int | None = None
) -> int:
    """Make sure that every text has a count; return how many had to be tokenized: at most the first `limit`.

    Counts that this process remembers are not looked up. Tokenizing runs in a thread.
    """
    if vocabulary is None:
        return 0
    texts = [text for each in contents for text in texts_in(each)]
    uncounted = await run_in_thread_if_long(texts, find_uncounted, vocabulary, texts)
    return await _load_or_count(store, vocabulary, uncounted, limit)


async def _load_or_count(store: Store, vocabulary: str, texts: Sequence[str], limit: int | None = None) -> int:
    if not texts:
        return 0
    by_hash = dict(zip(await run_in_thread_if_long(texts, lambda: list(map(content_hash, texts))), texts, strict=True))
    stored = await store.counts(vocabulary, list(by_hash))
    await run_in_thread_if_long(
        texts, remember_counts, vocabulary, {by_hash[hash]: tokens for hash, tokens in stored.items()}
    )
    missing = dict(islice(((hash, text) for hash, text in by_hash.items() if hash not in stored), limit))
    if missing:
        counted = await run_in_thread(count_raw, vocabulary, list(missing.values()))
        await store.save_counts(vocabulary, dict(zip(missing, counted, strict=True)))
    return len(missing)


async def reuse_hit_counts(vocabulary: str | None, hits: Iterable[Hit]) -> None:
    """Remember the counts that came with search hits."""
    if vocabulary is not None:
        counts = {
            hit.record.content: hit.tokens
            for hit in hits
            if hit.tokens is not None and isinstance(hit.record.content, str)
        }
        await run_in_thread_if_long(list(counts), remember_counts, vocabulary, counts)


async def ensure_history_counts(
    store: Store, vocabulary: str | None, page: Sequence[CountedMessage], *, limit: int | None = None
) -> int:
    """Like `ensure_counts`, for a page of history whose texts mostly come with their counts."""
    if vocabulary is None:
        return 0
    known: Mapping[str, int] = {
        counted.message.content: counted.tokens
        for counted in page
        if counted.tokens is not None and isinstance(counted.message.content, str)
    }
    await run_in_thread_if_long(list(known), remember_counts, vocabulary, known)
    rest = [counted.message.content for counted in page if counted.message.content not in known]
    return await ensure_counts(store, vocabulary, rest, limit=limit) if rest else 0


async def store_counts(store: Store, vocabulary: str, contents: Iterable[Content]) -> int:
    """Make sure that the store has the count of every text, even if this process remembers it.

    Returns how many had to be tokenized.
    """
    return await _load_or_count(store, vocabulary, [text for content in contents for text in texts_in(content)])


def _count_all(vocabularies: Sequence[str], contents: Iterable[Content]) -> TokenCounts:
    texts = {content_hash(text): text for content in contents for text in texts_in(content)}
    values = list(texts.values())
    return {each: dict(zip(texts, count_texts(each, values), strict=True)) for each in vocabularies}


class UsedTokenizers:
    """The tokenizers of all models that an engine was used with. New contents are counted with each of them.

    So a build finds everything counted.
    """

    def __init__(self) -> None:
        self._vocabularies: dict[str, None] = {}

    def add(self, vocabulary: str | None) -> None:
        """Count with this tokenizer from now on; None is a model whose tokens are not counted by vocabulary."""
        if vocabulary is not None:
            self._vocabularies[vocabulary] = None

    def count(self, contents: Sequence[Content]) -> Future[TokenCounts]:
        """Count contents in a thread, by tokenizer and hash. New contents are not looked up anywhere."""
        thread = ThreadPoolExecutor(1, "brimful-count")
        counting = thread.submit(_count_all, tuple(self._vocabularies), contents if self._vocabularies else ())
        thread.shutdown(wait=False)
        return counting

    async def store_counts(self, store: Store, contents: Sequence[Content]) -> None:
        """Count new contents and store the counts."""
        for vocabulary in tuple(self._vocabularies):
            await store_counts(store, vocabulary, contents)
