"""How long an import takes, beside the packages it is compared with, and the processor time of short commands."""

import os
import re
import resource
import shlex
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

from isolated import Failure
from peers import QUIET
from tables import Section, duration, table, times

ROUNDS = 5
LIMIT_SECONDS = 60.0
_CLI = "from brimful.cli import main; main()"  # what the installed script does
MODULES = ("brimful", "langchain_core.messages", "litellm", "llama_index.core.memory", "tiktoken")

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("count", "Fill the window to the brim."),
    ("count", "--file", "README.md"),
)

MCP = ("brimful.mcp.handshake", "mcp.server.lowlevel")  # what answers the first request of a client, and the SDK

ABOUT = f"""`python -X importtime -c "import …"`, including everything it imports: medians of {ROUNDS} runs. A first
run is not counted: it writes the compiled files that every installed package has.

The second table has the processor time of whole commands, from the start of Python to its end: medians as well. The
last rows import our answer to an MCP client's first request, and the SDK that answers all others."""


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
        programs = {shlex.join(("brimful", *command)): (_CLI, *command) for command in COMMANDS}
        programs |= {f'python -c "import {module}"': (f"import {module}",) for module in MCP}
        for program in programs.values():
            _processor_seconds(program, compiled)
        spent = {
            name: median(_processor_seconds(program, compiled) for _ in range(rounds))
            for name, program in programs.items()
        }
    medians = {module: _median(values) for module, values in found.items()}
    return Section("Import", ABOUT, (_table(medians), _command_table(spent)))


def _seconds(module: str, compiled: str) -> float | Failure:
    command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
    try:
        run = subprocess.run(  # noqa: S603 - our own interpreter on names from the list above
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=_environ(compiled), check=False
        )
    except subprocess.TimeoutExpired:
        return Failure(f"> {LIMIT_SECONDS:.0f} s")
    if run.returncode:
        return Failure("not installed")
    # The first level of indentation is what the command itself imports: a package, then its submodules.
    top = re.findall(rf"^import time:\s+\d+ \|\s+(\d+) \| {module.partition('.')[0]}(?:\.|$)", run.stderr, re.MULTILINE)
    return sum(map(int, top)) / 1e6


def _processor_seconds(program: tuple[str, ...], compiled: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 - our own commands
        [sys.executable, "-c", *program],
        capture_output=True,
        timeout=LIMIT_SECONDS,
        env=_environ(compiled),
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environ(compiled: str) -> dict[str, str]:
    return {**os.environ, **QUIET, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}


def _median(values: list[float | Failure]) -> float | Failure:
    failures = [value for value in values if isinstance(value, Failure)]
    return failures[0] if failures else median(value for value in values if not isinstance(value, Failure))


def _table(medians: dict[str, float | Failure]) -> str:
    rows = [
        [f"`{module}`", _ratio(seconds, medians["brimful"]), duration(seconds)] for module, seconds in medians.items()
    ]
    return table(["import", "brimful = 1", "time"], rows)


def _command_table(seconds: dict[str, float]) -> str:
    rows = [[f"`{command}`", duration(spent)] for command, spent in seconds.items()]
    return table(["command", "processor time"], rows)


def _ratio(seconds: float | Failure, ours: float | Failure) -> str:
    return "–" if isinstance(seconds, Failure) or isinstance(ours, Failure) else times(seconds / ours)
