"""Standards that a reader may rely on."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import brimful
from brimful import errors

SOURCE = Path(brimful.__file__).parent
ERRORS = [
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.BrimfulError) and not name.startswith("_")
]
MAX_PUBLIC_NAMES = 35
PURE_PACKAGES = ("core", "lore", "packagers", "render", "views")
PURE = [path for package in PURE_PACKAGES for path in sorted((SOURCE / package).rglob("*.py"))]
CLOCKS = {
    "now",
    "today",
    "utcnow",
    "time",
    "time_ns",
    "monotonic",
    "perf_counter",
    "getenv",
    "open",
    "print",
}


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_pure_rooms_read_no_clock_environment_or_file(path):
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
    assert not names & CLOCKS


def test_every_public_name_can_be_imported():
    for name in brimful.__all__:
        assert getattr(brimful, name) is not None
    assert list(brimful.__all__) == sorted(brimful.__all__, key=lambda name: (not name[0].isupper(), name))
    assert set(brimful.__all__) <= set(dir(brimful))
    assert len(brimful.__all__) <= MAX_PUBLIC_NAMES


def test_the_tree_of_errors_names_every_error():
    for name in ERRORS:
        assert f" {name} " in errors.__doc__.replace("\n", " ")


def test_importing_loads_no_tokenizer_and_no_heavy_library():
    code = "import sys, brimful; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = ("splintr", "jinja2", "pydantic", "httpx2", "genai_prices", "typer", "rich", "asyncio", "numpy")
    assert not [name for name in heavy if f"'{name}'" in loaded]


def test_nothing_is_logged_or_printed_on_import():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import brimful"], capture_output=True, check=True, env=os.environ
    )
    assert (done.stdout, done.stderr) == (b"", b"")
