"""What users build on changes only together with the changelog."""

import re
import sys
from difflib import unified_diff
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

_spec = spec_from_file_location("api", Path(__file__).parents[1] / "tools" / "api.py")
api = module_from_spec(_spec)
_spec.loader.exec_module(api)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions of Python write types in other words")
def test_the_interface_is_as_it_is_written_down():
    written = api.FILE.read_text(encoding="utf-8").partition("\n")[2]
    change = list(
        unified_diff(written.splitlines(), api.describe().splitlines(), "tests/api.txt", "now", n=0, lineterm="")
    )
    assert not change, "\n".join(["The interface has changed. Say so in CHANGELOG.md, then run `make api`:", *change])


def test_the_file_was_written_by_make_api():
    assert api.is_own(api.FILE.read_text(encoding="utf-8")), "Do not edit tests/api.txt, run `make api`"


def test_a_change_is_written_only_if_the_changelog_has_changed():
    first = api.write("f(a)\n", "# Changelog", "")
    assert api.write("f(a)\n", "# Changelog", first) == first
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has not"):
        api.write("f(a, b)\n", "# Changelog", first)
    second = api.write("f(a, b)\n", "# Changelog\n\n- `f` takes `b`.", first)
    assert second.partition("\n")[2] == "f(a, b)\n"
    assert api.write("f(a, b)\n", "# Changelog\n\n- more", second) == second


def test_an_edited_file_is_noticed():
    written = api.write("f(a)\n", "# Changelog", "")
    assert api.is_own(written)
    edited = written.replace("f(a)", "f(a, b)")
    assert not api.is_own(edited)
    assert api.is_own(api.write("f(a, b)\n", "# Changelog\n\n- more", edited))
    assert not api.is_own("f(a)\n")


def test_every_kind_of_interface_is_there():
    lines = set(api.FILE.read_text(encoding="utf-8").splitlines())
    assert lines >= {
        "  Engine.forget(self, id: str, *, erase: bool = False) -> None",
        "  FitOptions.pin: Sequence[int]",
        "  testing.HashEmbedder.__init__(self, dims: int = 32) -> None",
        "  adapters.claude_agent.BrimfulSessionStore.delete(self, key: SessionKey) -> None",
        "brimful db backup file:Path [--force] [--db:str=sqlite:///brimful.db] [--json]",
        "GET /brimful/v1/runs/{id}?before&limit&since  → 200 RunDetail",
        'setting Config.listen?: string = "127.0.0.1:8080"',
        "variable BRIMFUL_DB",
        "policy Pool.dedupe?: 'all'|'id'|'retrieved' = \"retrieved\"",
    }
    assert not [line for line in lines if re.search(r" at 0x|<(?:function|built-in|class|object|lambda)", line)]
