"""Arguments of the wrong type: every public function and method refuses them with one of our own errors."""

import asyncio
import inspect
from typing import get_type_hints

import pytest

import brimful
from brimful import packagers
from brimful.assembly.fit import FitOptions
from brimful.engine import Engine, Retrieval
from brimful.engine.options import AssembleOptions, MemoryChanges, MemoryOptions, RespondOptions, ResponseOptions
from brimful.errors import BrimfulError, ContextOverflow, InvalidPackage, InvalidValue
from brimful.packagers.package import PackageOptions
from brimful.records import Memory, Message, Persona
from brimful.records.memory import MemoryFilters
from brimful.records.own_calls import SpendingLimit
from brimful.testing import ScriptedProvider

NOW = 1_700_000_000
WRONG = [None, True, 7, -1, 10**400, 0.5, float("nan"), "nonsense", "\ud800", b"bytes", object(), [], [1], (object(),)]
WRONG += [{}, {"a": object()}]
COUNTER = brimful.counter("gpt-4o")
PACKAGE = brimful.package("message-current", "Hi", model="gpt-4o")
CONTEXT = brimful.assemble([PACKAGE], model="gpt-4o", now=NOW)
HI = {"role": "user", "content": "Hi"}
LONG = {"model": "gpt-4o", "messages": [{"role": "user", "content": f"{n}. {'word ' * 50}"} for n in range(20)]}
TRIMMED = brimful.fit(LONG, window=500, completion=16, now=NOW)
IMAGE = brimful.Media(modality="image", data="AAAA")
CALL = brimful.ToolCall(id="c", name="f", arguments="{}")
RESULT = brimful.ToolResult(id="c", content="42")

FUNCTIONS = {
    brimful.assemble: {"packages": [PACKAGE], "model": "gpt-4o"},
    brimful.brief: {"messages": [HI], "task": "Hi", "budget": 100, "model": "gpt-4o"},
    brimful.budget: {"model": "gpt-4o"},
    brimful.compact: {"context": TRIMMED},
    brimful.conversation: {"messages": [HI], "model": "gpt-4o"},
    brimful.count: {"text": "Hi", "model": "gpt-4o"},
    brimful.counter: {"model": "gpt-4o"},
    brimful.diff: {"before": CONTEXT, "after": CONTEXT},
    brimful.fit: {"request": {"model": "gpt-4o", "messages": [HI]}},
    brimful.load_policy: {"name": "default"},
    brimful.package: {"kind": "message-recent", "content": "Hi", "model": "gpt-4o"},
    brimful.recall_tool: {"context": TRIMMED},
    brimful.tool_search: {"context": TRIMMED},
    brimful.replay: {"context": CONTEXT},
    brimful.window_for: {"context": CONTEXT, "id": PACKAGE.id},
    packagers.conversation: {"messages": [], "counter": COUNTER},
    packagers.lorebook_entry: {"text": "Hi", "counter": COUNTER},
    packagers.media: {"part": IMAGE, "counter": COUNTER},
    packagers.memory: {"text": "Hi", "counter": COUNTER},
    packagers.message: {"content": "Hi", "counter": COUNTER},
    packagers.needs_vision: {"message": "Hi"},
    packagers.note: {"text": "Hi", "counter": COUNTER},
    packagers.package: {"kind": "message-recent", "content": "Hi", "counter": COUNTER},
    packagers.summary: {"text": "Hi", "of": "c", "counter": COUNTER},
    packagers.tool_turn: {"calls": [CALL], "results": [RESULT], "counter": COUNTER},
    Retrieval: {},
    SpendingLimit: {},
    Engine: {"url": "sqlite:///:memory:"},
}
METHODS = {
    "post": ({"room": "r", "text": "Hi"}, {}),
    "post_many": ({"messages": [Message(id="m9", room="r", content="Hi")]}, {}),
    "edit": ({"id": "m1", "content": "Hi"}, {}),
    "delete": ({"id": "m1"}, {}),
    "supersede": ({"ids": ["m1"]}, {}),
    "remember": ({"text": "Hi"}, MemoryOptions),
    "remember_many": ({"memories": [Memory(id="x", content="Hi")]}, {}),
    "propose": ({"text": "Hi"}, MemoryOptions),
    "confirm_memories": ({"ids": ["x"]}, {}),
    "reject_memories": ({"ids": ["x"]}, {}),
    "pin": ({"id": "x"}, {}),
    "forget": ({"id": "x"}, {}),
    "remove": ({"kind": Persona, "id": "x"}, {}),
    "learn": ({"messages": ["Hi"], "user": "x"}, {}),
    "undo_learning": ({}, {}),
    "update_memory": ({"id": "x", "text": "Hi"}, MemoryChanges),
    "forget_memories": ({"ids": ["y"]}, MemoryFilters),
    "list_memories": ({}, MemoryFilters),
    "count_memories": ({}, MemoryFilters),
    "put": ({"record": Memory(id="x", content="Hi")}, {}),
    "write_lore": ({"entries": []}, {}),
    "write_summaries": ({"summaries": []}, {}),
    "load": ({"records": []}, {}),
    "search": ({"text": "Hi"}, {}),
    "assemble": ({"room": "r", "message": "Hi"}, AssembleOptions),
    "brief": ({"room": "r", "task": "Hi", "budget": 100}, {}),
    "recall": ({"handle": "m1", "room": "r"}, {}),
    "respond": ({"room": "r", "message": "Hi"}, RespondOptions),
    "greet": ({"room": "r", "persona": "p"}, {}),
    "rate": ({"response": "r1", "rating": "good"}, {}),
    "record_response": ({"text": "Hi"}, ResponseOptions),
    "fit": ({"request": {"model": "gpt-4o", "messages": [HI]}}, FitOptions),
    "observe": ({"context": TRIMMED}, ResponseOptions),
    "observe_overflow": ({"context": TRIMMED, "error": ContextOverflow("openai", "too long")}, {}),
    "run_janitor": ({}, {}),
    "list_janitor_runs": ({}, {}),
    "audit_memories": ({}, {}),
    "archive_memories": ({"ids": ["m1"]}, {}),
    "undo_janitor": ({}, {}),
    "make_summarizer": ({}, {}),
    "own_spending": ({}, {}),
    "statistics": ({}, {}),
    "usage": ({}, {}),
}


def names(function, options=None):
    """The names of a function's arguments, with those that it takes as keywords."""
    hints = get_type_hints(options) if options else {}
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        hints = hints or get_type_hints(PackageOptions)
    plain = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name != "self"]
    return [*plain, *hints]


def is_ours(call):
    """Whether a call works or raises one of our errors; otherwise the error."""
    try:
        call()
    except BrimfulError:
        pass
    except Exception as error:  # noqa: BLE001 - every other kind is what this looks for
        return f"{type(error).__name__}: {error}"
    return ""


def call(function, arguments):
    result = function(**arguments)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: f"{each.__module__}.{each.__qualname__}")
def test_functions(function):
    arguments = FUNCTIONS[function]
    wrong = {
        f"{name}={value!r:.40}": problem
        for name in names(function)
        for value in WRONG
        if (problem := is_ours(lambda name=name, value=value: call(function, {**arguments, name: value})))
    }
    assert wrong == {}


def test_near_misses_of_kinds_are_named():
    for wrong, known in {
        "memory_semantic": "memory-semantic",
        "SystemPrompt": "system-prompt",
        "media-images": "media-image",
        "mesage-recent": "message-recent",
    }.items():
        with pytest.raises(InvalidPackage, match=f"^kind: '{wrong}' is not a known kind: did you mean '{known}'\\?$"):
            brimful.package(wrong, "Hi", model="gpt-4o")
    for own in ("recipe", "code-snippet-2", "memory-fact", "message"):
        assert brimful.package(own, "Hi", model="gpt-4o").kind == own
    with pytest.raises(InvalidValue, match="type: must be one of episodic, semantic, procedural, not 'fact'"):
        packagers.memory("Hi", counter=COUNTER, type="fact")
    with pytest.raises(InvalidValue, match=r"counter: must come from brimful.counter\(model\), not be 'gpt-4o'"):
        packagers.memory("Hi", counter="gpt-4o")


def test_a_plain_with_says_what_to_do():
    with pytest.raises(BrimfulError, match="use `async with`"), Engine("sqlite:///:memory:"):
        pass


def test_search_results_are_a_sequence(tmp_path):
    async def story():
        async with Engine(f"sqlite:///{tmp_path}/chat.db", embedder="none", clock=lambda: NOW) as engine:
            await engine.remember("Ada likes green tea.")
            await engine.remember("Bob likes green apples.")
            return await engine.search("green")

    found = asyncio.run(story())
    assert len(found) == len(list(found)) == 2
    assert found[0] == found.hits[0] == next(iter(found))
    assert found[:1] == found.hits[:1]


def test_all_functions_are_tried():
    public = {getattr(brimful, name) for name in brimful.__all__} | {getattr(packagers, n) for n in packagers.__all__}
    functions = {each for each in public if inspect.isfunction(each)} - {brimful.policy_names}
    assert functions <= FUNCTIONS.keys()
    methods = {
        name
        for name, each in vars(Engine).items()
        if inspect.iscoroutinefunction(inspect.unwrap(each)) and name[0] != "_"
    }
    assert methods - METHODS.keys() == {
        *("open", "close", "wait_indexed", "index", "index_deferred", "count_archived"),
    }


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_the_engine(method, tmp_path):
    arguments, options = METHODS[method]

    async def story():
        provider = ScriptedProvider(["Fine."] * 1000)
        wrong = {}
        async with Engine(
            f"sqlite:///{tmp_path}/chat.db", model="gpt-4o", embedder="none", provider=provider, clock=lambda: NOW
        ) as engine:
            await engine.post(room="r", text="Hi", id="m1")
            if method == "record_response":
                arguments["context"] = await engine.assemble(room="r", message="Hi")
            function = getattr(engine, method)
            for name in names(function, options):
                for value in WRONG:
                    try:
                        result = function(**{**arguments, name: value})
                        await result if inspect.isawaitable(result) else None
                    except BrimfulError:
                        pass
                    except Exception as error:  # noqa: BLE001 - every other kind is what this looks for
                        wrong[f"{name}={value!r:.40}"] = f"{type(error).__name__}: {error}"
        return wrong

    assert asyncio.run(story()) == {}
