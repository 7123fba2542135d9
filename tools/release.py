"""Build everything that a tag publishes into dist/, twice, and fail unless both builds are the same, byte for byte.

That is two wheels with their sources, the npm client, and a list of all that is installed with the wheels (an SBOM).

Each build starts from the committed files in a folder of its own, with another time zone and hash seed. If there was a
release before this one, a store that its wheel filled is opened with the new wheel, too.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
_DATE: Final = "1580601600"
"""The time of all files in a wheel. It is not the commit's: unchanged weights are the same bytes in every release."""
_CYCLONEDX: Final = Path(sys.prefix, "release", "bin", "cyclonedx-py")
_SBOM_EXTRAS: Final = (
    *("encryption", "mcp", "metrics", "otel", "parquet", "postgres", "prices", "remote", "server", "small"),
)
"""All but the frameworks, and sentence-transformers, which depends on PyTorch and CUDA."""
_STORY: Final = (
    ("message", "add", "--room", "tea", "--id", "m1", "I moved to Leeds, and my sister lives in York."),
    ("message", "add", "--room", "tea", "--id", "m2", "--role", "assistant", "Congratulations! Who helped you?"),
    ("memory", "add", "Ada is allergic to hazelnut.", "--type", "semantic"),
    ("persona", "add", "nova", "--name", "Nova", "--prompt", "You are Nova.", "--model", "gpt-4o"),
    ("lorebook", "add", "city", "Leeds is in Yorkshire.", "--key", "Leeds"),
    ("api-key", "add", "--name", "kitchen"),
    ("limits", "set", "--user", "ada", "--tokens-per-day", "1000"),
    ("assemble", "--room", "tea", "--model", "gpt-4o", "--out", "before.json"),
)
"""Commands that fill a store with one of everything."""
_ANSWER: Final = """
from brimful import SyncEngine
from brimful.records import Summary

with SyncEngine("sqlite:///store.db", model="gpt-4o", embedder="none") as engine:
    context = engine.assemble(room="tea", message="Where does my sister live?")
    answer = engine.record_response(context, "In York.", usage={"prompt": context.tokens, "completion": 3})
    engine.rate(answer, "good", note="Right.")
    engine.write_summaries([Summary(id="s1", room="tea", cluster="c1", content="Ada moved.", covers=("m1", "m2"))])
"""
"""What no command writes without a model: an answer with its usage and feedback, and a summary."""
_READ: Final = (
    ("db", "export"),
    ("explain", "before.json", "--json"),
    ("context", "list", "--json"),
    ("stats", "--json"),
    ("api-key", "list", "--json"),
    ("limits", "list", "--json"),
)
"""Commands that show all of it, as JSON or one JSON object per line."""


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
    tags = run("git", "tag", "--points-at", "HEAD", "v*").split()
    others = {f"tag {tag}": tag.removeprefix("v") for tag in tags}
    for file in ("web/client/package.json", "web/package.json", "CITATION.cff"):
        text = (ROOT / file).read_text(encoding="utf-8")
        others[file] = re.findall(r'^ *"?version"?: "?([^",\n]+)', text, re.MULTILINE)[0]
    wrong = [f"{name} has {other}" for name, other in others.items() if other != version]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## {re.escape(version)}(?: .*)?$", changelog, re.MULTILINE)
    if heading is None:
        wrong.append(f"CHANGELOG.md has no heading '## {version}'")
    elif tags and "unreleased" in heading[0]:
        wrong.append(f"CHANGELOG.md has the heading '{heading[0]}'")
    if wrong:
        sys.exit(f"The version is {version}, but {', '.join(wrong)}")
    return version


def build(tree: Path, **env: str) -> dict[str, bytes]:
    """Build all distributions from the committed files. Return each by its name."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    out = tree / "built"
    out.mkdir()
    run("npm", "install", "--no-save", cwd=tree / "web", **env)
    run("npm", "run", "build", cwd=tree / "web", **env)
    run("npm", "pack", "--pack-destination", out, cwd=tree / "web/client", **env)
    for folder in (tree, tree / "packages/brimful-small"):
        build_python(folder, out, **env)
    list_packages(tree, out)
    return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


def build_python(folder: Path, out: Path, **env: str) -> None:
    """Build the wheel and the source distribution of a folder."""
    run(sys.executable, "-m", "hatchling", "build", "--directory", out, cwd=folder, SOURCE_DATE_EPOCH=_DATE, **env)


def make_environment(folder: Path, *extras: str) -> Callable[..., str]:
    """Make an environment with all dependencies at their pinned versions. Return its pip."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = partial(run, sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet")
    needed = folder / "requirements.txt"
    needed.write_text(run(sys.executable, "tools/requirements.py", *extras), encoding="utf-8")
    pip("--constraint", ROOT / "constraints.txt", "--requirement", needed)
    return pip


def list_packages(tree: Path, out: Path) -> None:
    """Write a CycloneDX list of all packages that are installed with both wheels and their extras."""
    environment = tree / "environment"
    install = make_environment(environment, *_SBOM_EXTRAS)
    # By name: the path of a wheel would be in the list.
    install("--no-deps", "--no-index", "--find-links", out, "brimful", "brimful-small")
    [wheel] = out.glob("brimful-*.whl")
    project = environment / "pyproject.toml"  # with the version, which is read from the package otherwise
    text = (tree / "pyproject.toml").read_text(encoding="utf-8")
    version = f'version = "{wheel.name.split("-")[1]}"'
    project.write_text(text.replace('dynamic = ["version"]', version), encoding="utf-8")
    listing = (_CYCLONEDX, "environment", "--pyproject", project, "--output-reproducible")
    run(*listing, "--output-file", out / "brimful.cdx.json", environment / "bin/python")


def upgrade(tag: str, wheel: Path, work: Path) -> None:
    """Fill a store with the release of a tag, and open it with the new wheel: everything must still be there."""
    old = work / "source"
    run("git", "worktree", "add", "--detach", old, tag)
    try:
        build_python(old, work)
    finally:
        run("git", "worktree", "remove", "--force", old)
    [old_wheel] = work.glob("*.whl")
    install = make_environment(work / "venv")

    def brimful(*arguments: str) -> str:
        return run(work / "venv/bin/brimful", *arguments, cwd=work, BRIMFUL_DB="store.db", BRIMFUL_EMBEDDER="none")

    install("--no-deps", old_wheel)
    for command in _STORY:
        brimful(*command)
    run(work / "venv/bin/python", "-c", _ANSWER, cwd=work)
    stored = [brimful(*command) for command in _READ]
    install("--no-deps", "--force-reinstall", wheel)
    brimful("db", "migrate")
    brimful("db", "check")
    for command, text in zip(_READ, stored, strict=True):
        if not includes(read_json(brimful(*command)), read_json(text)):
            sys.exit(f"A store that {tag} filled reads otherwise with {wheel.name}: brimful {' '.join(command)}")
    print(f"upgrade from {tag}: everything reads the same")


def read_json(text: str) -> Any:
    """Return the values in a text: one, or one per line."""
    return json.loads("[" + text.replace("}\n{", "},{") + "]")


def includes(new: Any, old: Any) -> bool:
    """Tell whether nothing of a JSON value is missing or different in another. A later version may add fields."""
    if isinstance(new, dict) and isinstance(old, dict):
        return all(key in new and includes(new[key], value) for key, value in old.items())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(includes, new, old))
    return bool(new == old)


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
