"""Work grows linearly with the input, whatever the input is.

Regular expressions run outside Python, so they have a time limit. A linear search of these texts takes milliseconds and
a quadratic one many seconds, so the limit has a wide margin on both sides. Everything else is counted in lines of our
code that are executed.
"""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import signal
import sys
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.core.compaction import compact
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN, escape_tags, one_line
from brimful.core.prompt import Message, Text
from brimful.core.validation import preview
from brimful.errors import BudgetExceeded
from brimful.mcp.budget import Block, fill
from brimful.models import resolve
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.documents import split_passages
from brimful.server.errors import ApiError
from brimful.server.proxy.passthrough import get_upstream_path
from brimful.shorten import cut_text, detect, shorten, word_set
from brimful.shorten.lines import fold_log, split_code, split_diff, split_log, split_table
from brimful.shorten.prose import extract_html, split_prose
from brimful.shorten.values import find_values
from brimful.wires import find_wire
from strategies import examples

_LENGTH = 20_000  # characters
_SECONDS = 0.5  # of CPU for a search
_REPEATED = (
    " ~\n~\t\n~\r~a~A~1~.~…~!~<~</~< ~< \t~{~{{~ {{ ~{{//~[~(~)~'~\"~://a~1,~1.~1 ~-~;a~data:;~\\~/~a/~a:~:~a ~a.b~"
    "'a~a'~%~\\u~\\u{1~@~a@~|~<|~<|a~.)~。~[a~{1~é~e.g. "
)
_STARTS = ("", "<", "{{", '"', "f f()")
_END = "g\0"  # keeps most patterns from matching to the end of the text, so that they try everything else
_PACKAGES = ("core", "engine", "formats", "janitor", "lore", "packagers", "records", "wires", "retrieval", "shorten")
"""They search what users and strangers wrote; patterns elsewhere match names and settings."""
_BOUNDED = {"brimful.engine.bench._SENTENCE_START"}  # searches a few characters only
_MATCHED_AT_THE_START = {  # used with `match` or `fullmatch` alone
    "brimful.core.compaction._ERROR",
    "brimful.core.compaction._PATH",
    "brimful.core.relative_times._DATED",
    "brimful.formats.json_stream._KEY",
    "brimful.formats.json_stream._TO_BRACKET",
    "brimful.formats.lenient._WRITTEN_OUT_TIME",
    "brimful.formats.markdown._LINE",
    "brimful.formats.notes._FENCE",
    "brimful.wires.normalize._DATA_URL",
    "brimful.wires.text._TOOL_LINE",
    "brimful.shorten.prose._HEADING",
    "brimful.shorten.values._ERROR",
}


_SOURCE = str(Path(brimful.__file__).parent)
_SEARCHES = re.compile(r"\bre\.(?!compile)\w+\(")  # most modules have none, and to parse them all takes seconds


def _patterns():
    for package in _PACKAGES:
        path = importlib.import_module(f"brimful.{package}").__path__
        for module in pkgutil.walk_packages(path, f"brimful.{package}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                pattern = getattr(value, "__self__", value)
                if isinstance(pattern, re.Pattern) and f"{module.name}.{name}" not in _BOUNDED:
                    yield pytest.param(pattern, id=f"{module.name}.{name}")
            source = inspect.getsource(importlib.import_module(module.name))
            for call in ast.walk(ast.parse(source)) if _SEARCHES.search(source) else ():
                match call:
                    case ast.Call(func=ast.Attribute(ast.Name("re"), verb), args=[ast.Constant(str(text)), *_]):
                        if verb != "compile":
                            yield pytest.param(re.compile(text), id=f"{module.name}:{call.lineno}")


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

    def enter(frame, _event, _argument):
        return count_line if frame.f_code.co_filename.startswith(_SOURCE) else None

    def count_line(frame, event, _argument):  # called millions of times
        nonlocal steps
        if event == "line":
            steps += 1
            if steps > limit:
                raise AssertionError(f"more than {limit:,} steps at {frame.f_code.co_filename}:{frame.f_lineno}")
        return count_line

    before = sys.gettrace()
    sys.settrace(enter)
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
            text = start + repeated * (_LENGTH // len(repeated)) + _END
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


# -- texts -------------------------------------------------------------------------------------------------------------

_LETTERS = "ab1E.:?。<>&#'\"=/(){}[],-|@` \t\n\N{COMBINING ACUTE ACCENT}\N{ZERO WIDTH JOINER}\N{SOFT HYPHEN}👩水ก"
_WORDS = ("ERROR", "public ", "def f(", "@@ -1 +1 @@\n", "<!--", "<svg>", "</p>", "<a b='", "{{", "0x", "```", "\n\n")
_texts = st.lists(
    st.tuples(st.text(_LETTERS, min_size=1, max_size=3) | st.sampled_from(_WORDS), st.integers(1, 800)), max_size=4
).map(lambda runs: "".join(piece * times for piece, times in runs))
_STEPS = 120  # lines of code for each character, and each counted character in place of a line


def _cut_to(limit, cut):
    """Return a function that shortens a text to a part of its length, checks that it fits, and counts fairly."""

    def run(text):
        counted = 0

        def measure(part):
            nonlocal counted
            counted += len(part)
            return len(part)

        room = max(60, int(limit * len(text)))
        assert len(cut(text, room, measure) or "") <= room
        assert counted <= _STEPS * (len(text) + 100)

    return run


def _said(text):
    return Message(role="user", parts=(Text(text=text),))


_READERS = {
    "shorten": _cut_to(0.5, lambda text, room, count: (cut := shorten(text, room, count, "a query")) and cut.text),
    "shorten-much": _cut_to(0.02, lambda text, room, count: (cut := shorten(text, room, count)) and cut.text),
    "shorten-html": _cut_to(
        0.5, lambda text, room, count: (cut := shorten(f"<p>{text}", room, count, "a")) and cut.text
    ),
    "shorten-json": _cut_to(
        0.5, lambda text, room, count: (cut := shorten(json.dumps({text: [text]}), room, count, "a")) and cut.text
    ),
    "cut": _cut_to(0.5, cut_text),
    "cut-much": _cut_to(0.02, cut_text),
    "compact": _cut_to(0.5, lambda text, room, count: compact([_said(text)], room, count)),
    "compact-again": _cut_to(
        0.5, lambda text, room, count: compact([_said(f"{HISTORY_OPEN}calls: {text}\n{HISTORY_CLOSE}")], room, count)
    ),
    "fill": _cut_to(0.5, lambda text, room, count: fill([Block("a", text)] * 2, "".join, room, count, "a query")),
    "prose": split_prose,
    "short-prose": lambda text: split_prose(text, 15),
    "passages": split_passages,
    "html": extract_html,
    "table": split_table,
    "fold": lambda text: fold_log(text, "a query"),
    "log": split_log,
    "code": split_code,
    "diff": split_diff,
    "detect": detect,
    "words": word_set,
    "values": find_values,
    "terms": lambda text: list(analyze(text, "Ada", None)),
    "labels": lambda text: escape_tags(one_line(text)),
    "preview": preview,
}


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS)
@given(text=_texts)
@settings(max_examples=examples(50))  # two dozen readers get the same texts
def test_a_text_is_read_in_linear_steps(read, text):
    count_steps(lambda: read(text), limit=_STEPS * (len(text) + 100))


@pytest.mark.parametrize("tags", ["<svg>", "<a b='", "<!--", "<script>", "<a ", "</", "<!", "&#", "=", "<a b= "])
def test_malformed_html_is_read_once(tags):
    with cpu_limit(_SECONDS):
        extract_html(tags * _LENGTH + "</p>" * _LENGTH)


def test_a_long_reference_in_html_is_text():
    assert extract_html("<p>&#" + "1" * 5_000 + "; &amp;") == "&#" + "1" * 5_000 + "; &"


def test_a_path_that_is_encoded_many_times_is_refused():
    with pytest.raises(ApiError), cpu_limit(_SECONDS):
        get_upstream_path("/v1/%" + "25" * _LENGTH + "2e", find_wire("openai"))


# -- wide requests -----------------------------------------------------------------------------------------------------

_NARROW = 20
_WIDE = 4 * _NARROW
_MAX_GROWTH = 1.15 * _WIDE / _NARROW
_IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_URL = f"data:image/png;base64,{_IMAGE}"
_ASKED = {"role": "user", "content": "And now?"}
_DONE = {"role": "assistant", "content": "Done."}


def _user(content):
    return {"role": "user", "content": content}


def _call(number, id):
    return {"id": id, "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"q": number})}}


def _result(number, id):
    content = json.dumps({"order": f"W-{number}", "total": number, "name": f"Name{number}"})
    return {"role": "tool", "tool_call_id": id, "content": content}


def _calls(numbers, id="{}", step=1):
    calls = [_call(number, id.format(number)) for number in numbers]
    results = [_result(number, id.format(number)) for number in numbers[::step]]
    asked = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"messages": [_user("Do it."), asked, *results, _DONE, _ASKED]}


def _steps(numbers, id="{}"):
    ids = [(number, id.format(number)) for number in numbers]
    turns = [({"role": "assistant", "tool_calls": [_call(*call)]}, _result(*call)) for call in ids]
    return {"messages": [_user("Do it."), *(message for turn in turns for message in turn), _ASKED]}


def _anthropic_results(numbers, content):
    calls = [{"type": "tool_use", "id": f"t{at}", "name": "look_up", "input": {"q": at}} for at in numbers]
    results = [{"type": "tool_result", "tool_use_id": f"t{at}", "content": content(at)} for at in numbers]
    return [_user("Do it."), {"role": "assistant", "content": calls}, _user(results), _DONE, _ASKED]


def _gemini(*turns):
    roles = ("user", "model", "user", "model")
    return {"contents": [{"role": role, "parts": parts} for role, parts in zip(roles, turns, strict=False)]}


def _define(at):
    schema = {"type": "object", "properties": {f"argument_{at}": {"type": "string"}}}
    return {"type": "function", "function": {"name": f"tool_{at}", "description": "Looks.", "parameters": schema}}


_REQUESTS = {
    "calls": ("openai", _calls),
    "calls-reversed": ("openai", lambda numbers: _calls(numbers, step=-1)),
    "calls-of-one-id": ("openai", lambda numbers: _calls(numbers, "c")),
    "steps": ("openai", _steps),
    "steps-of-one-id": ("openai", lambda numbers: _steps(numbers, "c")),
    "parts": (
        "openai",
        lambda numbers: {"messages": [_user([{"type": "text", "text": f"Part {at}."} for at in numbers]), _ASKED]},
    ),
    "tools": ("openai", lambda numbers: {"messages": [_ASKED], "tools": [_define(at) for at in numbers]}),
    "images": (
        "openai",
        lambda numbers: {
            "messages": [_user([{"type": "image_url", "image_url": {"url": _URL, "at": at}} for at in numbers])]
        },
    ),
    "systems": (
        "openai",
        lambda numbers: {"messages": [*({"role": "system", "content": f"Rule {at}."} for at in numbers), _ASKED]},
    ),
    "names": (
        "openai",
        lambda numbers: {"messages": [*({**_user(f"I am {at}."), "name": f"user_{at}"} for at in numbers), _ASKED]},
    ),
    "anthropic-systems": (
        "anthropic",
        lambda numbers: {"system": [{"type": "text", "text": f"Rule {at}."} for at in numbers], "messages": [_ASKED]},
    ),
    "anthropic-calls": (
        "anthropic",
        lambda numbers: {"messages": _anthropic_results(numbers, lambda at: f"Order W-{at}")},
    ),
    "anthropic-blocks": (
        "anthropic",
        lambda numbers: {
            "messages": _anthropic_results(
                numbers, lambda at: [{"type": "text", "text": f"{name} {at}"} for name in ("Order", "Name")]
            )
        },
    ),
    "responses-calls": (
        "responses",
        lambda numbers: {
            "input": [
                _user("Do it."),
                *({"type": "function_call", "call_id": f"c{at}", "name": "f", "arguments": "{}"} for at in numbers),
                *({"type": "function_call_output", "call_id": f"c{at}", "output": f"W-{at}"} for at in numbers),
                _ASKED,
            ]
        },
    ),
    "gemini-calls": (
        "gemini",
        lambda numbers: _gemini(
            [{"text": "Do it."}],
            [{"functionCall": {"name": "f", "args": {"q": at}}} for at in numbers],
            [
                *({"functionResponse": {"name": "f", "response": {"order": f"W-{at}"}}} for at in numbers),
                {"text": "And now?"},
            ],
        ),
    ),
}
_MODELS = {
    "openai": "gpt-4o",
    "responses": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}


_numbers = count(1_000_000)  # new ones for every request, so that no cache has it


def _growth(run):
    """Return how many times the work grows if a request is four times as wide."""
    first, wide, narrow = ([next(_numbers) for _ in range(size)] for size in (_WIDE, _WIDE, _NARROW))
    run(first)  # what is loaded once is not counted
    return count_steps(lambda: run(wide), 10_000_000) / count_steps(lambda: run(narrow), 10_000_000)


@pytest.mark.parametrize("policy", ["fit", "agent", "default"])
@pytest.mark.parametrize("name", _REQUESTS)
def test_work_grows_with_the_width_of_a_request(name, policy):
    wire, make = _REQUESTS[name]
    tokens = 40 if name == "images" else 5  # enough for a line in place of each image

    def run(numbers):
        fixed = 50 if name == "tools" else 600  # so little that even a few tools are shortened
        request, limit = {**make(numbers), "model": _MODELS[wire]}, fixed + tokens * len(numbers)
        with suppress(BudgetExceeded):  # some of them are required
            brimful.fit(request, wire=wire, policy=policy, max_prompt_tokens=limit, completion=100, now=0)

    assert _growth(run) < _MAX_GROWTH


def test_work_grows_with_parallel_calls_of_a_model_that_makes_one_at_a_time():
    model = msgspec.structs.replace(resolve("llama-3.1-8b"), short_ids=True)

    def run(numbers):
        packages = brimful.conversation(_calls(numbers, "c")["messages"], model=model)
        brimful.assemble(packages, model=model, completion=100, now=0)

    assert _growth(run) < _MAX_GROWTH


def test_work_grows_with_duplicates():
    def run(numbers):
        memories = [
            brimful.package("memory-semantic", f"Fact {number}", model="gpt-4o", id=f"m{number}-{at}", relevance=0.9)
            for number in numbers
            for at in range(10)
        ]
        asked = brimful.package("message-current", "And now?", model="gpt-4o")
        limit = 1_100 + 10 * len(numbers)
        brimful.assemble([*memories, asked], model="gpt-4o", policy="auction", max_prompt_tokens=limit, now=0)

    assert _growth(run) < _MAX_GROWTH
