"""brimful import of memories of other products, and memories as Markdown files and back."""

import json
import os
from pathlib import Path

import pytest

from formats import memory_samples as samples
from formats.samples import lines, written

LATER = 2_000_000_000.0


@pytest.fixture
def listed(run_json):
    """The texts of all memories, by id; archived ones on request."""

    def listing(*options):
        return {each["id"]: each["content"] for each in run_json("memory", "list", *options)}

    return listing


def edit(path, old, new, at=LATER):
    text = path.read_bytes().decode()
    assert old in text
    path.write_bytes(text.replace(old, new).encode())
    os.utime(path, (at, at))


@pytest.fixture
def folder(run):
    """Two memories as files, and their paths."""
    run("memory", "add", "Ada likes tea.", "--user", "ada", "--id", "tea", "--at", "2026-10-01T09:00:00Z")
    run("memory", "add", "Ada flies.", "--id", "fly", "--at", "2026-10-02T09:00:00Z")
    run("export", "--format", "markdown", "--out", "vault")
    return {path.name.partition("-")[2].partition("-")[0]: path for path in Path("vault").glob("*.md")}


@pytest.mark.parametrize("name", samples.files())
def test_every_file_twice_changes_nothing(run_json, name):
    Path(name).write_bytes(samples.files()[name])
    planned = run_json("import", name, "--dry-run", "--json")
    first = run_json("import", name, "--json")
    second = run_json("import", name, "--json")
    assert first == planned
    assert sum(first["records"].values()) > 0
    assert (second["records"], second["updated"], second["archived"]) == ({}, 0, 0)
    assert second["known"] == sum(first["records"].values())
    assert second["skipped"] == first["skipped"]


def test_a_fact_that_ended_is_in_no_search_but_listed(run, run_json, listed):
    Path("graph.jsonl").write_bytes(lines(samples.graphiti_lines()))
    run("import", "graph.jsonl")
    assert "zep/e2" not in listed()
    assert listed("--archived") == {"zep/e2": "Ada lives in Rome."}
    hits = run_json("memory", "search", "Where does Ada live?", "--user", "ada", "--embedder", "none", "--json")["hits"]
    assert "zep/e2" not in {hit["record"]["id"] for hit in hits}


def test_a_later_export_updates_and_ends_facts(run, run_json, listed):
    Path("graph.jsonl").write_bytes(lines([samples.graphiti_edge()]))
    run("import", "graph.jsonl")
    ended = {"invalid_at": "2026-03-01T00:00:00Z", "expired_at": "2026-03-02T00:00:00Z"}
    Path("graph.jsonl").write_bytes(lines([samples.graphiti_edge(**ended)]))
    report = run_json("import", "graph.jsonl", "--json")
    assert (report["updated"], report["known"]) == (1, 0)
    assert (listed(), listed("--archived")) == ({}, {"zep/e1": "Ada lives in Paris."})


def test_an_older_file_does_not_replace_what_was_edited_in_the_store(run, listed):
    Path("mem0.json").write_bytes(written(samples.mem0_get_all()))
    run("import", "mem0.json")
    run("memory", "edit", f"mem0/{samples.TEA}", "--text", "Ada loves coffee.")
    assert "nothing new" in run("import", "mem0.json").stdout
    assert listed()[f"mem0/{samples.TEA}"] == "Ada loves coffee."


def test_an_edited_bullet_replaces_the_old_one(run, run_json, listed):
    path = Path("CLAUDE.md")
    path.write_text("# Tests\n- Run make\n- Be fast\n- Be kind\n", encoding="utf-8")
    run("import", "CLAUDE.md")
    edit(path, "Run make\n", "Run make test\n")
    assert run_json("import", "CLAUDE.md", "--dry-run", "--json")["archived"] == 1
    shown = run("import", "CLAUDE.md").stdout
    assert "1 memory" in shown
    assert "archived       1 memory" in shown
    assert sorted(listed().values()) == ["Be fast", "Be kind", "Run make test"]
    assert list(listed("--archived").values()) == ["Run make"]
    edit(path, "Run make test\n", "Run make\n", LATER + 1)
    report = run_json("import", "CLAUDE.md", "--json")
    assert (report["updated"], report["archived"], report["records"]) == (1, 1, {})
    assert sorted(listed().values()) == ["Be fast", "Be kind", "Run make"]


def test_notes_of_two_projects_do_not_replace_each_other(run, listed):
    for project in ("a", "b"):
        Path(project).mkdir()
        Path(project, "AGENTS.md").write_text(f"- Project {project}\n", encoding="utf-8")
        run("import", f"{project}/AGENTS.md", "--user", "ada")
    assert sorted(listed("--user", "ada").values()) == ["Project a", "Project b"]


def test_a_damaged_file_stores_nothing(run):
    path = samples.claude_mem_database(Path("claude-mem.db"))
    Path("notes").mkdir()
    Path("notes/CLAUDE.md").write_bytes(b"- fine\n- \xff\n")
    path.write_bytes(path.read_bytes()[:9_000])
    for damaged in ("notes", "claude-mem.db"):
        result = run("import", damaged, code=1)
        assert result.stderr.count("error") == 1
        assert damaged in result.stderr
        assert not Path("brimful.db").exists()


# -- Markdown --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_a_store_comes_back_from_its_files(run):
    Path("graph.jsonl").write_bytes(lines(samples.graphiti_lines()))
    run("import", "graph.jsonl")
    run("export", "--format", "markdown", "--out", "vault")
    run("import", "vault", "--db", "sqlite:///copy.db")
    run("export", "--out", "first.jsonl")
    run("export", "--out", "second.jsonl", "--db", "sqlite:///copy.db")
    assert len(Path("first.jsonl").read_text("utf-8").splitlines()) == 5
    assert Path("first.jsonl").read_bytes() == Path("second.jsonl").read_bytes()


def test_an_edited_file_updates_its_memory_and_a_deleted_one_changes_nothing(run_json, folder, listed):
    edit(folder["likes"], "Ada likes tea.", "Ada likes sencha.")
    folder["flies"].unlink()
    Path("vault/new.md").write_text("Ada sings.\n", encoding="utf-8")
    report = run_json("import", "vault", "--format", "markdown", "--json")
    assert (report["updated"], report["records"]) == (1, {"memory": 1})
    assert sorted(listed().values()) == ["Ada flies.", "Ada likes sencha.", "Ada sings."]
    memory = run_json("memory", "show", "tea", "--json")
    assert (memory["user"], memory["edited"]) == ("ada", LATER)
    again = run_json("import", "vault", "--format", "markdown", "--json")
    assert (again["updated"], again["records"], again["known"]) == (0, {}, 2)


def test_a_file_that_was_not_edited_does_not_undo_an_edit_in_the_store(run, folder, listed):
    run("memory", "edit", "tea", "--text", "Ada likes mate.")
    os.utime(folder["likes"], (LATER, LATER))
    run("import", "vault")
    assert listed()["tea"] == "Ada likes mate."


def test_a_second_export_keeps_names_and_what_people_edited(run, folder):
    edit(folder["likes"], "Ada likes tea.", "Ada likes sencha.")
    run("memory", "edit", "fly", "--text", "Ada drives.")
    names = sorted(path.name for path in Path("vault").iterdir())
    shown = run("export", "--format", "markdown", "--out", "vault").stdout
    assert sorted(path.name for path in Path("vault").iterdir()) == names
    assert "edited by you  1" in shown
    assert "Ada likes sencha." in folder["likes"].read_text("utf-8")
    assert "Ada drives." in folder["flies"].read_text("utf-8")
    assert "unchanged      1" in run("export", "--format", "markdown", "--out", "vault").stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "markdown needs a folder"),
        (("--out", "taken"), "is not a folder"),
        (("--out", "v", "--room", "r"), "cannot be combined with --room"),
    ],
)
def test_markdown_needs_a_folder_for_all_memories(run, options, reason):
    Path("taken").write_text("", encoding="utf-8")
    result = run("export", "--format", "markdown", *options, code=2)
    assert reason in " ".join(result.stderr.replace("│", " ").split())
    assert "is a directory" in run("export", "--out", "vault", code=2).stderr


def test_only_their_owner_can_read_the_files(folder):
    assert {path.stat().st_mode & 0o077 for path in folder.values()} == {0}


def test_lines_say_what_is_archived(run):
    Path("graph.jsonl").write_bytes(lines(samples.graphiti_lines()))
    run("import", "graph.jsonl")
    rows = [json.loads(line) for line in run("export").stdout.splitlines()]
    assert {row["id"]: row["archived"] for row in rows}["zep/e2"] is True
