"""SQLite databases of other programs, read row by row."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from brimful.errors import DamagedFile
from brimful.formats.source import Skipped, Source

_MAGIC: Final = b"SQLite format 3\0"
_PROGRESS_ROWS: Final = 500  # between two reports of how far it is


def is_database(source: Source) -> bool:
    """Return whether a file is an SQLite database."""
    return source.head.startswith(_MAGIC)


def has_table(source: Source, table: str, *names: str) -> bool:
    """Return whether a database has a table with these columns. Raise `DamagedFile` if it cannot be read."""
    try:
        with _connect(source) as connection:
            rows = connection.execute("SELECT name FROM pragma_table_info(?)", [table]).fetchall()
    except sqlite3.Error as error:
        raise DamagedFile(source.name, _reason(error)) from None
    return bool(rows) and set(names) <= {row["name"] for row in rows}


def read_rows(source: Source, sql: str) -> Iterator[sqlite3.Row | Skipped]:
    """Yield rows one by one. If the database cannot be read to its end, the last item says so.

    The first column is the number of the row, from which the progress is estimated.
    """
    try:
        with _connect(source) as connection:
            total = max(1, connection.execute(f"SELECT max(rowid) FROM {_table(sql)}").fetchone()[0] or 1)  # noqa: S608
            for count, row in enumerate(connection.execute(sql)):
                source.location = f"{source.name}: {_table(sql)}[{row[0]}]"
                if count % _PROGRESS_ROWS == 0 and source.local_path is not None:
                    source.stream().seek(min(source.size, source.size * row[0] // total))
                yield row
    except sqlite3.Error as error:
        yield Skipped(source.name, _reason(error), damaged=True)


def _reason(error: sqlite3.Error) -> str:
    return f"cannot be read as a database: {error}"


def _table(sql: str) -> str:
    """Return the table of a query of ours."""
    return sql.split("FROM ", 1)[1].split(maxsplit=1)[0]


@contextmanager
def _connect(source: Source) -> Iterator[sqlite3.Connection]:
    with closing(_open(source.path_on_disk)) as connection:
        yield connection


def _open(path: Path) -> sqlite3.Connection:
    """Open a database that another program may be writing to. A folder that cannot be written to is no obstacle."""
    log = path.with_name(f"{path.name}-wal")
    written = log.exists() and log.stat().st_size > 0
    for options in ("mode=ro",) if written else ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{options}", uri=True, timeout=5, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        connection.text_factory = _decode
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")
