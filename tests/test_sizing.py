"""The estimate of machines: each step comes with its load, and docs/scaling.md has what the script says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def size(*options):
    command = [sys.executable, ROOT / "tools/sizing.py", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("load", "steps"),
    [
        ("1e6 1", ["One process"]),
        ("1e6 300 --keep-days 0", ["Several processes", "Workers", "A pooler"]),
        ("1e9 1", ["One process", "A replica", "Citus by tenant"]),
        ("1e11 1 --tenants 2", ["One process", "A replica", "More tenants"]),
        ("1e6 5", ["One process", "A replica", "Records take more than messages"]),
        ("1e6 5 --record-share 0.01", ["One process"]),
    ],
)
def test_each_step_comes_with_its_load(load, steps):
    messages, builds, *more = load.split()
    found = json.loads(size("--json", "--tenants", "1e6", "--messages", messages, "--builds-per-second", builds, *more))
    assert [step.partition(":")[0].split(" for ")[0] for step in found["steps"]] == steps


def test_the_docs_have_its_numbers_and_its_output():
    page = (ROOT / "docs/scaling.md").read_text(encoding="utf-8")
    command, _, output = page.partition("$ python tools/sizing.py ")[2].partition("```")[0].partition("\n")
    assert size(*command.split()) == output
    costs = json.loads(size("--json", "--messages", "1", "--builds-per-second", "1"))["costs"]
    assert [f"{value:,g}" for value in costs.values() if f" {value:,g} " not in page] == []
