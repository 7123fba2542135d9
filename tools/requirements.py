"""Print the dependencies of the package and of its extras, one per line: `python tools/requirements.py server mcp`.

pip checks the hashes in constraints.txt for these, but not for a project in a folder, which has no hash. Those under
packages/ are therefore left out.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
OURS = "brimful-"


def main(*extras: str) -> None:
    """Print the requirements."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    foreign = (each for group in groups for each in group if not each.startswith(OURS))
    sys.stdout.writelines(f"{requirement}\n" for requirement in foreign)


if __name__ == "__main__":
    main(*sys.argv[1:])
