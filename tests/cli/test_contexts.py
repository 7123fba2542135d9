"""brimful context: list, show, remove, export and prune."""

import json
import sys
import time

import pyarrow.parquet as pq
import pytest

from brimful.formats.parquet import ParquetFile
from cli.test_stats import answered, built, keep
from stores.test_statistics import CONTEXTS

__all__ = ["keep"]
DAY = 86_400
OLD = time.time() - 40 * DAY


@pytest.fixture
def filled(keep):
    keep(
        built("old", CONTEXTS[0], at=OLD),
        answered("a-old", "old", at=OLD),
        built("one", CONTEXTS[1]),
        built("two", CONTEXTS[2], room="other", persona=None),
        answered("a1", "one"),
    )


def ids(rows):
    return [each["id"] for each in rows]


@pytest.mark.usefixtures("filled")
def test_contexts_are_listed_newest_first(run, run_json):
    assert ids(run_json("context", "list")) == ["two", "one", "old"]
    assert ids(run_json("context", "list", "--room", "general", "--last", "24h")) == ["one"]
    assert ids(run_json("context", "list", "--persona", "helper", "--limit", "1")) == ["one"]
    assert ids(run_json("context", "list", "--model", "gpt-4o")) == []
    assert "history" not in run_json("context", "list")[0]
    lines = run("context", "list").stdout.splitlines()
    assert lines[0].split()[0] == "context"
    assert [line.split()[0] for line in lines[1:]] == ["two", "one", "old"]
    assert run("context", "list", "--model", "gpt-4o").stdout.strip() == "no contexts"


@pytest.mark.usefixtures("filled")
def test_a_context_is_shown(run, run_json, fails):
    assert run("context", "show", "two").stdout.startswith("context     two\n")
    assert run_json("context", "show", "two")["id"] == CONTEXTS[2].id
    assert fails("context", "show", "three") == "no context 'three'"


@pytest.mark.usefixtures("filled")
def test_a_context_is_removed(run, run_json, fails):
    before = run_json("stats")
    assert run("context", "remove", "one").stdout == "removed one\n"
    assert ids(run_json("context", "list")) == ["two", "old"]
    assert run_json("stats") == before
    assert fails("context", "remove", "one") == "no context 'one'"
    assert run_json("context", "remove", "two") == {"id": "two", "removed": True}


@pytest.mark.usefixtures("filled")
def test_old_contexts_are_pruned(run, run_json):
    before = run_json("stats")
    foreseen = run("context", "prune", "--older-than", "30d", "--dry-run").stdout
    assert foreseen.startswith("would remove 1 context, 1 answer, ")
    assert foreseen.rstrip().endswith(" bytes")
    assert len(run_json("context", "list")) == 3
    output = run("context", "prune", "--older-than", "30d").stdout
    assert output == foreseen.replace("would remove", "removed")
    assert ids(run_json("context", "list")) == ["two", "one"]
    assert run_json("stats") == before
    assert run("context", "prune", "--older-than", "30d").stdout.startswith("nothing is older than ")
    data = run_json("context", "prune", "--older-than", "30d")
    assert (data["builds"], data["answers"], data["bytes"]) == (0, 0, 0)


@pytest.mark.usefixtures("filled")
def test_contexts_are_written_as_json_lines(run, run_json, tmp_path):
    assert run("context", "export", "--out", "all.jsonl").stdout.startswith("wrote all.jsonl: 3 contexts, ")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
    assert ids(rows) == ["two", "one", "old"]
    assert len(rows[1]["decisions"]) == len(CONTEXTS[1].decisions)
    assert [each["usage"]["prompt"] for each in rows[1]["answers"]] == [1000]
    assert "What does Ada drink?" not in (tmp_path / "all.jsonl").read_text()
    assert run_json("context", "export", "-o", "new.jsonl", "--last", "24h", "--room", "general")["contexts"] == 1
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.usefixtures("filled")
def test_contexts_are_written_as_parquet(run, tmp_path):
    run("context", "export", "--out", "all.parquet")
    run("context", "export", "--out", "all.jsonl")
    file = pq.ParquetFile(tmp_path / "all.parquet")
    rows = file.read().to_pylist()
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
    for row, line in zip(rows, lines, strict=True):
        assert row["decisions"][0]["outcome"] == line["decisions"][0]["outcome"]
        assert (row["answers"] == []) == (line["answers"] == [])
        same = [name for name in row if name not in ("decisions", "answers", "warnings", "degraded")]
        for name in ("warnings", "degraded"):
            assert row[name] == [{"kind": each["kind"], "text": each["text"]} for each in line[name]]
        assert {name: row[name] for name in same} == {name: line[name] for name in same}
    assert rows[1]["decisions"][0]["score"] is None or rows[1]["decisions"][0]["score"]["total"] >= 0


def test_pages_are_row_groups(tmp_path):
    file = ParquetFile(tmp_path / "two.parquet")
    for page in ([{"id": "a"}, {"id": "b"}], [{"id": "c"}], []):
        file.write(page)
    file.close()
    assert pq.ParquetFile(tmp_path / "two.parquet").num_row_groups == 2


def test_nothing_is_written_where_nothing_fits(run, keep, tmp_path):
    keep()
    assert run("context", "export", "--out", "none.parquet").stdout.startswith("wrote none.parquet: 0 contexts, ")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


@pytest.mark.usefixtures("filled")
def test_without_the_extra_the_install_command_is_shown(fails, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "brimful.formats.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert fails("context", "export", "--out", "x.parquet") == (
        "a Parquet file needs an optional dependency: pip install 'brimful[parquet]'"
    )
    assert not list(tmp_path.glob("x.parquet*"))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", ["none/all.jsonl", "none/all.parquet"])
def test_errors_name_the_requested_file(fails, name):
    assert fails("context", "export", "--out", name) == f"{name}: No such file or directory"
    assert fails("export", "--out", name) == f"{name}: No such file or directory"


@pytest.mark.usefixtures("filled")
def test_a_file_of_another_sort_is_refused(run):
    assert "must end in .jsonl or .parquet" in run("context", "export", "--out", "x.csv", code=2).stderr
    assert "is not a duration such as 90m, 24h or 7d" in run("context", "prune", "--older-than", "old", code=2).stderr


def test_no_store_is_made_by_asking(fails, tmp_path):
    for command in (["list"], ["prune", "--older-than", "1d"], ["export", "--out", "x.jsonl"]):
        assert "there is no such store" in fails("context", *command)
    assert list(tmp_path.iterdir()) == []
