"""Sizes and thresholds of a store. The defaults suit every store; tests use small ones."""

from collections.abc import Callable, Sequence

import msgspec

from brimful.stores.migrations import Migration, load_migrations


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """How a store splits its work, and when it changes from exact to approximate search."""

    migrations: Callable[[str], Sequence[Migration]] = load_migrations
    backup_pages: int = 2_000  # pages of a SQLite backup between two progress reports
    copy_rows: int = 1_000  # rows per transaction of a copy to another kind of database
    max_float_bytes: int = 24 * 2**20  # vectors of a scope held as float32: 24,576 of 256 dimensions
    max_int8_bytes: int = 384 * 2**20  # vectors of a scope held as int8: 1,572,864; beyond that, only their signs
    block_entries: int = 1_024  # entries of the vector log per stored block
    tail_writes: int = 16  # to a scope, or documents of one write, before PostgreSQL merges their postings
    segment_documents: int = 16_384  # documents of a segment that is not merged any more
    hnsw_threshold: int = 20_000  # documents from which PostgreSQL uses an HNSW index


DEFAULT_TUNING = Tuning()
