"""Files as they come, and what is read of them."""

import json

import pytest

from brimful.importers import Skipped, Source, importer_for


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file, and return the records and the skips that come of it."""

    def reading(data, name="chat.jsonl", *, room=None, format=None, **how):
        path = tmp_path / name
        path.write_bytes(data)
        with Source(str(path), room=room, **how) as source:
            found = list(importer_for(source, format).read(source))
        skips = [each for each in found if isinstance(each, Skipped)]
        return [each for each in found if not isinstance(each, Skipped)], [
            (skip.place.removeprefix(str(tmp_path / name)), skip.reason) for skip in skips
        ]

    return reading
