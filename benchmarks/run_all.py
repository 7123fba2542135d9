"""Measure everything that Brimful claims, side by side with its peers in one run, and write docs/benchmarks.md.

python benchmarks/run_all.py                    all, in three quarters of an hour on two idle cores
python benchmarks/run_all.py --quick            a smoke run that prints and writes nothing
python benchmarks/run_all.py --only fill,prefix measured again; all other sections of the page stay as they are
BENCH_DATA=folder python benchmarks/run_all.py  texts and transcripts from a folder of JSON files
python benchmarks/run_all.py --postgres URL     also measures sections in PostgreSQL, in new databases
python benchmarks/run_all.py --against ../other storage, records and imports with another checkout of Brimful, too
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import agent_answers
import agent_trimming
import answers
import build_time
import cache
import calibration
import counting
import evidence
import figures
import fill
import gin
import imports
import inspector
import janitor
import lore
import multilingual
import page
import paraphrases
import parity
import passages
import prefix
import proxy
import quality
import records
import relevance
import reranking
import rooms
import scaling
import soak
import startup
import storage
import tenants
import tools
import unseen
import vectors
import worth
from tables import Section, table

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PACKAGES = (
    "brimful",
    "splintr-rs",
    "xllamacpp",
    "tiktoken",
    "langchain",
    "langchain-core",
    "litellm",
    "llama-index-core",
)

INTRODUCTION = """# Benchmarks

This page compares Brimful with other libraries for the same task, and measures how fast and how exact it is. `make
bench` generates the page with the scripts in [`benchmarks/`](../benchmarks). To measure some sections again, name them:
`make bench ONLY=rooms,proxy`.

Machines differ and are noisy, so ratios come first: both sides of a ratio were measured in the same minutes on the same
machine. Each library runs in its own process with a time limit, so that one that hangs or panics costs a row, not the
run. Nothing is downloaded, and telemetry is off. If a package is not installed, its rows say so.

`python benchmarks/build_time.py --against ../other` compares the processor time of a build with that of another
checkout, in alternation, on SQLite or PostgreSQL, and says how many of the finished contexts are equal."""


def main() -> None:
    """Run the sections that were asked for, and write the page."""
    options = _options()
    began = time.perf_counter()
    sections = [_run(name, report) for name, report in _reports(options).items()]
    old = PAGE.read_text(encoding="utf-8") if options.only and not options.quick and PAGE.exists() else ""
    opening = f"{INTRODUCTION}\n\n{_circumstances(options.data)}"
    text = page.written(opening, sections, datetime.now(UTC).date().isoformat(), old)
    print(f"\ndone in {time.perf_counter() - began:.0f} s\n")
    if options.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        for name, figure in ((name, figure) for section in sections for name, figure in section.figures.items()):
            (PAGE.parent / "images" / name).write_text(figure, encoding="utf-8")
        print(f"written: {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run in less than a minute")
    parser.add_argument("--only", default="", help="sections, separated by commas: the others stay as they are")
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    parser.add_argument("--postgres", default=None, help="the URL of a server on which databases may be created")
    parser.add_argument("--against", type=Path, default=None, help="another checkout")
    return parser.parse_args()


def _reports(options: argparse.Namespace) -> dict[str, Callable[[], Section]]:
    reports: dict[str, Callable[[], Section]] = {
        "fill": partial(fill.report, options.data, quick=options.quick),
        "prefix": partial(prefix.report, quick=options.quick),
        "cache": partial(cache.report, quick=options.quick),
        "agents": partial(agent_trimming.report, options.data, quick=options.quick),
        "agent-answers": partial(agent_answers.report, options.data, quick=options.quick),
        "tools": partial(tools.report, options.data, quick=options.quick),
        "parity": partial(parity.report, quick=options.quick),
        "quality": partial(quality.report, quick=options.quick),
        "evidence": partial(evidence.report, options.data, quick=options.quick),
        "unseen": partial(unseen.report, options.data, quick=options.quick),
        "answers": partial(answers.report, options.data, quick=options.quick),
        "worth": partial(worth.report, options.data, quick=options.quick),
        "relevance": partial(relevance.report, options.data, quick=options.quick),
        "reranking": partial(reranking.report, options.data, quick=options.quick),
        "paraphrases": partial(paraphrases.report, options.data, quick=options.quick),
        "languages": partial(multilingual.report, quick=options.quick),
        "passages": partial(passages.report, options.data, quick=options.quick),
        "lore": partial(lore.report, options.data, quick=options.quick),
        "build": partial(build_time.report, options.data, options.postgres, quick=options.quick),
        "rooms": partial(rooms.report, quick=options.quick),
        "vectors": partial(vectors.report, quick=options.quick),
        "figures": partial(figures.report, quick=options.quick),
        "imports": partial(imports.report, options.data, options.postgres, options.against, quick=options.quick),
        "storage": partial(storage.report, options.data, options.postgres, options.against, quick=options.quick),
        "text-index": partial(gin.report, options.data, options.postgres, quick=options.quick),
        "records": partial(records.report, options.postgres, options.against, quick=options.quick),
        "inspector": partial(inspector.report, quick=options.quick),
        "janitor": partial(janitor.report, options.data, quick=options.quick),
        "scaling": partial(scaling.report, quick=options.quick),
        "counting": partial(counting.report, options.data, quick=options.quick),
        "calibration": partial(calibration.report, options.data, quick=options.quick),
        "proxy": partial(proxy.report, quick=options.quick),
        "soak": partial(soak.report, quick=options.quick),
        "tenants": partial(tenants.report, options.postgres, quick=options.quick),
        "startup": partial(startup.report, quick=options.quick),
    }
    chosen = options.only.split(",") if options.only else list(reports)
    return {name: reports[name] for name in chosen}


def _run(name: str, report: Callable[[], Section]) -> Section:
    print(f"{name} …", flush=True)
    began = time.perf_counter()
    section = report()
    print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    return section


def _circumstances(data: Path | None) -> str:
    texts = "a folder of real data" if data else "the manual and the sources that ship with Python"
    rows = [[f"`{package}`", _version(package)] for package in PACKAGES]
    text = f"Python {platform.python_version()} on {os.cpu_count()} cores. Texts: {texts}."
    return f"{text}\n\n{table(['package', 'version'], rows)}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
