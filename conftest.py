"""Leave out adapters and tests of programs: each needs what it adapts, in an environment of its own."""

from pathlib import Path

_ROOT = Path(__file__).parent
_ADAPTERS = {_ROOT / folder for folder in ("src/brimful/adapters", "tests/adapters", "tests/programs")}
_SHARED = {"__init__.py", "fitter.py", "test_fitter.py"}


# A hook, since pytest resolves every path of the list `collect_ignore` again for every file that it collects.
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    is_adapter = collection_path.suffix == ".py" and collection_path.parent in _ADAPTERS
    return True if is_adapter and collection_path.name not in _SHARED else None
