"""The requests from which benchmarks learn counts, without timing."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from brimful.wires import find_wire

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def workloads(monkeypatch):
    """The benchmarks' module, which is a script and no part of a package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield import_module("workloads")
    for name in ("workloads", "languages", "texts"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("number", range(10))
def test_equal_numbers_give_equal_requests_that_a_provider_accepts(workloads, number):
    requests = list(workloads.workload(number, None, 8))
    assert requests == list(workloads.workload(number, None, 8))
    assert not any(find_wire("openai").check(request) for request in requests)
    assert all(workloads.characters(request) > 100 for request in requests)


def test_workloads_contain_every_language(workloads):
    text = str([list(workloads.workload(number, None, 30)) for number in range(10)])
    assert all(word in text for word in ("的", "は", "습니다", "но ", "hat ", "ال", "ने", "🚀", "def "))
