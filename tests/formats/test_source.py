"""Sources: detect a file's format and read it."""

import json
import os
import threading

import msgspec
import pytest

from brimful.errors import InvalidValue
from brimful.formats import Format, Reader, Source, detect_format, format_names, registry
from brimful.records import Memory, Message, Room
from formats.conftest import lines_of

HI = {"role": "user", "content": "Hi"}


def refused(path, reason, format=None):
    with pytest.raises(InvalidValue) as caught, Source(str(path)) as source:
        detect_format(source, format)
    assert caught.value.reason == reason


def test_no_file(tmp_path):
    refused(tmp_path / "nowhere.json", "no such file")
    refused(tmp_path, "is a directory, not a file")
    refused("a\0b", "cannot be read: embedded null byte")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_another_encoding(tmp_path, encoding):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(HI).encode(encoding))
    refused(path, "is UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")


@pytest.mark.parametrize("data", [b"nonsense", b"[" * 1000, b'{"a": 1}', b"\x00\x01\x02"])
def test_no_known_format(tmp_path, data):
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    refused(path, "has an unknown format; name it with `--format`")
    refused(path, f"must be one of {', '.join(format_names())}, not 'morse'", format="morse")


def test_an_empty_file(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b" \n")
    refused(tmp_path / "a.jsonl", "is empty")


def test_a_broken_archive(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8bnonsense")
    refused(tmp_path / "a.gz", "cannot be read: Unknown compression method")


def test_a_file_that_another_thread_has_closed_is_read(tmp_path):
    path = tmp_path / "chat.jsonl"
    path.write_text('{"role": "user", "content": "hi"}\n' * 3)
    with Source(str(path)) as source:
        list(source.entries())
    assert source.position == path.stat().st_size


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(lines_of([HI])))
    writer.start()
    with Source(str(pipe)) as source:
        [message] = detect_format(source).read(source)
    writer.join()
    assert message.content == "Hi"


def test_records_come_as_they_went(read):
    records = [
        Room(id="r", name="Lobby", goal="Tea", created=5.0),
        Message(id="m", room="r", content="Hi", sender="Ada", at=6.0, seq=1, edited=7.0),
        Memory(id="k", content="Ada likes tea.", user="ada"),
    ]
    found, skips = read(b"\n".join(map(msgspec.json.encode, records)) + b'\n{"record": "room"}\n{"record": "x"}')
    assert found == records
    assert [place for place, _ in skips] == [":4", ":5"]


# -- importers of others ---------------------------------------------------------------------------------------------


def _read_lines(source):
    for piece in source.lines():
        place, line = piece
        who, _, text = line.decode().partition(": ")
        yield Message(id=f"{source.room}/{place}", room=source.room, sender=who, content=text)


LOG = Format(name="log", description="", recognizes=lambda source: source.head.startswith(b"ada: "), read=_read_lines)


@pytest.fixture
def installed(tmp_path_factory, monkeypatch):
    """Install formats as another package would, by entry points."""
    folder = tmp_path_factory.mktemp("packages")

    def install(**targets):
        package = folder / "plugin-1.0.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Name: plugin\nVersion: 1.0\n")
        points = "".join(f"{name} = {target}\n" for name, target in targets.items())
        (package / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\n{points}")
        monkeypatch.syspath_prepend(folder)

    return install


def test_another_package_adds_a_format(read, installed):
    installed(log="formats.test_source:LOG")
    assert format_names()[:2] == ("log", "records")
    records, _ = read(b"ada: Hi\nbob: Hello\n", name="log.txt")
    assert [(record.room, record.sender, record.content) for record in records] == [
        ("log", "ada", "Hi"),
        ("log", "bob", "Hello"),
    ]


def _fail(source):
    yield Message(id="m", room=source.room, content="Hi")
    raise KeyError("who")


FAILING = Format(name="failing", description="", recognizes=lambda source: b"fail" in source.head, read=_fail)


def test_a_package_that_fails_costs_its_file_alone(tmp_path, installed):
    installed(failing="formats.test_source:FAILING")
    (tmp_path / "a.txt").write_bytes(b"fail")
    (tmp_path / "b.jsonl").write_bytes(lines_of([HI]))
    first, skipped, last = Reader([str(tmp_path)]).records()
    assert (first.room, last.room) == ("a", "b")
    assert skipped.reason == "the format 'failing' failed (KeyError: 'who')"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("formats.nowhere:LOG", "cannot be loaded (ModuleNotFoundError: "),
        ("formats.test_source:HI", "is a dict, not a Format"),
    ],
)
def test_a_broken_package_is_named_and_costs_nothing_else(read, installed, tmp_path, target, reason):
    installed(broken=target)
    assert len(read(lines_of([HI]))[0]) == 1
    broken, message = Reader([str(tmp_path)]).records()
    assert (broken.location, message.content) == ("format 'broken'", "Hi")
    assert broken.reason.startswith(reason)
    with pytest.raises(InvalidValue, match="format 'broken'"):
        read(lines_of([HI]), format="broken")


def _confused(source):
    raise KeyError(source.name)


CONFUSED = Format(name="confused", description="", recognizes=_confused, read=_read_lines)


def test_a_package_that_fails_to_look_at_a_file_does_not_know_it(read, installed):
    installed(confused="formats.test_source:CONFUSED")
    assert len(read(lines_of([HI]))[0]) == 1
