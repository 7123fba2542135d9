"""Packed postings: lists of documents as bytes, a tenth of their size as rows.

A listing holds terms in order, each with the documents that contain it, in order. It is stored in blocks: the terms,
an empty line, and numbers. Numbers are differences to those before, in as few bytes as possible (LEB128).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.index.terms import split_token

if TYPE_CHECKING:
    from brimful.stores.session import IndexedDocument, Occurrences

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

MAX_INLINE: Final = 64  # documents of a term; those of a more common one have rows of their own
PART_DOCUMENTS: Final = 256  # per row of a common term
BLOCK_BYTES: Final = 600  # about; more would be read for one term, fewer would be many rows
TAIL, TERMS, FIRST_PART = -1, 0, 1  # what a row holds: one write, terms with their documents, a common term's documents

_SEPARATOR: Final = b"\n\n"  # no term is empty or contains a line feed
_HEADER: Final = 3  # the first document, the first position, and the number of documents that are listed
_MORE: Final = 0x80  # this byte is not the last one of its number
_BITS: Final = 7


class Listing(msgspec.Struct, frozen=True):
    """Terms in order, the number of documents of each, and these documents in four rows, see `Occurrences`.

    The documents of some terms may be elsewhere: then their `sizes` are less than their `counts`.
    """

    terms: list[str]
    counts: Numbers
    sizes: Numbers
    rows: Occurrences

    def term_numbers(self) -> Numbers:
        """Return the number of the term of each column of `rows`."""
        return np.repeat(np.arange(len(self.terms)), self.sizes)

    def split(self) -> Iterator[tuple[str, int, Occurrences]]:
        """Yield terms with their total and their listed documents."""
        parts = np.split(self.rows, np.cumsum(self.sizes)[:-1], axis=1) if self.terms else []
        yield from zip(self.terms, self.counts.tolist(), parts, strict=True)


class Row(msgspec.Struct, frozen=True):
    """A row of the table: its part, its first term, and its bytes."""

    part: int
    term: str
    body: bytes


def list_documents(documents: Iterable[IndexedDocument]) -> Listing:
    """Return the listing of new documents."""
    found = [
        (split_token(token)[1], each.doc, each.seq, each.length, times)
        for each in documents
        for token, times in Counter(each.tokens).items()
    ]
    found.sort()
    counts = Counter(row[0] for row in found)  # in order of the terms
    columns = np.array([row[1:] for row in found], np.int64).reshape(-1, 4).T
    numbers = np.array(list(counts.values()), np.int64)
    return Listing(list(counts), numbers, numbers, columns)


def merge(listings: Sequence[Listing]) -> Listing:
    """Return one listing of all documents that are listed."""
    if len(listings) == 1 and (listings[0].counts == listings[0].sizes).all():
        return listings[0]
    terms = sorted({term for each in listings for term in each.terms})
    numbers = {term: at for at, term in enumerate(terms)}
    owners = [np.array([numbers[term] for term in each.terms], np.int64)[each.term_numbers()] for each in listings]
    owner = np.concatenate([np.empty(0, np.int64), *owners])
    rows = np.concatenate([np.empty((4, 0), np.int64), *(each.rows for each in listings)], axis=1)
    return _select(terms, owner, rows, np.lexsort((rows[0], owner)))


def without(listing: Listing, docs: Collection[int]) -> Listing:
    """Return a listing without some documents, and without the terms that only they contain."""
    kept = np.flatnonzero(~np.isin(listing.rows[0], np.fromiter(docs, np.int64, len(docs))))
    return _select(listing.terms, listing.term_numbers(), listing.rows, kept)


def _select(terms: Sequence[str], owner: Numbers, rows: Occurrences, chosen: Numbers) -> Listing:
    counts = np.bincount(owner[chosen], minlength=len(terms))
    present = np.flatnonzero(counts)
    return Listing([terms[at] for at in present.tolist()], counts[present], counts[present], rows[:, chosen])


def list_term(term: str, rows: Occurrences) -> Listing:
    """Return the listing of one term."""
    count = np.array([rows.shape[1]])
    return Listing([term], count, count, rows)


def encode_tail(listing: Listing) -> list[Row]:
    """Return the row of a write that is not merged yet; none if it lists nothing."""
    return [Row(TAIL, "", _encode(listing.terms, listing.counts, listing.rows))] if listing.terms else []


def encode_segment(listing: Listing) -> list[Row]:
    """Return the rows of a complete listing: blocks of terms, and the documents of common terms."""
    if not listing.terms:
        return []
    common = listing.counts > MAX_INLINE
    ends = np.cumsum(listing.counts)
    found = []
    for at in np.flatnonzero(common).tolist():
        rows = listing.rows[:, ends[at] - listing.counts[at] : ends[at]]
        for part, start in enumerate(range(0, rows.shape[1], PART_DOCUMENTS), FIRST_PART):
            piece = rows[:, start : start + PART_DOCUMENTS]
            found.append(Row(part, listing.terms[at], _encode([], np.empty(0, np.int64), piece)))
    rare = listing.rows[:, ~common[listing.term_numbers()]]
    inline = np.where(common, 0, listing.counts)
    sizes = np.cumsum(np.array([len(term) for term in listing.terms], np.int64) + 2 + 4 * inline)
    starts = np.flatnonzero(np.diff(sizes // BLOCK_BYTES, prepend=-1)).tolist()
    ends = np.append(0, np.cumsum(inline))
    for start, stop in zip(starts, [*starts[1:], len(listing.terms)], strict=True):
        rows = rare[:, ends[start] : ends[stop]]
        body = _encode(listing.terms[start:stop], listing.counts[start:stop], rows)
        found.append(Row(TERMS, listing.terms[start], body))
    return found


def decode(rows: Sequence[Row]) -> list[Listing]:
    """Return the listing of each row."""
    heads, bodies = zip(*(row.body.split(_SEPARATOR, 1) for row in rows), strict=True) if rows else ((), ())
    numbers, ends = _decode_numbers(bodies)
    found = []
    start = 0
    for row, head, end in zip(rows, heads, ends, strict=True):
        found.append(_decode_row(row, head, numbers[start:end]))
        start = end
    return found


def _decode_row(row: Row, head: bytes, numbers: Numbers) -> Listing:
    doc, seq, total = numbers[:_HEADER].tolist()
    terms = head.decode().split("\n") if head else []
    counts = numbers[_HEADER : _HEADER + len(terms)]
    steps, moves, lengths = numbers[_HEADER + len(terms) :][: 3 * total].reshape(3, total)
    repeated = numbers[_HEADER + len(terms) + 3 * total :]
    if row.part >= FIRST_PART:
        terms, counts, listed = [row.term], np.array([total]), np.array([total])
    else:
        listed = counts if row.part == TAIL else np.where(counts > MAX_INLINE, 0, counts)
    docs = _add_up(steps >> 1, listed) + doc
    seqs = _add_up((moves >> 1) ^ -(moves & 1), listed) + seq
    times = np.ones(total, np.int64)
    times[(steps & 1) > 0] = repeated
    return Listing(terms, counts, listed, np.stack([docs, seqs, lengths, times]))


def _encode(terms: Sequence[str], counts: Numbers, rows: Occurrences) -> bytes:
    docs, seqs, lengths, times = rows
    listed = _listed(counts, rows.shape[1])
    first, origin = (int(docs.min()), int(seqs[0])) if len(docs) else (0, 0)
    steps = _differences(docs - first, listed) << 1 | (times > 1)
    moves = _differences(seqs - origin, listed)
    numbers = [
        np.array([first, origin, rows.shape[1]], np.int64),
        counts,
        steps,
        (moves << 1) ^ (moves >> 63),
        lengths,
        times[times > 1],
    ]
    return "\n".join(terms).encode() + _SEPARATOR + _encode_numbers(np.concatenate(numbers))


def _listed(counts: Numbers, total: int) -> Numbers:
    """Return how many documents are listed of each term."""
    if counts.sum() == total:
        return counts if len(counts) else np.array([total])
    return np.where(counts > MAX_INLINE, 0, counts) if len(counts) else np.array([total])


def _differences(values: Numbers, listed: Numbers) -> Numbers:
    """Return the difference of each value to the one before it; the first one of a term is unchanged."""
    steps = np.diff(values, prepend=0)
    starts = _starts(listed)
    steps[starts] = values[starts]
    return steps


def _add_up(steps: Numbers, listed: Numbers) -> Numbers:
    """Do the opposite of `_differences`."""
    sums = np.cumsum(steps)
    starts = _starts(listed)
    return sums - np.repeat(sums[starts] - steps[starts], listed[listed > 0])


def _starts(listed: Numbers) -> Numbers:
    present = listed[listed > 0]
    return np.cumsum(present) - present


def _encode_numbers(values: Numbers) -> bytes:
    """Encode numbers from 0."""
    sizes = np.ones(len(values), np.int64)
    left = values >> _BITS
    while left.any():
        sizes += left > 0
        left >>= _BITS
    starts = np.cumsum(sizes) - sizes
    found = np.empty(int(sizes.sum()), np.uint8)
    for at in range(int(sizes.max(initial=0))):
        has = sizes > at
        digits = values[has] >> (_BITS * at) & (_MORE - 1)
        found[starts[has] + at] = digits | np.where(sizes[has] > at + 1, _MORE, 0)
    return found.tobytes()


def _decode_numbers(bodies: Sequence[bytes]) -> tuple[Numbers, list[int]]:
    """Decode the numbers of all bodies at once, and return where those of each end."""
    digits: Bytes = np.frombuffer(b"".join(bodies), np.uint8)
    last = np.flatnonzero(digits < _MORE)
    sizes = np.diff(last, prepend=-1)
    values = np.zeros(len(last), np.int64)
    for at in range(int(sizes.max(initial=0))):
        has = sizes > at
        values[has] |= (digits[(last - sizes + 1)[has] + at] & (_MORE - 1)).astype(np.int64) << (_BITS * at)
    ends = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    return values, np.searchsorted(last, ends).tolist()
