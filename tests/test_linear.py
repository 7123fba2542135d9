"""Our own regular expressions search any text in linear time, and values in data are found in linear time.

A linear search of these texts takes milliseconds and a quadratic one many seconds, so the time limit has a wide margin
on both sides.
"""

import importlib
import pkgutil
import re
import signal
from contextlib import contextmanager

import pytest

from brimful.shorten.values import find_values

_LENGTH = 20_000  # characters
_SECONDS = 0.5  # of CPU for a search
_REPEATED = (
    " ~\n~\t\n~\r~a~A~1~.~…~!~<~</~< ~< \t~{~{{~ {{ ~{{//~[~(~)~'~\"~://a~1,~1.~1 ~-~;a~data:;~\\~/~a/~a:~:~a ~a.b~"
    "'a~a'~%~\\u~\\u{1~@~a@~|~<|~<|a~.)~。~[a~{1~é~e.g. "
)
_STARTS = ("", "<", "{{", '"')
_PACKAGES = ("core", "engine", "formats", "janitor", "lore", "packagers", "records", "render", "retrieval", "shorten")
"""They search what users and strangers wrote; patterns elsewhere match names and settings."""
_MATCHED_AT_THE_START = {  # used with `match` or `fullmatch` alone
    "brimful.core.compaction._ERROR",
    "brimful.core.compaction._PATH",
    "brimful.formats.json_stream._KEY",
    "brimful.formats.json_stream._TO_BRACKET",
    "brimful.formats.lenient._WRITTEN_OUT_TIME",
    "brimful.render.normalize._DATA_URL",
    "brimful.render.text._TOOL_LINE",
    "brimful.shorten.prose._HEADING",
    "brimful.shorten.values._ERROR",
}


def _patterns():
    for package in _PACKAGES:
        path = importlib.import_module(f"brimful.{package}").__path__
        for module in pkgutil.walk_packages(path, f"brimful.{package}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                pattern = getattr(value, "__self__", value)
                if isinstance(pattern, re.Pattern):
                    yield pytest.param(pattern, id=f"{module.name}.{name}")


@contextmanager
def cpu_limit(seconds):
    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("pattern", list(_patterns()))
def test_a_pattern_is_linear(pattern, request):
    search = pattern.match if request.node.callspec.id in _MATCHED_AT_THE_START else pattern.search
    for start in _STARTS:
        for repeated in _REPEATED.split("~"):
            text = start + repeated * (_LENGTH // len(repeated))
            with cpu_limit(_SECONDS):
                search(text if isinstance(pattern.pattern, str) else text.encode())


def test_values_in_deep_data_are_found_in_linear_time():
    with cpu_limit(4 * _SECONDS):
        assert len(find_values("[" * 500 + ",".join(["12"] * 10 * _LENGTH) + "]" * 500)) == 1


def test_a_quadratic_pattern_is_noticed():
    with pytest.raises(TimeoutError), cpu_limit(_SECONDS):
        re.compile(r"a+b").search("a" * 10 * _LENGTH)
