"""Summaries without a language model: quote the most informative sentences.

A sentence scores by the tf-idf weights of its words; words that were quoted already no longer count. Every topic gets
one sentence before any topic gets a second. Words of the focus weigh more.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.janitor.floods import make_excerpt
from brimful.protocols import Digest, Passage
from brimful.threads import run_in_thread

MAX_QUOTE_CHARS: Final = 160  # of a sentence
MAX_SENTENCES: Final = 4_000  # that are scored; of more, only every second, third, … one
MAX_SCORED_CHARS: Final = 320  # of a sentence, whose words are scored
_MIN_TERMS: Final = 3  # a sentence with fewer is quoted only if there is nothing else
_CHARS_PER_TOKEN: Final = 4  # roughly: summaries need not be exact
_FOCUS_WEIGHT: Final = 3.0  # factor for words of the focus
_REPEAT_PENALTY: Final = 2.0  # divides the score of each further sentence of a topic

_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。！？])(?<!\b[ei]\.[ge]\.)\s+|\n+")  # not after e.g. and i.e.

ExtractTerms = Callable[[str], Sequence[str]]
"""Returns the stemmed content words of a text."""


class _Sentence(msgspec.Struct, frozen=True):
    text: str
    speaker: str
    index: int
    topic: int
    terms: frozenset[str]


class ExtractiveSummarizer:
    """Summarizes by quoting."""

    incremental: Final = False  # reading a whole day again costs little

    def __init__(self, terms: ExtractTerms) -> None:
        self._terms = terms

    async def summarize(self, digest: Digest) -> str:
        """Return the most informative sentences in order, each with its speaker."""
        return await run_in_thread(self._quotes, digest)

    def _quotes(self, digest: Digest) -> str:
        sentences = self._sentences(digest.topics)
        weights = _term_weights(sentences, frozenset(self._terms(digest.focus)))
        chosen = _select_sentences(sentences, weights, digest.tokens * _CHARS_PER_TOKEN)
        return "\n".join(map(_format_quote, sorted(chosen, key=lambda sentence: sentence.index)))

    def _sentences(self, topics: Sequence[Sequence[Passage]]) -> list[_Sentence]:
        passages = [(passage, number) for number, topic in enumerate(topics) for passage in topic]
        passages.sort(key=lambda each: each[0].at)
        parts = [
            (text, passage.speaker, topic) for passage, topic in passages for text in _SENTENCE_END.split(passage.text)
        ]
        step = 1 + len(parts) // MAX_SENTENCES
        sentences = [
            _Sentence(
                make_excerpt(text, MAX_QUOTE_CHARS), speaker, i, topic, frozenset(self._terms(text[:MAX_SCORED_CHARS]))
            )
            for i, (text, speaker, topic) in enumerate(parts[::step])
        ]
        informative = [sentence for sentence in sentences if len(sentence.terms) >= _MIN_TERMS]
        return informative or [sentence for sentence in sentences if sentence.terms]


def _term_weights(sentences: Sequence[_Sentence], focus: frozenset[str]) -> dict[str, float]:
    """Return tf-idf weights: words that are frequent, but not in every sentence, weigh most."""
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    weights = {term: math.log1p(count) * math.log((1 + len(sentences)) / count) for term, count in counts.items()}
    return {term: weight * (_FOCUS_WEIGHT if term in focus else 1.0) for term, weight in weights.items()}


def _select_sentences(sentences: Sequence[_Sentence], weights: dict[str, float], max_chars: int) -> list[_Sentence]:
    left, quotes = dict(weights), Counter[int]()
    waiting, chosen = list(sentences), list[_Sentence]()
    while waiting:
        scores = [
            sum(left[term] for term in each.terms) / math.sqrt(len(each.terms)) / _REPEAT_PENALTY ** quotes[each.topic]
            for each in waiting
        ]
        best = max(range(len(waiting)), key=lambda i: (scores[i], -waiting[i].index))
        sentence = waiting.pop(best)
        max_chars -= len(_format_quote(sentence)) + 1
        if scores[best] <= 0 or (max_chars < 0 and chosen):
            break
        chosen.append(sentence)
        quotes[sentence.topic] += 1
        left.update(dict.fromkeys(sentence.terms, 0.0))
    return chosen


def _format_quote(sentence: _Sentence) -> str:
    return f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text
