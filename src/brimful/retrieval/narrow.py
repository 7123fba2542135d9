"""Postings of many terms → those of a few: several queries are read from the index at once, and ranked one by one."""

from collections.abc import Sequence

import numpy as np

from brimful.answers import Postings


def narrowed(postings: Postings, terms: Sequence[str]) -> Postings:
    """Return the postings as if these terms alone had been asked for.

    >>> all = Postings(terms=("tea", "milk"), found=(2, 1), documents=9, words=90, doc=(1, 2, 2), seq=(1, 2, 2),
    ...                length=(8, 9, 9), term=(0, 0, 1), frequency=(1, 1, 3))
    >>> milk = narrowed(all, ["milk"])
    >>> milk.terms, milk.found, *map(list, (map(int, milk.doc), map(int, milk.term), map(int, milk.frequency)))
    (('milk',), (1,), [2], [0], [3])
    """
    known = {term: at for at, term in enumerate(postings.terms)}
    asked = tuple(term for term in terms if term in known)
    number = np.full(len(postings.terms), -1)
    number[[known[term] for term in asked]] = range(len(asked))
    term = number[np.asarray(postings.term, np.int64)]
    mine = term >= 0
    return Postings(
        terms=asked,
        found=tuple(postings.found[known[term]] for term in asked),
        documents=postings.documents,
        words=postings.words,
        doc=np.asarray(postings.doc, np.int64)[mine],
        seq=np.asarray(postings.seq, np.int64)[mine],
        length=np.asarray(postings.length, np.int64)[mine],
        term=term[mine],
        frequency=np.asarray(postings.frequency, np.int64)[mine],
    )
