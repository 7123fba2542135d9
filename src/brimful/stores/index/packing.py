"""Packed postings: lists of documents as bytes, a tenth of their size as rows.

A listing holds terms in order, each with the documents that contain it, in order. It is stored in blocks: the terms,
an empty line, and numbers. Numbers are differences to those before, in as few bytes as possible (LEB128).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.index.terms import bare_terms

if TYPE_CHECKING:
    from brimful.stores.session import IndexedDocument, Occurrences

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

MAX_INLINE: Final = 64  # documents of a term; more common terms have rows of their own
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

    def split(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, int, Occurrences]]:
        """Yield terms, all or only the wanted ones, with their total and their listed documents."""
        sizes = self.sizes.tolist()
        for term, count, size, end in zip(self.terms, self.counts.tolist(), sizes, accumulate(sizes), strict=True):
            if wanted is None or term in wanted:
                yield term, count, self.rows[:, end - size : end]


class Row(msgspec.Struct, frozen=True):
    """A row of the table: its part, its first term, and its bytes."""

    part: int
    term: str
    body: bytes


def list_documents(documents: Iterable[IndexedDocument]) -> Listing:
    ordered = sorted(documents, key=attrgetter("doc"))
    found = [bare_terms(each.tokens) for each in ordered]
    terms = sorted(set().union(*found))
    numbers = dict(zip(terms, range(len(terms)), strict=True))
    owners = np.fromiter(map(numbers.__getitem__, chain.from_iterable(found)), np.int64)
    places = np.repeat(np.arange(len(found)), list(map(len, found)))
    keys = np.sort(owners * len(found) + places)  # one for each occurrence
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    owners, places = np.divmod(keys[first], max(1, len(found)))
    columns = np.array([(each.doc, each.seq, each.length) for each in ordered], np.int64).reshape(-1, 3).T
    counts = np.bincount(owners, minlength=len(terms))
    return Listing(terms, counts, counts, np.stack([*columns[:, places], np.diff(first, append=len(keys))]))


def merge(listings: Sequence[Listing]) -> Listing:
    """Return one listing of all documents that are listed."""
    if len(listings) == 1 and (listings[0].counts == listings[0].sizes).all():
        return listings[0]
    terms = sorted({term for each in listings for term in each.terms})
    numbers = {term: i for i, term in enumerate(terms)}
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
    return Listing([terms[i] for i in present.tolist()], counts[present], counts[present], rows[:, chosen])


def list_term(term: str, rows: Occurrences) -> Listing:
    count = np.array([rows.shape[1]])
    return Listing([term], count, count, rows)


def encode_tail(listing: Listing) -> list[Row]:
    """Return the row of a write that is not merged yet; none if it lists nothing."""
    if not listing.terms:
        return []
    whole = np.array([len(listing.terms)]), np.array([listing.rows.shape[1]])
    (numbers,) = _encode(listing.counts, listing.counts, listing.rows, *whole)
    return [Row(TAIL, "", _encode_terms(listing.terms) + numbers)]


def encode_segment(listing: Listing) -> list[Row]:
    """Return the rows of a complete listing: the documents of common terms, and blocks of terms."""
    if not listing.terms:
        return []
    is_common = listing.counts > MAX_INLINE
    heads = [
        (part, listing.terms[i], min(PART_DOCUMENTS, count - start))
        for i, count in zip(np.flatnonzero(is_common).tolist(), listing.counts[is_common].tolist(), strict=True)
        for part, start in enumerate(range(0, count, PART_DOCUMENTS), FIRST_PART)
    ]
    parts = np.array([size for _, _, size in heads], np.int64)
    inline = np.where(is_common, 0, listing.counts)
    sizes = np.cumsum(np.array([len(term) for term in listing.terms], np.int64) + 2 + 4 * inline)
    starts = np.flatnonzero(np.diff(sizes // BLOCK_BYTES, prepend=-1))
    numbers = _encode(
        listing.counts,
        np.append(parts, inline),
        listing.rows[:, np.argsort(~is_common[listing.term_numbers()], kind="stable")],
        np.append(np.zeros_like(parts), np.diff(starts, append=len(listing.terms))),
        np.append(parts, np.add.reduceat(inline, starts)),
    )
    spans = pairwise([*starts.tolist(), len(listing.terms)])
    blocks = [(TERMS, listing.terms[start], listing.terms[start:stop]) for start, stop in spans]
    found = [*((part, term, []) for part, term, _ in heads), *blocks]
    return [
        Row(part, term, _encode_terms(terms) + body) for (part, term, terms), body in zip(found, numbers, strict=True)
    ]


def decode(rows: Sequence[Row]) -> list[Listing]:
    """Return the listing of each row. All are decoded at once: most are small."""
    if not rows:
        return []
    heads, bodies = zip(*(row.body.split(_SEPARATOR, 1) for row in rows), strict=True)
    numbers, ends = _decode_numbers(bodies)
    starts = np.append(0, ends[:-1])
    docs, seqs, totals = (numbers[starts + i] for i in range(_HEADER))
    found = [head.decode().split("\n") if head else [] for head in heads]
    columns = starts + _HEADER + np.array(list(map(len, found)), np.int64)
    # A part has no count of its own: the number of its documents is that of its only term.
    is_part = np.array([row.part >= FIRST_PART for row in rows])
    terms = [each if row.part < FIRST_PART else [row.term] for row, each in zip(rows, found, strict=True)]
    sizes = np.array(list(map(len, terms)), np.int64)
    counts = numbers[_ranges(starts + _HEADER - is_part, sizes)]
    has_parts = np.repeat([row.part == TERMS for row in rows], sizes) & (counts > MAX_INLINE)
    listed = np.where(has_parts, 0, counts)
    steps, moves, lengths = (numbers[_ranges(columns + i * totals, totals)] for i in range(3))
    times = np.ones(len(steps), np.int64)
    repeated = columns + 3 * totals
    times[(steps & 1) > 0] = numbers[_ranges(repeated, ends - repeated)]
    occurrences = np.stack(
        [
            _add_up(steps >> 1, listed) + np.repeat(docs, totals),
            _add_up((moves >> 1) ^ -(moves & 1), listed) + np.repeat(seqs, totals),
            lengths,
            times,
        ]
    )
    of_terms, of_documents = (pairwise([0, *np.cumsum(each).tolist()]) for each in (sizes, totals))
    return [
        Listing(each, counts[first:last], listed[first:last], occurrences[:, start:end])
        for each, (first, last), (start, end) in zip(terms, of_terms, of_documents, strict=True)
    ]


def _ranges(starts: Numbers, sizes: Numbers) -> Numbers:
    """Return all numbers of ranges, one after the other.

    >>> _ranges(np.array([3, 10]), np.array([2, 3])).tolist()
    [3, 4, 10, 11, 12]
    """
    ends = np.cumsum(sizes)
    return np.repeat(starts + sizes - ends, sizes) + np.arange(ends[-1])


def _encode_terms(terms: Sequence[str]) -> bytes:
    return "\n".join(terms).encode() + _SEPARATOR


def _encode(counts: Numbers, listed: Numbers, rows: Occurrences, terms: Numbers, totals: Numbers) -> list[bytes]:
    """Return the numbers of several blocks, all encoded at once.

    `counts` has the counts of all terms, `listed` the number of documents of each term or part, and `rows` these
    documents. `terms` and `totals` are the numbers of counts and documents of each block.
    """
    docs, seqs, lengths, times = rows
    block = np.repeat(np.arange(len(totals)), totals)  # of each document
    filled = totals > 0
    begins = _starts(totals)
    first, origin = np.zeros_like(totals), np.zeros_like(totals)
    first[filled], origin[filled] = np.minimum.reduceat(docs, begins) if len(docs) else 0, seqs[begins]
    steps = _differences(docs - first[block], listed) << 1 | (times > 1)
    moves = _differences(seqs - origin[block], listed)
    repeated = np.bincount(block, times > 1, minlength=len(totals)).astype(np.int64)
    sections = [
        (np.full_like(totals, 1), first),
        (np.full_like(totals, 1), origin),
        (np.full_like(totals, 1), totals),
        (terms, counts),
        (totals, steps),
        (totals, (moves << 1) ^ (moves >> 63)),
        (totals, lengths),
        (repeated, times[times > 1]),
    ]
    # The sections of a block follow each other, not the blocks of a section.
    owners = np.concatenate([np.repeat(np.arange(len(totals)), sizes) for sizes, _ in sections])
    values = np.concatenate([values for _, values in sections])[np.argsort(owners, kind="stable")]
    digits, sizes = _encode_numbers(values)
    ends = np.cumsum(sizes)[np.cumsum(np.bincount(owners, minlength=len(totals))) - 1].tolist()
    return [digits[start:end] for start, end in pairwise([0, *ends])]


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


def _encode_numbers(values: Numbers) -> tuple[bytes, Numbers]:
    """Encode numbers from 0, and return how many bytes each takes."""
    sizes = np.ones(len(values), np.int64)
    left = values >> _BITS
    while left.any():
        sizes += left > 0
        left >>= _BITS
    starts = np.cumsum(sizes) - sizes
    found = np.empty(int(sizes.sum()), np.uint8)
    for index in range(int(sizes.max(initial=0))):
        has = sizes > index
        digits = values[has] >> (_BITS * index) & (_MORE - 1)
        found[starts[has] + index] = digits | np.where(sizes[has] > index + 1, _MORE, 0)
    return found.tobytes(), sizes


def _decode_numbers(bodies: Sequence[bytes]) -> tuple[Numbers, Numbers]:
    """Decode the numbers of all bodies at once, and return where each body ends."""
    digits: Bytes = np.frombuffer(b"".join(bodies), np.uint8)
    last = np.flatnonzero(digits < _MORE)
    sizes = np.diff(last, prepend=-1)
    values = np.zeros(len(last), np.int64)
    for index in range(int(sizes.max(initial=0))):
        has = sizes > index
        values[has] |= (digits[(last - sizes + 1)[has] + index] & (_MORE - 1)).astype(np.int64) << (_BITS * index)
    ends = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    return values, np.searchsorted(last, ends)
