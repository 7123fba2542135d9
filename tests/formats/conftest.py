"""Files to import, and what is read from them."""

import json
import zipfile

import pytest

from brimful.formats import Reader, Skipped, Source, detect_format


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file, and return the records and the skips that come of it."""

    def reading(data, name="chat.jsonl", *, room=None, format=None, **how):
        path = tmp_path / name
        path.write_bytes(data)
        with Source(str(path), room=room, **how) as source:
            found = list(detect_format(source, format).read(source))
        skips = [each for each in found if isinstance(each, Skipped)]
        return [each for each in found if not isinstance(each, Skipped)], [
            (skip.location.removeprefix(str(tmp_path / name)), skip.reason) for skip in skips
        ]

    return reading


def lay_out(place, files):
    """Write files into a folder."""
    for name, data in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


def packed(path, files):
    """Write files into an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture(params=["folder", "zip"])
def walk(tmp_path, request):
    """Lay files out in a folder or in an archive, and return the records and the skips that come of it."""

    def walking(files, **how):
        place = tmp_path / "export"
        path = lay_out(place, files) if request.param == "folder" else packed(tmp_path / "export.zip", files)
        found = list(Reader([str(path)], **how).records())
        skips = [each for each in found if isinstance(each, Skipped)]
        return [each for each in found if not isinstance(each, Skipped)], [
            (skip.location.removeprefix(f"{path}/"), skip.reason) for skip in skips
        ]

    return walking
