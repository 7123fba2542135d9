"""How long an import takes: ours beside the packages it is compared with."""

import os
import re
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

from isolated import Failure
from peers import QUIET
from tables import Section, duration, table, times

ROUNDS = 5
LIMIT_SECONDS = 60.0
MODULES = ("brimful", "langchain_core.messages", "litellm", "llama_index.core.memory", "tiktoken")

ABOUT = f"""`python -X importtime -c "import …"`, including everything it imports: medians of {ROUNDS} runs. A first
run is not counted: it writes the compiled files that every installed package has."""


def report(*, quick: bool) -> Section:
    """Measure each module in turn, round by round, so that a noisy minute hits all of them."""
    rounds = 1 if quick else ROUNDS
    print(f"  startup: {', '.join(MODULES)}", flush=True)
    found: dict[str, list[float | Failure]] = {module: [] for module in MODULES}
    with TemporaryDirectory() as compiled:
        for module in MODULES:
            _seconds(module, compiled)
        for _ in range(rounds):
            for module in MODULES:
                found[module].append(_seconds(module, compiled))
    medians = {module: _median(values) for module, values in found.items()}
    return Section("Import", ABOUT, (_table(medians),))


def _seconds(module: str, compiled: str) -> float | Failure:
    command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
    environ = {**os.environ, **QUIET, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
    try:
        run = subprocess.run(  # noqa: S603 - our own interpreter on names from the list above
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environ, check=False
        )
    except subprocess.TimeoutExpired:
        return Failure(f"> {LIMIT_SECONDS:.0f} s")
    if run.returncode:
        return Failure("not installed")
    # The first level of indentation is what the command itself imports: a package, then its submodules.
    top = re.findall(rf"^import time:\s+\d+ \|\s+(\d+) \| {module.partition('.')[0]}(?:\.|$)", run.stderr, re.MULTILINE)
    return sum(map(int, top)) / 1e6


def _median(values: list[float | Failure]) -> float | Failure:
    failures = [value for value in values if isinstance(value, Failure)]
    return failures[0] if failures else median(value for value in values if not isinstance(value, Failure))


def _table(medians: dict[str, float | Failure]) -> str:
    rows = [
        [f"`{module}`", _ratio(seconds, medians["brimful"]), duration(seconds)] for module, seconds in medians.items()
    ]
    return table(["import", "brimful = 1", "time"], rows)


def _ratio(seconds: float | Failure, ours: float | Failure) -> str:
    return "–" if isinstance(seconds, Failure) or isinstance(ours, Failure) else times(seconds / ours)
