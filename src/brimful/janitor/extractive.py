"""Summaries without a language model: quote the most informative sentences.

A sentence scores by the tf-idf weights of its words; words that were quoted already no longer count. Every topic gets
one sentence before any topic gets a second.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.janitor.floods import make_excerpt
from brimful.protocols.summarizer import Digest, Passage

MAX_QUOTE_CHARS: Final = 160  # characters of a sentence
MAX_SENTENCES: Final = 4_000  # that are weighed; of more, every second, third, … one is
MAX_SCORED_CHARS: Final = 320  # characters of it whose words are weighed
_MIN_TERMS: Final = 3  # what has fewer is quoted only where there is nothing else
_CHARS_PER_TOKEN: Final = 4  # characters that a token stands for, roughly: a summary is no place to be exact
_REPEAT_PENALTY: Final = 2.0  # how much less a second sentence of one topic is worth

_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。！？])(?<!\b[ei]\.[ge]\.)\s+|\n+")  # not after e.g. and i.e.

ExtractTerms = Callable[[str], Sequence[str]]
"""Returns the words of a text that are worth looking at, without their endings."""


class _Sentence(msgspec.Struct, frozen=True):
    text: str
    speaker: str
    at: int
    topic: int
    terms: frozenset[str]


class ExtractiveSummarizer:
    """Tells what was said by quoting it."""

    incremental: Final = False  # to read all of a day again costs less than to remember what was weighed

    def __init__(self, terms: ExtractTerms) -> None:
        """Weigh the words that `terms` finds."""
        self._terms = terms

    async def summarize(self, digest: Digest) -> str:
        """Return the sentences that say most, in the order in which they were said, each after its speaker."""
        return await asyncio.to_thread(self._quotes, digest)

    def _quotes(self, digest: Digest) -> str:
        sentences = self._sentences(digest.topics)
        weights = _term_weights(sentences)
        chosen = _select_sentences(sentences, weights, digest.tokens * _CHARS_PER_TOKEN)
        return "\n".join(map(_format_quote, sorted(chosen, key=lambda sentence: sentence.at)))

    def _sentences(self, topics: Sequence[Sequence[Passage]]) -> list[_Sentence]:
        said = [(passage, number) for number, topic in enumerate(topics) for passage in topic]
        said.sort(key=lambda each: each[0].at)
        parts = [
            (text, passage.speaker, topic) for passage, topic in said for text in _SENTENCE_END.split(passage.text)
        ]
        step = 1 + len(parts) // MAX_SENTENCES
        found = [
            _Sentence(
                make_excerpt(text, MAX_QUOTE_CHARS), speaker, at, topic, frozenset(self._terms(text[:MAX_SCORED_CHARS]))
            )
            for at, (text, speaker, topic) in enumerate(parts[::step])
        ]
        telling = [sentence for sentence in found if len(sentence.terms) >= _MIN_TERMS]
        return telling or [sentence for sentence in found if sentence.terms]


def _term_weights(sentences: Sequence[_Sentence]) -> dict[str, float]:
    """Return what each word weighs: often said, but not by every sentence."""
    often = Counter(term for sentence in sentences for term in sentence.terms)
    return {term: math.log1p(count) * math.log((1 + len(sentences)) / count) for term, count in often.items()}


def _select_sentences(sentences: Sequence[_Sentence], weights: dict[str, float], room: int) -> list[_Sentence]:
    left, turns = dict(weights), Counter[int]()
    waiting, chosen = list(sentences), list[_Sentence]()
    while waiting:
        worth = [
            sum(left[term] for term in each.terms) / math.sqrt(len(each.terms)) / _REPEAT_PENALTY ** turns[each.topic]
            for each in waiting
        ]
        best = max(range(len(waiting)), key=lambda at: (worth[at], -waiting[at].at))
        sentence = waiting.pop(best)
        room -= len(_format_quote(sentence)) + 1
        if worth[best] <= 0 or (room < 0 and chosen):
            break
        chosen.append(sentence)
        turns[sentence.topic] += 1
        left.update(dict.fromkeys(sentence.terms, 0.0))
    return chosen


def _format_quote(sentence: _Sentence) -> str:
    return f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text
