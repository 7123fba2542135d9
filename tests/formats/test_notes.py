"""MEMORY.md, CLAUDE.md, AGENTS.md and their like."""

import pytest

from brimful.formats import Reader, Replaces, Skipped
from brimful.formats.notes import split_blocks
from brimful.records import Memory
from formats.conftest import lay_out

CLAUDE = """\
---
owner: ada
---
# Project

An introduction
in two lines.

## Tests

- Run `make test`
  before each commit
  - also on Fridays
- Never sleep.
* Use fixtures:

  ```python
  # not a heading
  - not a bullet

  x = 1
  ```

Build:

```sh
make all
```

Old style
---------
1. One
2) Two

<!-- for people -->
@docs/git.md
@~/private.md
@../outside.md
"""


@pytest.fixture
def read_folder(tmp_path):
    def reading(files, path=""):
        folder = lay_out(tmp_path / "project", {name: text.encode() for name, text in files.items()})
        items = list(Reader([str(folder / path)]).records())
        return (
            [item for item in items if isinstance(item, Memory)],
            [item for item in items if isinstance(item, Skipped)],
            [item for item in items if isinstance(item, Replaces)],
        )

    return reading


def test_each_bullet_and_paragraph_is_a_memory_under_its_headings(read_folder):
    git = "Rebase before you push."
    memories, skipped, (replaces,) = read_folder({"CLAUDE.md": CLAUDE, "docs/git.md": git}, "")
    assert [(memory.content, memory.source) for memory in memories] == [
        ("An introduction\nin two lines.", "CLAUDE.md > Project"),
        ("Run `make test`\nbefore each commit\n- also on Fridays", "CLAUDE.md > Project > Tests"),
        ("Never sleep.", "CLAUDE.md > Project > Tests"),
        (
            "Use fixtures:\n\n```python\n# not a heading\n- not a bullet\n\nx = 1\n```",
            "CLAUDE.md > Project > Tests",
        ),
        ("Build:\n\n```sh\nmake all\n```", "CLAUDE.md > Project > Tests"),
        ("One", "CLAUDE.md > Project > Old style"),
        ("Two", "CLAUDE.md > Project > Old style"),
        (git, "docs/git.md"),
    ]
    assert memories[0].metadata == {"owner": "ada", "file": "CLAUDE.md", "headings": ["Project"]}
    assert {memory.type for memory in memories[:-1]} == {"procedural"}
    assert replaces.keep == {memory.id for memory in memories}
    assert all(memory.id.startswith(replaces.prefix) for memory in memories)
    reasons = [skip.reason for skip in skipped]
    outside = "imports a file that is not in the folder, which is not followed"
    assert sorted(reasons) == sorted(
        ["is a comment", outside, outside, "has an unknown format; name it with `--format`"]
    )


def test_a_file_alone_follows_no_imports(read_folder):
    memories, skipped, _ = read_folder({"AGENTS.md": "- Be kind.\n\n@more.md\n", "more.md": "More."}, "AGENTS.md")
    assert [memory.content for memory in memories] == ["Be kind."]
    assert len(skipped) == 1


def test_files_that_import_each_other_are_read_once(read_folder):
    files = {"CLAUDE.md": "@a.md\n", "a.md": "A.\n\n@CLAUDE.md\n\n@b.md\n", "b.md": "B.\n\n@a.md\n"}
    memories, _, _ = read_folder(files)
    assert [memory.content for memory in memories] == ["A.", "B."]


def test_files_next_to_a_memory_md_are_notes(read_folder):
    memories, _, _ = read_folder({"memory/MEMORY.md": "- [Tea](tea.md)", "memory/tea.md": "Ada likes tea."})
    assert {memory.content: memory.type for memory in memories} == {
        "[Tea](tea.md)": "semantic",
        "Ada likes tea.": "semantic",
    }


def test_an_unchanged_bullet_keeps_its_id_when_others_change(read_folder):
    before, _, _ = read_folder({"MEMORY.md": "# A\n- one\n- two\n"})
    after, _, _ = read_folder({"MEMORY.md": "# A\n\n- zero\n- two\n- one!\n"})
    ids = {memory.content: memory.id for memory in before}
    assert [memory.content for memory in after if memory.id in ids.values()] == ["two"]


def test_a_secret_is_masked(read_folder):
    memories, skipped, _ = read_folder({"CLAUDE.md": "- Log in with token=abcdef123456\n"})
    assert memories[0].content == "Log in with token=[masked: password]"
    assert [skip.reason for skip in skipped] == ["a secret in it was masked (password)"]


def test_the_same_bullet_twice_is_one_memory(read_folder):
    memories, _, _ = read_folder({"CLAUDE.md": "- a\n- a\n"})
    assert len(memories) == 1


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("```\nnever closed\n\n- x", ["```\nnever closed\n\n- x"]),
        ("~~~\n```\n~~~\nafter", ["~~~\n```\n~~~", "after"]),
        ("- a\n\n\n  still a\n\nb", ["a\n\n\nstill a", "b"]),
        ("- a\nlazy\n# h\nb", ["a\nlazy", "b"]),
        ("***\n---\n- - -\ntext", ["text"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["| a | b |\n|---|---|\n| 1 | 2 |"]),
        ("-no bullet", ["-no bullet"]),
        ("#no heading", ["#no heading"]),
        ("====", ["===="]),
    ],
)
def test_markdown_at_its_edges(text, blocks):
    assert [block.text for block in split_blocks(text)] == blocks
