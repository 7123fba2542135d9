"""A file that cannot be read or written gives a one-line error."""

from pathlib import Path

import pytest

READERS = (
    ("count", "--file", "{}"),
    ("fill", "{}", "-m", "gpt-4o"),
    ("explain", "{}"),
    ("replay", "{}"),
    ("diff", "{}", "{}"),
)


def fill_in(command, path):
    return [arg.format(path) for arg in command]


@pytest.mark.parametrize("command", READERS)
def test_missing(command, fails):
    error = fails(*fill_in(command, "nowhere.json"))
    if command[0] in ("count", "fill"):
        assert error == "nowhere.json: no such file"
    else:
        assert error == (
            "nowhere.json: there is no such file, and no store sqlite:///brimful.db to look up an id in; "
            "run this in the folder of the store, or name the store with --db or BRIMFUL_DB"
        )


@pytest.mark.parametrize("command", READERS)
def test_directory(command, fails):
    Path("folder").mkdir()
    assert fails(*fill_in(command, "folder")) == "folder: is a directory, not a file"


@pytest.mark.parametrize("command", READERS)
def test_not_utf_8(command, fails):
    Path("latin.txt").write_bytes("{} über".encode("latin-1"))
    assert fails(*fill_in(command, "latin.txt")) == "latin.txt: is not UTF-8 text (byte 3)"


def test_huge(fails):
    with Path("huge.txt").open("wb") as file:
        file.truncate(257 * 2**20)
    assert fails("count", "-f", "huge.txt") == "huge.txt: is larger than 256 MiB"


@pytest.mark.parametrize(("name", "reason"), [("x" * 5000, "File name too long"), ("a\0b", "embedded null byte")])
def test_no_name_of_a_file(name, reason, fails):
    assert fails("count", "-f", name).endswith(f": cannot be read: {reason}")


@pytest.mark.parametrize("command", [("count", "-"), ("count",), ("fill", "-", "-m", "gpt-4o"), ("explain", "-")])
def test_empty_standard_input(command, fails):
    assert fails(*command, stdin="") == "<stdin>: is empty"


@pytest.mark.parametrize("text", ["", "\n \n", "[]"])
def test_no_packages(text, fails):
    Path("empty.jsonl").write_text(text, encoding="utf-8")
    assert fails("fill", "empty.jsonl", "-m", "gpt-4o") == "empty.jsonl: contains no packages"


def test_an_empty_file_counts_nothing(run_json):
    Path("empty.txt").touch()
    assert run_json("count", "-f", "empty.txt")["tokens"] == 0


@pytest.mark.parametrize("text", ["{}", "[1]", "nonsense", '{"form": "brimful/9"}'])
def test_no_record(text, fails):
    Path("x.json").write_text(text, encoding="utf-8")
    assert fails("explain", "x.json").startswith("x.json: is not a context: ")


def test_nesting_without_end(fails):
    assert fails("fill", "-", "-m", "gpt-4o", stdin="[" * 100_000) == "<stdin>: is nested more than 128 levels deep"


def test_nowhere_to_write(fails, chat):
    out = str(Path("no") / "where.json")
    assert fails("fill", chat, "-m", "gpt-4o", "--out", out) == f"{out}: No such file or directory"
