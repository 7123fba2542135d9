"""Query expansion with related words: a search for "pet" also matches "dog", at a lower weight."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from brimful.records.search import Postings

SYNONYM_WEIGHT: Final = 0.1  # relative to the query's own term
RARE_SHARE: Final = 0.1  # of all documents; a more common synonym does not discriminate
_DATA: Final = Path(__file__).with_name("data") / "related.txt"

Synonyms = tuple[tuple[str, str], ...]


def find_synonyms(terms: Iterable[str], names: Collection[str] = ()) -> Synonyms:
    """Return synonyms of the terms, each with the term that it stands for. Names have no synonyms.

    >>> find_synonyms(["hobbi"])
    (('leisur', 'hobbi'), ('recreat', 'hobbi'), ('lifestyl', 'hobbi'), ('occup', 'hobbi'))
    """
    table, originals = load_synonyms(), dict.fromkeys(terms)
    synonyms: dict[str, str] = {}
    for term in originals:
        if term not in names:
            for other in table.get(term, "").split():
                synonyms.setdefault(other, term)
    return tuple((other, term) for other, term in synonyms.items() if other not in originals and other not in names)


def expand_postings(own: Postings, others: Postings, stands_for: Sequence[str]) -> Postings:
    """Merge the postings of synonyms into the postings of the terms that they stand for."""
    numbers = {term: number for number, term in enumerate(own.terms)}
    max_documents = max(1.0, RARE_SHARE * others.documents)
    targets = [
        numbers.get(term, -1) if found <= max_documents else -1
        for term, found in zip(stands_for, others.document_frequency, strict=True)
    ]
    term = np.array(targets, np.int64)[np.asarray(others.term, np.int64)]
    mine = term >= 0
    if not mine.any():
        return own
    return Postings(
        terms=own.terms,
        document_frequency=own.document_frequency,
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
    """Return the synonyms of each term, separated by spaces."""
    lines = _DATA.read_text(encoding="ascii").splitlines()
    return {term: others for term, _, others in (line.partition(" ") for line in lines)}
