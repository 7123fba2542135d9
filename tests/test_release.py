"""A release has one version and a changelog, and the bytes of its files do not depend on the commit."""

import os
import re
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMALL = "packages/brimful-small"
FILES = {
    "src/brimful/__init__.py": '__version__ = "0.2.0"\n',
    "web/client/package.json": '{\n  "version": "0.2.0"\n}\n',
    "web/package.json": '{\n  "version": "0.2.0"\n}\n',
    "CITATION.cff": "version: 0.2.0\n",
    "CHANGELOG.md": "# Changelog\n\n## 0.2.0 (unreleased)\n\n## 0.1.0 (2026-12-01)\n",
    f"{SMALL}/src/brimful_small/__init__.py": '"""Weights."""\n',
}


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Return the tool in a small repository of its own, also in a hook of git, which names another one."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / SMALL / name, tmp_path / SMALL)
    tool = tmp_path / "tools" / "release.py"
    tool.parent.mkdir()
    shutil.copy(ROOT / "tools" / "release.py", tool)
    spec = spec_from_file_location("release", tool)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.run("git", "init", "--quiet")
    commit(module, "2026-12-01T12:00:00+0000")
    return module


def commit(release, date):
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    release.run("git", "add", ".")
    release.run("git", *who, "commit", "--quiet", "--allow-empty", "-m", date, GIT_COMMITTER_DATE=date)


def change(release, name, old, new):
    file = release.ROOT / name
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_all_files_have_the_version(release):
    assert release.check_versions() == "0.2.0"


@pytest.mark.parametrize("name", ["web/client/package.json", "web/package.json", "CITATION.cff"])
def test_a_file_with_another_version_is_named(release, name):
    change(release, name, "0.2.0", "0.1.0")
    with pytest.raises(SystemExit, match=re.escape(f"The version is 0.2.0, but {name} has 0.1.0")):
        release.check_versions()


def test_the_changelog_has_a_heading_with_this_very_version(release):
    change(release, "CHANGELOG.md", "## 0.2.0", "## 0.2.0rc1")
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no heading '## 0\.2\.0'"):
        release.check_versions()


def test_a_tag_refuses_a_heading_that_says_unreleased(release):
    release.run("git", "tag", "v0.2.0")
    with pytest.raises(SystemExit, match=r"has the heading '## 0\.2\.0 \(unreleased\)'"):
        release.check_versions()
    change(release, "CHANGELOG.md", "unreleased", "2027-01-15")
    assert release.check_versions() == "0.2.0"


def test_a_tag_has_the_version(release):
    change(release, "CHANGELOG.md", "unreleased", "2027-01-15")
    release.run("git", "tag", "v0.3.0")
    with pytest.raises(SystemExit, match=r"but tag v0\.3\.0 has 0\.3\.0"):
        release.check_versions()


def test_uncommitted_changes_are_refused(release):
    change(release, "CHANGELOG.md", "unreleased", "2027-01-15")
    with pytest.raises(SystemExit, match="There are uncommitted changes"):
        release.main()


def test_an_unchanged_package_has_the_same_bytes_in_two_commits(release, tmp_path):
    built = []
    for name, date in (("one", "2026-12-01T12:00:00+0000"), ("two", "2027-01-15T12:00:00+0000")):
        commit(release, date)
        release.build_python(release.ROOT / SMALL, tmp_path / name)
        built.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert built[0] == built[1]
    assert sorted(Path(name).suffix for name in built[0]) == [".gz", ".whl"]


@pytest.mark.parametrize(
    ("new", "old", "is_included"),
    [
        ('[{"a": 1, "b": null}]', '[{"a": 1}]', True),
        ('[{"a": 1}]', '[{"a": 1, "b": null}]', False),
        ('{"a": 1}\n{"a": [2]}\n', '{"a": 1}\n{"a": [2]}\n', True),
        ('{"a": 1}\n', '{"a": 1}\n{"a": 2}\n', False),
        ('{"a": [2]}', '{"a": [3]}', False),
    ],
)
def test_a_later_version_may_show_more_but_not_less(release, new, old, is_included):
    assert release.includes(release.read_json(new), release.read_json(old)) is is_included
