"""Work grows linearly with the input, whatever the input is.

Regular expressions run outside Python, so they have a time limit. A linear search of these texts takes milliseconds and
a quadratic one many seconds, so the limit has a wide margin on both sides. Everything else is counted in lines of our
code that are executed.
"""

import importlib
import pkgutil
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import brimful
from brimful.shorten import shorten
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


_SOURCE = str(Path(brimful.__file__).parent)


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


def count_steps(call, limit):
    """Return how many lines of our code a call executes. Stop it if there are more than `limit`."""
    steps = 0

    def trace(frame, event, _):
        nonlocal steps
        if not frame.f_code.co_filename.startswith(_SOURCE):
            return None
        steps += event == "line"
        if steps > limit:
            raise AssertionError(f"more than {limit:,} steps at {frame.f_code.co_filename}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps


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


@pytest.mark.parametrize("text", ["about e", "about ", "", "👩"])
@pytest.mark.parametrize("joined", ["\N{COMBINING ACUTE ACCENT}", "\N{ZERO WIDTH JOINER}", "\N{ZERO WIDTH JOINER}👩"])
def test_a_character_without_end_is_divided(text, joined):
    text += joined * (_LENGTH // len(joined))
    count_steps(lambda: shorten(text, 1_000, len, "query"), limit=_LENGTH)
