"""Make src/brimful/retrieval/data/related.txt: which words say nearly the same, by the static table that comes along.

    python tools/relate_words.py

A line is a term and those that are nearest to it, the nearest first; terms are words as `analyze` reads them. It is
made from the vocabulary and the table that `tools/distill_static.py` wrote. Needs numpy, and some seconds.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from brimful.retrieval.analyzer import analyze

SOURCE = Path(__file__).parent.parent / "src" / "brimful" / "embedding" / "data"
TARGET = Path(__file__).parent.parent / "src" / "brimful" / "retrieval" / "data" / "related.txt"

FIRST_PIECE = 999  # before it stand special tokens and places that are not used
SHORTEST = 3  # letters of a word: shorter ones mean too many things
MOST = 16  # related terms of a term
LEAST_COSINE = 0.45  # below it, words share a field and not a meaning
AT_ONCE = 1024  # terms that are compared with all others in one product


def main() -> None:
    """Write the file."""
    pieces = (SOURCE / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    terms = read_terms(pieces)
    names, vectors = list(terms), directions(list(terms.values()))
    lines = []
    for start in range(0, len(names), AT_ONCE):
        cosines = vectors[start : start + AT_ONCE] @ vectors.T
        for at, row in enumerate(cosines, start):
            row[at] = -1.0  # a term is not related to itself
            nearest = np.argsort(-row, kind="stable")[:MOST]
            related = [names[other] for other in nearest if row[other] >= LEAST_COSINE]
            if related:
                lines.append(" ".join([names[at], *related]))
    TARGET.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


def read_terms(pieces: list[str]) -> dict[str, int]:
    """Return the terms of whole words, each with the number of the most frequent word that it is the term of."""
    terms: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if number >= FIRST_PIECE and len(piece) >= SHORTEST and piece.isascii() and piece.isalpha():
            for term in analyze(piece):
                terms.setdefault(term, number)
    return terms


def directions(numbers: list[int]) -> npt.NDArray[np.float32]:
    """Return the vectors of pieces, each of length 1."""
    rows = np.load(SOURCE / "static-minilm-256.npy")[numbers].astype(np.float32)
    lengths: npt.NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, np.float32(1e-9))


if __name__ == "__main__":
    main()
