"""The page of benchmarks: new sections replace the old ones."""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_sections_that_are_not_measured_again_stay(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    page, tables = import_module("page"), import_module("tables")
    a, b, new, c = (tables.Section(*each, ("| x |",)) for each in (("A", "a"), ("B", "b"), ("B", "new"), ("C", "c")))
    first = page.written("# Figures", [a, b], "2026-11-01")
    again = page.written("# Figures anew", [new, c], "2026-11-02", first)
    assert [line for line in again.splitlines() if line not in ("", "| x |")] == [
        "# Figures anew",
        *("## A", "a", "Measured on 2026-11-01."),
        *("## B", "new", "Measured on 2026-11-02."),
        *("## C", "c", "Measured on 2026-11-02."),
    ]
    for name in ("page", "tables"):
        del sys.modules[name]
