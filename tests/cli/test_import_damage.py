"""brimful import of damaged files: one clear error, and an unchanged store."""

import gzip
import json
import os
import zipfile
from pathlib import Path

import psycopg
import pytest

from brimful.errors import DamagedFile, ImportRefused
from brimful.formats import Reader, check_files, read_checked
from formats import samples
from formats.conftest import lay_out, lines_of, packed

HI = {"role": "user", "content": "Hi"}
HELLO = {"role": "assistant", "content": "Hello!"}
GOOD = lines_of([HI, HELLO])
LONG = 64 * 2**20


def long_line():
    return b'{"role": "user", "content": "' + b"x" * LONG + b'"}\n'


def cut_zip():
    packed(Path("whole.zip"), {"a.jsonl": GOOD})
    return Path("whole.zip").read_bytes()[:-30]


def zip_with(name):
    with zipfile.ZipFile("other.zip", "w") as archive:
        archive.writestr("a.jsonl", GOOD)
        archive.writestr(name, GOOD)
    return Path("other.zip").read_bytes()


def card(*chunks):
    return samples.png(*chunks)


def nova():
    return card(samples.text_chunk("chara", samples.v2_card()))


def changed():
    data = bytearray(nova())
    data[data.index(b"chara") + 20] ^= 1
    return bytes(data)


def bomb():
    return card(samples.text_chunk("chara", {"name": "x" * (LONG + 10)}, b"zTXt"))


DAMAGED = {
    "a line that is cut off": ("x.jsonl", lambda: GOOD + b'{"role": "us', "x.jsonl:3: is not JSON"),
    "a list that is cut off": ("x.json", lambda: b'[{"role": "user", "content": "a"},', "x.json[1]: the file ends in"),
    "an object that is cut off": ("x.json", lambda: b'{\n"role": "user",\n"cont', "x.json: is not JSON"),
    "a channel that is cut off": (
        "x.json",
        lambda: samples.written(samples.discord_channel(), indent=1)[:-20],
        "x.json: the file ends in the middle of its object",
    ),
    "a file that is cut off at once": ("x.json", lambda: b'[{"titl', "x.json[0]: the file ends in"),
    "brackets of two kinds": (
        "x.json",
        lambda: b'[{"role": "user", "content": "a"}}',
        "x.json[1]: is not JSON: a brack",
    ),
    "something behind the end": ("x.json", lambda: json.dumps([HI]).encode() + b"\n]", "x.json:2: is not JSON"),
    "a number that JSON does not know": ("x.jsonl", lambda: GOOD + b'{"role": NaN}\n', "x.jsonl:3: is not JSON"),
    "zeros": ("x.jsonl", lambda: GOOD + b"\0" * 5000, "x.jsonl:3: is not JSON"),
    "nothing but zeros": ("x.jsonl", lambda: b"\0" * 5000, "x.jsonl:1: is not JSON"),
    "Latin-1": (
        "x.jsonl",
        lambda: GOOD + '{"role": "user", "content": "ü"}'.encode("latin-1"),
        "x.jsonl:3: is not UTF-8",
    ),
    "UTF-16": ("x.jsonl", lambda: GOOD.decode().encode("utf-16"), "x.jsonl: is UTF-16, not UTF-8: convert it"),
    "a line without end": ("x.jsonl", lambda: GOOD + long_line(), "x.jsonl:3: is longer than 64 MiB"),
    "depth": ("x.jsonl", lambda: GOOD + b"[" * 10**5 + b"]" * 10**5, "x.jsonl:3: is nested more than 128 levels deep"),
    "a gzip that is cut off": ("x.jsonl.gz", lambda: gzip.compress(GOOD)[:-4], "x.jsonl.gz:3: cannot be read further"),
    "a gzip that was changed": (
        "x.jsonl.gz",
        lambda: gzip.compress(GOOD)[:-8] + b"\0" * 8,
        "x.jsonl.gz:3: cannot be read further: CRC check failed",
    ),
    "a gzip bomb": (
        "x.jsonl.gz",
        lambda: gzip.compress(GOOD + (b" " * 4095 + b"\n") * 3072),
        "x.jsonl.gz:3: cannot be read further: it expands",
    ),
    "an archive that is cut off": ("x.zip", cut_zip, "x.zip: is a damaged archive"),
    "an archive that leads out": ("x.zip", lambda: zip_with("../b.jsonl"), "x.zip: contains a name that leads out"),
    "an archive with a path from the root": ("x.zip", lambda: zip_with("/b.jsonl"), "x.zip: contains a name that"),
    "a PNG bomb": ("x.png", bomb, "x.png: contains a text that expands beyond"),
    "a PNG that is cut off": ("x.png", lambda: nova()[:-12], "x.png: is cut off"),
    "a PNG that was changed": ("x.png", changed, "x.png: contains a damaged text"),
    "no file": ("y.jsonl", lambda: GOOD, "x.jsonl: no such file"),
}
ON_POSTGRES = (
    "a line that is cut off",
    "a gzip bomb",
    "an archive that is cut off",
    "a PNG that is cut off",
    "no file",
)
"""One of each kind: a file is checked before a store is opened."""


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, monkeypatch, run):
    """A store that holds something, and a way to see all of it."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else "sqlite:///brimful.db"
    monkeypatch.setenv("BRIMFUL_DB", url)
    run("room", "add", "lobby", "--goal", "Tea")
    if request.param == "sqlite":
        return lambda: {path.name: path.read_bytes() for path in Path().glob("brimful.db*")}
    return lambda: _rows(url)


def _rows(url):
    """Return all rows of all tables, whosever they are."""
    every = "SELECT coalesce(json_agg(t ORDER BY t::text)::text, '') FROM {} t"
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        assert tables
        return {name: connection.execute(every.format(name)).fetchone() for (name,) in tables}


@pytest.mark.parametrize(
    ("store", "what"),
    [("sqlite", what) for what in DAMAGED] + [("postgres", what) for what in ON_POSTGRES],
    indirect=["store"],
)
def test_the_store_stays_as_it_was(what, store, fails):
    name, data, reason = DAMAGED[what]
    Path(name).write_bytes(data())
    asked = "x.jsonl" if what == "no file" else name
    before = store()
    assert fails("import", asked).startswith(reason)
    assert fails("import", asked, "--json").startswith(reason)
    assert fails("import", asked, "--dry-run").startswith(reason)
    assert store() == before


def test_no_store_is_made(fails):
    Path("x.jsonl").write_bytes(GOOD + b"{")
    fails("import", "x.jsonl", "--tenant", "acme")
    assert [path.name for path in Path().iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("zipped", [False, True])
def test_one_damaged_file_does_not_stop_an_import(store, fails, run_json, zipped):
    files = {f"{at}.jsonl": GOOD for at in range(4)} | {"2.jsonl": GOOD + b"{\n{\n", "notes.txt": b"{", "z.json": b"[1"}
    path = packed(Path("in.zip"), files) if zipped else lay_out(Path("in"), files)
    before = store()
    assert fails("import", path) == (
        f"2 files are damaged: {path}/2.jsonl:3: is not JSON: Input data was truncated; "
        f"{path}/z.json[1]: the file ends in the middle of its array; "
        "nothing was imported: use --salvage to import the 8 records that can be read"
    )
    assert store() == before
    intake = run_json("import", path, "--salvage")
    assert intake["records"] == {"message": 8}
    assert {skips["reason"]: skips["count"] for skips in intake["skipped"]} == {
        "is not JSON: Input data was truncated": 2,
        "has an unknown format; name it with `--format`": 1,
        "the file ends in the middle of its array": 1,
    }


def test_many_damaged_files_are_counted_and_the_first_are_named(fails):
    lay_out(Path("in"), {f"{at}.jsonl": GOOD + b"{" for at in range(9)})
    line = fails("import", "in")
    assert line.startswith("9 files are damaged: in/0.jsonl:3: ")
    assert "in/4.jsonl:3: " in line
    assert "in/5.jsonl" not in line


def test_many_damaged_places_of_one_file_are_counted(fails):
    Path("x.jsonl").write_bytes(b'{"a\n' * 1000 + GOOD)
    assert fails("import", "x.jsonl") == (
        "x.jsonl:1: is not JSON: Input data was truncated (and 999 more); "
        "nothing was imported: use --salvage to import the 2 records that can be read"
    )


def test_readable_lines_that_are_no_message_are_skipped_alone(run_json, write_lines):
    rows = [HI, {"role": "robot", "content": "a"}, [], 7, None, {"role": "user"}, {**HI, "id": 1}, {**HELLO, "id": 1}]
    write_lines("x.jsonl", rows)
    intake = run_json("import", "x.jsonl")
    assert intake["records"] == {"message": 2}
    assert sum(skips["count"] for skips in intake["skipped"]) == 5


def test_salvage_of_a_file_in_which_nothing_is_whole(fails):
    Path("x.jsonl").write_bytes(b'{"role": "us')
    assert fails("import", "x.jsonl", "--salvage") == "x.jsonl:1: is not JSON: Input data was truncated"
    assert not Path("brimful.db").exists()


def test_standard_input_and_pipes_are_checked_and_read_again(run_json, fails):
    assert fails("import", "-", stdin='{"role": "user", "content": "Hi"}\n{').startswith("<stdin>:2: is not JSON")
    assert run_json("import", "-", stdin=json.dumps([HI, HELLO]))["records"] == {"message": 2}
    assert run_json("import", "-", "--salvage", stdin=json.dumps([HI]) + "x")["known"] == 1
    assert run_json("import", "-", stdin=gzip.compress(lines_of([HI, HELLO])))["known"] == 2


def test_a_file_that_is_damaged_between_the_check_and_the_import():
    path = Path("x.jsonl")
    path.write_bytes(GOOD)
    walk = Reader(["x.jsonl"])
    check_files(walk)
    path.write_bytes(GOOD + b"{")
    found = read_checked(walk)
    assert [next(found).content, next(found).content] == ["Hi", "Hello!"]
    with pytest.raises(DamagedFile, match="it changed during the import") as caught:
        next(found)
    assert caught.value.field == "x.jsonl:3"


def test_the_error_tells_a_program_what_it_tells_a_person():
    lay_out(Path("in"), {"a.jsonl": GOOD + b"{\n{", "b.jsonl": b"{"})
    with pytest.raises(ImportRefused) as caught:
        check_files(Reader(["in"]))
    error = caught.value
    assert [each.field for each in error.damage] == ["in/a.jsonl:3", "in/b.jsonl:1"]
    assert (error.files, error.locations, error.readable) == (2, 3, 2)


def test_a_damaged_picture_of_an_export_is_damage(fails):
    files = samples.chatgpt_export()
    picture = next(name for name in files if name.endswith(".png"))
    files[picture] += os.urandom(200_000)  # the damage stands behind what is read of every file
    path = packed(Path("export.zip"), files)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as opened:
        at = opened.getinfo(picture).header_offset + 30 + len(picture)
    data[at + 150_000] ^= 0xFF
    path.write_bytes(data)
    assert fails("import", path).startswith(f"export.zip/{picture}: cannot be read: ")


def test_a_damaged_file_about_a_group_is_damage(fails):
    files = samples.tavern_folder()
    group = next(name for name in files if name.startswith("groups/"))
    lay_out(Path("st"), {**files, group: files[group][:-3]})
    assert fails("import", "st").startswith(f"st/{group}: is not JSON: ")


def test_an_archive_that_would_expand_too_much(store, fails):
    path = packed(Path("x.zip"), {"ok.jsonl": GOOD, "zeros.jsonl": bytes(2**26 + 1)})
    before = store()
    assert fails("import", path).startswith("x.zip: would expand from ")
    assert store() == before


def test_links_that_lead_elsewhere_are_reported_and_not_read(run_json):
    lay_out(Path("out"), {"secret.jsonl": GOOD, "more/b.jsonl": GOOD})
    lay_out(Path("in"), {"a.jsonl": GOOD, "sub/c.jsonl": GOOD})
    Path("in/secret.jsonl").symlink_to(Path("out/secret.jsonl").resolve())
    Path("in/more").symlink_to(Path("out/more").resolve(), target_is_directory=True)
    Path("in/gone.jsonl").symlink_to("nowhere.jsonl")
    Path("in/loop.jsonl").symlink_to("loop.jsonl")
    Path("in/same.jsonl").symlink_to("sub/c.jsonl")
    intake = run_json("import", "in")
    assert (intake["rooms"], intake["records"]) == (3, {"message": 6})
    [skips] = intake["skipped"]
    assert skips["reason"] == "is a link that leads elsewhere: import its target instead"
    assert sorted(skips["locations"]) == ["in/gone.jsonl", "in/loop.jsonl", "in/more", "in/secret.jsonl"]


def test_a_dry_run_knows_the_store_and_leaves_it(store, run, run_json, write_lines):
    write_lines("x.jsonl", [{**HI, "id": 1}, {**HELLO, "id": 2}])
    run("import", "x.jsonl")
    write_lines("x.jsonl", [{**HI, "id": 1}, {**HI, "id": 2}, {**HI, "id": 3}])
    before = store()
    intake = run_json("import", "x.jsonl", "--dry-run")
    assert (intake["records"], intake["known"]) == ({"message": 1}, 1)
    assert [(skips["reason"], skips["locations"]) for skips in intake["skipped"]] == [
        ("another message has this id", ["x.jsonl:2: x/2"])
    ]
    assert store() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="whoever may do anything may read it")
def test_a_file_that_one_may_not_read(fails):
    lay_out(Path("in"), {"a.jsonl": GOOD, "b.jsonl": GOOD})
    Path("in/b.jsonl").chmod(0)
    assert fails("import", "in").startswith("in/b.jsonl: cannot be read: Permission denied; nothing was imported")


def test_a_store_in_the_folder_is_no_damaged_export(run, run_json):
    Path("a.jsonl").write_bytes(GOOD)
    run("import", ".")
    intake = run_json("import", ".")
    assert (intake["records"], intake["known"]) == ({}, 2)
    assert {place for skips in intake["skipped"] for place in skips["locations"]} >= {"./brimful.db"}
