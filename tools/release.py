"""Build everything that a tag publishes into dist/, twice, and fail unless both builds are the same, byte for byte.

Each build starts from the committed files in a folder of its own, with another time zone and hash seed. If there was a
release before this one, a store that its wheel filled is opened with the new wheel, too.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
_STORY: Final = (
    ("message", "add", "--room", "tea", "--id", "m1", "I moved to Leeds, and my sister lives in York."),
    ("message", "add", "--room", "tea", "--id", "m2", "--role", "assistant", "Congratulations! Who helped you?"),
    ("memory", "add", "Ada is allergic to hazelnut.", "--type", "semantic"),
    ("persona", "add", "nova", "--name", "Nova", "--prompt", "You are Nova.", "--model", "gpt-4o"),
    ("lorebook", "add", "city", "Leeds is in Yorkshire.", "--key", "Leeds"),
    ("assemble", "--room", "tea", "--model", "gpt-4o", "--out", "before.json"),
)
"""Commands that fill a store with one of everything."""


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> str:
    """Run a command and return its output. Show what it printed if it fails."""
    done = subprocess.run(command, cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_versions() -> str:
    """Return the version. Fail if a file or the tag of this commit has another one, or the changelog has none."""
    source = (ROOT / "src/brimful/__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)[0]
    others = {f"tag {tag}": tag.removeprefix("v") for tag in run("git", "tag", "--points-at", "HEAD", "v*").split()}
    for file in ("web/client/package.json", "web/package.json", "CITATION.cff"):
        text = (ROOT / file).read_text(encoding="utf-8")
        others[file] = re.findall(r'^ *"?version"?: "?([^",\n]+)', text, re.MULTILINE)[0]
    wrong = [f"{name} has {other}" for name, other in others.items() if other != version]
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        wrong.append(f"CHANGELOG.md has no heading '## {version}'")
    if wrong:
        sys.exit(f"The version is {version}, but {', '.join(wrong)}")
    return version


def build(tree: Path, **env: str) -> dict[str, bytes]:
    """Build all distributions from the committed files. Return each by its name."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    env |= {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()}
    out = tree / "built"
    out.mkdir()
    run("npm", "install", "--no-save", cwd=tree / "web", **env)
    run("npm", "run", "build", cwd=tree / "web", **env)
    run("npm", "pack", "--pack-destination", out, cwd=tree / "web/client", **env)
    for folder in (tree, tree / "packages/brimful-small"):
        run(sys.executable, "-m", "hatchling", "build", "--directory", out, cwd=folder, **env)
    return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


def upgrade(tag: str, wheel: Path, work: Path) -> None:
    """Fill a store with the release of a tag, and open it with the new wheel: everything must still be there."""
    old = work / "source"
    run("git", "worktree", "add", "--detach", old, tag)
    try:
        run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", work, cwd=old)
    finally:
        run("git", "worktree", "remove", "--force", old)
    [before] = work.glob("*.whl")
    python, needed = work / "venv/bin/python", work / "requirements.txt"
    needed.write_text(run(sys.executable, "tools/requirements.py"), encoding="utf-8")
    run(sys.executable, "-m", "venv", work / "venv")

    def install(file: Path) -> None:
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
        run(*pip, "--constraint", ROOT / "constraints.txt", "--requirement", needed)
        run(*pip, "--no-deps", "--force-reinstall", file)

    def brimful(*arguments: str) -> str:
        return run(work / "venv/bin/brimful", *arguments, cwd=work, BRIMFUL_DB="store.db", BRIMFUL_EMBEDDER="none")

    install(before)
    for command in _STORY:
        brimful(*command)
    stored, explained = brimful("db", "export"), brimful("explain", "before.json")
    install(wheel)
    brimful("db", "migrate")
    brimful("db", "check")
    if (brimful("db", "export"), brimful("explain", "before.json")) != (stored, explained):
        sys.exit(f"A store that {tag} filled reads otherwise with {wheel.name}")
    print(f"upgrade from {tag}: records and contexts are the same")


def main() -> None:
    """Build, compare, and write dist/."""
    if run("git", "status", "--porcelain"):
        sys.exit("There are uncommitted changes. A release is built from what is committed.")
    version = check_versions()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        first = build(work / "one", TZ="UTC", PYTHONHASHSEED="1")
        second = build(work / "another/place", TZ="Asia/Tokyo", PYTHONHASHSEED="2")
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if different:
        sys.exit(f"Two builds of the same commit differ: {', '.join(different)}")
    DIST.mkdir(exist_ok=True)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in first.items()}
    for name, data in first.items():
        (DIST / name).write_bytes(data)
        print(f"{name:<40} {len(data):>12,} bytes  sha256 {sums[name][:16]}…")
    (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()), encoding="utf-8")
    earlier = run("git", "tag", "--list", "v*", "--sort=-v:refname", "--no-contains", "HEAD").split()
    if earlier:
        with tempfile.TemporaryDirectory() as folder:
            upgrade(earlier[0], DIST / f"brimful-{version}-py3-none-any.whl", Path(folder))
    else:
        print("no earlier release to upgrade from")
    print(f"brimful {version}: built twice, the same both times, in {DIST.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
