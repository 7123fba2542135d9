"""Contexts as a Parquet file, written in row groups so that only a few hundred are in memory at once."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from brimful.private_files import create_private

_STRING, _INTEGER, _FLOAT = pa.string(), pa.int64(), pa.float64()
_SCORE: Final = pa.struct([(name, _FLOAT) for name in ("total", "priority", "importance", "relevance", "recency")])
_COMPONENT: Final = pa.struct([("name", _STRING), ("tokens", _INTEGER), ("items", _INTEGER)])
_DECISION: Final = pa.struct(
    [
        *((name, _STRING) for name in ("id", "kind", "outcome", "reason", "pool", "by", "group")),
        *((name, _INTEGER) for name in ("tokens", "cost", "rank", "cut")),
        ("score", _SCORE),
    ]
)
_USAGE: Final = pa.struct([(name, _INTEGER) for name in ("prompt", "cached", "completion", "reasoning")])
_ANSWER: Final = pa.struct(
    [
        *((name, _STRING) for name in ("id", "message", "model", "route", "finish")),
        *((name, _FLOAT) for name in ("at", "seconds")),
        ("usage", _USAGE),
        ("expected_cached", _INTEGER),
    ]
)
_NOTICE: Final = pa.struct([("kind", _STRING), ("text", _STRING)])
SCHEMA: Final = pa.schema(
    [
        ("number", _INTEGER),
        *((name, _STRING) for name in ("id", "room", "persona", "message", "model", "policy")),
        ("at", _FLOAT),
        *(
            (name, _INTEGER)
            for name in ("tokens", "window", "completion", "available", "candidates", "left_out", "naive")
        ),
        *((name, pa.list_(_NOTICE)) for name in ("warnings", "degraded")),
        ("components", pa.list_(_COMPONENT)),
        ("decisions", pa.list_(_DECISION)),
        ("answers", pa.list_(_ANSWER)),
    ]
)
"""The columns: the fields of JSON lines, without the metadata and notices of answers."""


class ParquetFile:
    """A Parquet file. It is there when it is whole."""

    def __init__(self, out: Path) -> None:
        """Begin to write to a temporary file next to the target."""
        self._out = out
        self._part = Path(f"{out}.part")
        create_private(self._part)
        self._writer = pq.ParquetWriter(self._part, SCHEMA, compression="zstd")

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self._writer.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA))

    def close(self) -> None:
        self._writer.close()
        self._part.replace(self._out)

    def drop(self) -> None:
        with suppress(OSError):  # a full disk, which is already being reported
            self._writer.close()
        self._part.unlink(missing_ok=True)
