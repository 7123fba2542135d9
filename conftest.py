"""Leave out the adapters and their tests: each needs its framework, in an environment of its own."""

from pathlib import Path

_ROOT = Path(__file__).parent
_SHARED = ("__init__", "fitter", "test_fitter")

collect_ignore = [
    str(file)
    for folder in ("src/brimful/adapters", "tests/adapters")
    for file in (_ROOT / folder).glob("*.py")
    if file.stem not in _SHARED
]
