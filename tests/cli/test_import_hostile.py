"""brimful import under stress: two imports at once, a full disk, hostile data."""

import gzip
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from brimful.formats import Reader, check_files
from formats import samples
from formats.conftest import lay_out, lines_of

HI = {"role": "user", "content": "Hi"}


def rows(number):
    return lines_of([{"role": "user", "content": f"Number {at} " + "x" * 200} for at in range(number)])


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, monkeypatch):
    """The address of an empty store, of either sort."""
    found = request.getfixturevalue("postgres_url") if request.param == "postgres" else "sqlite:///brimful.db"
    monkeypatch.setenv("BRIMFUL_DB", found)
    return found


@pytest.mark.usefixtures("url")
def test_two_imports_of_one_file_at_once(run_json):
    Path("long.jsonl").write_bytes(rows(600))  # two batches
    command = [sys.executable, "-m", "brimful", "import", "long.jsonl", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        said, complaint = process.communicate(timeout=120)
        assert (process.returncode, complaint) == (0, b"")
        assert json.loads(said)["skipped"] == []
    room = run_json("message", "list", "--room", "long", "--limit", 2000)
    assert [message["content"].split()[1] for message in room] == [str(at) for at in range(600)]
    assert run_json("import", "long.jsonl")["known"] == 600


def test_a_disk_that_is_full_costs_nothing_that_was_written(run, run_json, tmp_path):
    Path("long.jsonl").write_bytes(rows(3000))
    run("room", "add", "lobby")
    code = (
        "import sqlite3\n"
        "from brimful.stores.backends import sqlite\n"
        "from brimful.cli.app import main\n"
        "opened = sqlite3.connect\n"
        "def small(*args, **how):\n"
        "    connection = opened(*args, **how)\n"
        "    connection.execute('PRAGMA max_page_count = 250')\n"
        "    return connection\n"
        "sqlite3.connect = small\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "import", "long.jsonl"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "the disk is full; make room and try again" in line
    with closing(sqlite3.connect("brimful.db")) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    intake = run_json("import", "long.jsonl")
    assert intake["known"] + intake["records"]["message"] == 3000
    assert intake["known"] % 500 == 0


def test_a_file_that_goes_while_others_are_read():
    lay_out(Path("in"), {f"{at}.jsonl": rows(3) for at in range(3)})
    walk = Reader(["in"])
    check_files(walk)
    found = walk.records()
    next(found)
    Path("in/2.jsonl").unlink()
    *_, last = found
    assert (last.location, last.reason, last.damaged) == ("in/2.jsonl", "no such file", True)


def circle():
    conversation = samples.chatgpt_conversation()
    mapping = conversation["mapping"]
    for node, parent in zip(mapping, [*list(mapping)[1:], next(iter(mapping))], strict=True):
        mapping[node]["parent"] = parent
        mapping[node]["children"] = [parent, node]
    return samples.written([conversation])


HOSTILE = {
    "a circle of nodes": ("conversations.json", circle),
    "a key that is said twice": (
        "a.jsonl",
        lambda: b'{"role": "robot", "role": "user", "content": "a", "content": "Hi"}',
    ),
    "a huge number": ("a.jsonl", lambda: b'{"role": "user", "content": "Hi", "id": 1' + b"0" * 5000 + b"}"),
    "a time out of all calendars": ("a.jsonl", lambda: b'{"role": "user", "content": "Hi", "timestamp": 1e300}'),
    "zeros in a text": ("a.jsonl", lambda: b'{"role": "user", "content": "Hi\\u0000", "name": "\\u0000"}'),
    "half a pair of surrogates": ("a.jsonl", lambda: b'{"role": "user", "content": "Hi \\ud800", "id": "\\udfff"}'),
    "a mark before the text": ("a.jsonl", lambda: b"\xef\xbb\xbf" + lines_of([HI])),
    "lines of another system": ("a.jsonl", lambda: lines_of([HI, HI]).replace(b"\n", b"\r\n")),
    "a gzip of two parts": ("a.jsonl.gz", lambda: gzip.compress(lines_of([HI])) + gzip.compress(lines_of([HI]))),
    "a name without end": ("a.jsonl", lambda: lines_of([{**HI, "name": "n" * 10**6}])),
    "metadata in metadata": (
        "a.jsonl",
        lambda: b'{"role": "user", "content": "Hi", "metadata": ' + b'{"a":' * 100 + b"1" + b"}" * 101,
    ),
}


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize("what", HOSTILE)
def test_everything_is_imported_or_reported_and_nothing_crashes(what, run):
    name, data = HOSTILE[what]
    Path(name).write_bytes(data())
    code = 1 if what == "a huge number" else 0
    first = run("import", name, code=code)
    again = run("import", name, code=code)
    if code == 0:
        assert "imported  " in first.stdout
        assert "nothing new" in again.stdout


def test_a_gzip_of_a_gzip_is_no_format_that_we_know(fails):
    Path("a.jsonl.gz").write_bytes(gzip.compress(gzip.compress(lines_of([HI]))))
    assert fails("import", "a.jsonl.gz").startswith("a.jsonl.gz")
    assert not Path("brimful.db").exists()
