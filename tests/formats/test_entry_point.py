"""A package that adds a format: the example in the docs, installed as with pip, and found by the command."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "importing.md"


def test_the_example_of_the_docs_is_a_format_once_it_is_installed(tmp_path):
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "FORMAT =" in block
    )
    assert len([line for line in code.splitlines() if line.strip() and not line.startswith(("from", "import"))]) <= 16
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    (site / "my_package" / "__init__.py").touch()
    (site / "my_package" / "chatlog.py").write_text(code, encoding="utf-8")
    info = site / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n", encoding="utf-8")
    points = re.search(r"```toml\n\[project.entry-points.\"(.*?)\"\]\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (info / "entry_points.txt").write_text(f"[{points[1]}]\n{points[2].replace(chr(34), '')}", encoding="utf-8")
    (tmp_path / "log.txt").write_text("Ada: Hi\nBob: Hello!\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}

    def run(*args):
        command = [sys.executable, "-m", "brimful", *args]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout

    assert run("import", "log.txt").startswith("imported  2 messages (2 user)")
    listed = run("message", "list", "--room", "log")
    assert "Bob: Hello!" in listed or "Hello!" in listed
