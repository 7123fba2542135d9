"""Databases and models to test with, and generated examples.

Examples are the same ones on every run, so that a run is green or red for what the code does and not by chance.
`make search` looks for new ones.
"""

import logging
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator
from importlib import import_module
from itertools import chain
from pathlib import Path, PurePath
from pkgutil import iter_modules

import pytest
import stamina
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from brimful import core

pytest_plugins = ("databases", "llama", "poolers")

settings.register_profile(
    "fixed",
    max_examples=50,  # always the same ones: more of them would find no more tomorrow
    deadline=None,  # a busy machine is no defect
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("fixed")

# Files of tests are in memory where there is room: they are synced to the disk thousands of times.
MEMORY = Path("/dev/shm")  # noqa: S108 - the folders in it are pytest's, and private
ENOUGH = 4 * 2**30  # bytes
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# No test speaks to a server with a certificate. A client that loads all authorities takes longer than most tests.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="show how long the tests of each folder took")
    parser.addoption("--measured", default="", help="folders in which --cov measures plain tests, and no others")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests in the package only: to look into thousands of tests for them takes seconds of each worker."""
    return [collector for collector in (yield) if type(collector) is pytest.Module]


class MeasuresSomeTests:
    """Measures what plain tests of some folders reach: to measure all takes twice as long.

    What generated examples reach is no promise.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self, session: pytest.Session) -> Generator[None, None, None]:
        plugin = session.config.pluginmanager.get_plugin("_cov")
        plugin.cov_controller.pause()  # a worker starts another: when it pauses, this one would go on
        yield
        controller = plugin.cov_controller
        if not controller.started:
            controller.resume()
        for module in iter_modules(core.__path__, "brimful.core."):
            import_module(module.name)
        controller.pause()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if not item.nodeid.startswith(self._folders) or is_hypothesis_test(getattr(item, "obj", None)):
            return (yield)
        coverage = item.config.pluginmanager.get_plugin("_cov").cov_controller
        coverage.resume()
        try:
            return (yield)
        finally:
            coverage.pause()


@pytest.hookimpl(tryfirst=True)  # before pytest's own for subtests
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Print no dots into a file: a log of thousands hides what failed."""
    return ("passed" if report.when == "call" else "", "", "") if report.passed and not sys.stdout.isatty() else None


class FailuresAtOnce:
    """Prints each failure when it happens, since a log may be cut before the end."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the failure of a test."""
        if report.failed:
            self._reporter.write_line(f"\n{report.nodeid} failed:\n{report.longreprtext}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show where the time went: the seconds of all workers, by folder."""
    if not config.getoption("--times"):
        return
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            folder = "/".join(PurePath(report.nodeid.partition("::")[0]).parts[:2])
            seconds[folder] += report.duration
            tests[folder] += report.when == "call"
    terminalreporter.section("seconds and tests")
    for folder, spent in seconds.most_common(20):
        terminalreporter.write_line(f"{spent:6.0f} {tests[folder]:6}  {folder}")
    terminalreporter.write_line(f"{seconds.total():6.0f} {tests.total():6}")


@pytest.hookimpl(trylast=True)  # the reporter must be there
def pytest_configure(config: pytest.Config) -> None:
    """Show failures at once in a log, and keep constants of loaded modules out of fixed examples.

    Which modules are loaded varies with the order of tests.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not sys.stdout.isatty():
        config.pluginmanager.register(FailuresAtOnce(reporter))
    folders = config.getoption("--measured").split()
    if folders and config.pluginmanager.has_plugin("_cov"):
        config.pluginmanager.register(MeasuresSomeTests(tuple(f"{folder}/" for folder in folders)))
    if config.getoption("--hypothesis-profile") != "search":
        providers.is_local_module_file = lambda _path: False


@pytest.fixture(scope="session", autouse=True)
def no_waiting_between_attempts():
    """Let requests to providers be retried at once."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


LOGGERS = [logging.getLogger(name) for name in ("brimful", "brimful.access", "uvicorn.error")]


@pytest.fixture(autouse=True)
def loggers_as_before():
    """Undo what a server that a test starts in this process changes about logging: its output is closed afterwards."""
    before = [(list(logger.handlers), logger.propagate, logger.level) for logger in LOGGERS]
    yield
    for logger, (handlers, propagate, level) in zip(LOGGERS, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)
