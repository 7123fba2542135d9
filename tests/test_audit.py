"""The report of pip-audit: a package that was not checked is not a safe one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_TOOL = Path(__file__).parents[1] / "tools/audit.py"
SAFE = {"name": "h11", "version": "0.16.0", "vulns": []}
UNKNOWN = {"name": "h11", "skip_reason": "Dependency not found on PyPI and could not be audited: h11 (0.16.0)"}
VULNERABLE = SAFE | {"vulns": [{"id": "PYSEC-2025-1", "fix_versions": ["0.16.1"], "aliases": []}]}


@pytest.mark.parametrize(
    ("report", "code", "text"),
    [
        ({"dependencies": [SAFE]}, 0, "no known vulnerabilities in 1 packages"),
        ({"dependencies": [SAFE, VULNERABLE]}, 1, "h11 0.16.0 has PYSEC-2025-1, fixed in 0.16.1"),
        ({"dependencies": [SAFE, UNKNOWN]}, 2, "1 of 2 packages were not checked: the vulnerability data cannot be"),
        (None, 2, "nothing was checked"),
    ],
)
def test_the_exit_code_says_what_was_found(report, code, text):
    written = "" if report is None else json.dumps(report)
    run = subprocess.run([sys.executable, _TOOL], input=written, capture_output=True, text=True, check=False)
    assert run.returncode == code
    assert text in run.stdout
