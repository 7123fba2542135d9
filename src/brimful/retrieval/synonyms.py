"""Query expansion with related words: a search for "pet" also matches "dog", at a lower weight."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from brimful.records.search import Postings

SYNONYM_WEIGHT: Final = 0.1  # what a related term counts for, where the term itself counts for 1
RARE_SHARE: Final = 0.1  # of all documents: a related term that is in more of them tells none apart
_DATA: Final = Path(__file__).with_name("data") / "related.txt"

Synonyms = tuple[tuple[str, str], ...]


def find_synonyms(terms: Iterable[str], names: Collection[str] = ()) -> Synonyms:
    """Return the terms that say nearly the same as one of these, each with the one that it stands for.

    Names stand for nobody else.

    >>> find_synonyms(["hobbi"])
    (('leisur', 'hobbi'), ('recreat', 'hobbi'), ('lifestyl', 'hobbi'), ('occup', 'hobbi'))
    """
    known, asked = load_synonyms(), list(terms)
    found: dict[str, str] = {}
    for term in asked:
        if term not in names:
            for other in known.get(term, "").split():
                found.setdefault(other, term)
    return tuple((other, term) for other, term in found.items() if other not in asked and other not in names)


def expand_postings(own: Postings, others: Postings, stands_for: Sequence[str]) -> Postings:
    """Return where terms occur, or a rare one that is related to them: each of the `others` stands for a term."""
    numbers = {term: number for number, term in enumerate(own.terms)}
    most = max(1.0, RARE_SHARE * others.documents)
    held = [
        numbers.get(term, -1) if found <= most else -1 for term, found in zip(stands_for, others.found, strict=True)
    ]
    term = np.array(held, np.int64)[np.asarray(others.term, np.int64)]
    mine = term >= 0
    if not mine.any():
        return own
    return Postings(
        terms=own.terms,
        found=own.found,
        documents=own.documents,
        words=own.words,
        doc=np.append(own.doc, np.asarray(others.doc)[mine]),
        seq=np.append(own.seq, np.asarray(others.seq)[mine]),
        length=np.append(own.length, np.asarray(others.length)[mine]),
        term=np.append(own.term, term[mine]),
        frequency=np.append(own.frequency, SYNONYM_WEIGHT * np.asarray(others.frequency)[mine]),
    )


@cache
def load_synonyms() -> dict[str, str]:
    """Return the related terms of each term, separated by spaces."""
    lines = _DATA.read_text(encoding="ascii").splitlines()
    return {term: others for term, _, others in (line.partition(" ") for line in lines)}
