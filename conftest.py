"""Leave out adapters and tests of programs: each needs what it adapts, in an environment of its own."""

from pathlib import Path

_ROOT = Path(__file__).parent
_SHARED = ("__init__", "fitter", "test_fitter")

collect_ignore = [
    str(file)
    for folder in ("src/brimful/adapters", "tests/adapters", "tests/programs")
    for file in (_ROOT / folder).glob("*.py")
    if file.stem not in _SHARED
]
