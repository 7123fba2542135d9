"""Generated packages, policies and models for the laws."""

import json

from hypothesis import settings
from hypothesis import strategies as st

from brimful import Count, Form, Text, ToolCall, ToolResult
from brimful.core.content import KNOWN_KINDS, Media
from brimful.core.model import ModelInfo
from brimful.packagers import media, note, package, tool_turn
from brimful.policies import load_policy, policy_names
from brimful.testing import WordCounter

COUNTER = WordCounter()


def examples(count):
    """Return how many examples a slow test takes where others take a hundred."""
    return max(1, count * settings().max_examples // 100)


class UnsureCounter(WordCounter):
    """Counts letters by fours, so that joining texts changes their sum, and is never sure of more than a tenth."""

    tokenizer = "unsure"

    def text(self, text):
        tokens = len(text) // 4 + 1
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.tokenizer, margin=tokens // 10)

    def _part(self, part):
        return self.media(part).upper if isinstance(part, Media) else self.text(_words(part)).upper


def _words(part):
    match part:
        case ToolCall():
            return f"{part.name} {part.arguments}"
        case ToolResult():
            return part.content
        case _:
            return part.text


COUNTERS = st.sampled_from([COUNTER, UnsureCounter()])
NOW = 1_800_000_000.0
WIRES = ("openai", "anthropic", "gemini", "ollama", "text")

WORDS = st.lists(
    st.sampled_from(
        ["the", "tea", "is", "ready.", "Ada", "went", "home\nafter", "noon,", "茶", "</memory>", "<context>", "x"]
    ),
    max_size=40,
)
TEXTS = st.one_of(
    WORDS.map(" ".join),
    st.text(max_size=60).map(lambda text: text.encode("utf-16", "replace").decode("utf-16", "replace")),
)
NAMES = st.sampled_from(["", "Ada", "Joel B.", "Грета"])
PLAIN_KINDS = st.sampled_from(
    [kind for kind in KNOWN_KINDS if not kind.startswith(("tool", "media", "system", "message-current"))] + ["weather"]
)
SHARES = st.floats(0.0, 1.0)
TIMES = st.one_of(st.floats(NOW - 1e7, NOW + 1e5), st.floats(NOW - 2e5, NOW))
"""Of a few months, and of few days that many share."""


@st.composite
def plain(draw, id):
    kind = draw(PLAIN_KINDS)
    options = {
        "importance": draw(SHARES),
        "timestamp": draw(TIMES),
        "priority": draw(st.integers(1, 10)),
        "pinned": draw(st.integers(0, 9)) == 0,
    }
    if draw(st.booleans()):
        options["relevance"] = draw(SHARES)
    if draw(st.integers(0, 3)) == 0:
        options["min_tokens"] = draw(st.integers(1, 10))
    if draw(st.booleans()):
        options["cluster"] = draw(st.sampled_from(["day-1", "day-2", "thread"]))
    if kind.startswith("message"):
        options |= {"role": draw(st.sampled_from(["user", "assistant"])), "name": draw(NAMES)}
    if draw(st.integers(0, 7)) == 0:
        options["group"] = draw(st.sampled_from(["g1", "g2"]))
    return [package(kind, draw(TEXTS), counter=COUNTER, id=id, **options)]


@st.composite
def tool_unit(draw, id):
    calls = [
        ToolCall(id=draw(st.sampled_from(["c1", "c2", f"{id}-c"])) + str(n), name="look_up")
        for n in range(draw(st.integers(1, 3)))
    ]
    results = [ToolResult(id=call.id, content=draw(TEXTS)) for call in calls]
    turn = tool_turn(calls, results, counter=COUNTER, id=id, timestamp=draw(TIMES), text=draw(TEXTS))
    missing = draw(st.sampled_from([None, None, None, 0, 1]))
    return [entry for at, entry in enumerate(turn) if at != missing]


@st.composite
def picture(draw, id):
    part = Media(modality="image", url=f"https://example.org/{id}.png", width=draw(st.integers(1, 3000)), height=64)
    return [media(part, counter=COUNTER, id=id, timestamp=draw(TIMES))]


SHOWN = st.builds(
    Media,
    modality=st.sampled_from(["image", "image", "image", "audio", "document"]),
    url=st.sampled_from(["https://example.org/cat.png", "https://example.org/a%20b/?key=1", "https://example.org/"]),
    width=st.one_of(st.none(), st.integers(1, 3000)),
    height=st.integers(1, 3000),
)


@st.composite
def pictured(draw, id):
    """A turn with media among its texts, or a tool that shows something."""
    if draw(st.integers(0, 3)) == 0:
        call = ToolCall(id=f"{id}-c", name="look")
        results = [ToolResult(id=call.id, content=draw(TEXTS)), *draw(st.lists(SHOWN, max_size=2))]
        return tool_turn([call], results, counter=COUNTER, id=id, timestamp=draw(TIMES))
    parts = draw(st.lists(st.one_of(TEXTS.map(lambda text: Text(text=text)), SHOWN, SHOWN), min_size=1, max_size=4))
    options = {"role": draw(st.sampled_from(["user", "user", "assistant"])), "name": draw(NAMES)}
    if draw(st.integers(0, 3)) == 0:
        options["min_tokens"] = draw(st.integers(1, 10))
    kind = draw(st.sampled_from(["message-recent", "message-recent", "message-older"]))
    return [package(kind, parts, counter=COUNTER, id=id, timestamp=draw(TIMES), **options)]


@st.composite
def at_depth(draw, id):
    options = {"role": draw(st.sampled_from(["system", "user", "assistant"])), "can_drop": draw(st.booleans())}
    if draw(st.booleans()):
        options["cluster"] = "day-1"
    return [note(draw(TEXTS), counter=COUNTER, id=id, depth=draw(st.integers(0, 6)), **options)]


def _repeat(make):
    """Return a strategy for texts of many lines or sentences, each made from its number."""
    return st.integers(1, 400).map(lambda count: make(range(count)))


LARGE_TEXTS = st.one_of(
    _repeat(lambda numbers: " ".join(f"On day {n} it rained in Bergen." for n in numbers)),
    _repeat(
        lambda numbers: json.dumps({"rows": [{"id": n, "tags": ["a", "b"], "note": "x " * (n % 40)} for n in numbers]})
    ),
    _repeat(lambda numbers: "id,name,points\n" + "\n".join(f"{n},user {n},{n * 7}" for n in numbers)),
    _repeat(lambda numbers: "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | cell {n} |" for n in numbers)),
    _repeat(
        lambda numbers: "\n".join(
            f"2026-11-16 10:{n % 60:02d}:00 {'ERROR' if n % 9 == 0 else 'INFO'} step {n}" for n in numbers
        )
    ),
    _repeat(lambda numbers: "\n".join(f"def function_{n}(value):\n    return value + {n}\n" for n in numbers)),
    _repeat(lambda numbers: "<html><body>" + "".join(f"<h2>Part {n}</h2><p>It is <b>{n}</b>.</p>" for n in numbers)),
    _repeat(
        lambda numbers: "".join(
            f"diff --git a/f{n} b/f{n}\n--- a/f{n}\n+++ b/f{n}\n@@ -1 +1 @@\n-old {n}\n+new {n}\n" for n in numbers
        )
    ),
    _repeat(lambda numbers: "".join(f"今日は{n}番目の日です。" for n in numbers)),
    _repeat(lambda numbers: "Größe 茶 Чай — " * len(numbers)),
    _repeat(lambda numbers: "x" * 20 * len(numbers)),
    _repeat(lambda numbers: "[" * 5 * len(numbers)),
    _repeat(lambda numbers: "word \ud800\udc00\ud83d " * len(numbers)),
)
"""Texts of every type of content, up to several windows long."""


@st.composite
def large(draw, id):
    """A large item that may shrink: a message, a memory, an entry, or a call with its result."""
    text, when = draw(LARGE_TEXTS), draw(TIMES)
    forms = draw(st.sampled_from([(), (), (Form("in short"),), (Form("some more words", 0.8), Form("short", 0.1))]))
    required = draw(st.integers(0, 9)) == 0
    if draw(st.integers(0, 3)) == 0:
        call = ToolCall(id=f"{id}-c", name="look_up")
        return tool_turn([call], [ToolResult(id=call.id, content=text)], counter=COUNTER, id=id, timestamp=when)
    kind = draw(PLAIN_KINDS)
    return [package(kind, text, counter=COUNTER, id=id, timestamp=when, forms=forms, can_drop=not required)]


@st.composite
def large_piles(draw):
    """Large items of every type among small ones, and a current message."""
    pile = [entry for at in range(draw(st.integers(1, 8))) for entry in draw(large(f"l{at}"))]
    pile += [entry for at in range(draw(st.integers(0, 4))) for entry in draw(plain(f"p{at}"))]
    current = draw(st.one_of(TEXTS, LARGE_TEXTS)) + " so?"
    return [*pile, package("message-current", current, counter=COUNTER, id="now", timestamp=NOW)]


@st.composite
def piles(draw, most=25):
    """A pile of candidates: anything, some of it twice, some of it broken, and the current message."""
    count = draw(st.integers(0, most))
    pile = []
    for at in range(count):
        pile += draw(
            st.one_of(
                plain(f"p{at:02d}"),
                plain(f"p{at:02d}"),
                tool_unit(f"t{at:02d}"),
                picture(f"i{at:02d}"),
                pictured(f"v{at:02d}"),
                at_depth(f"n{at:02d}"),
            )
        )
    if draw(st.booleans()) and pile:
        pile.append(draw(st.sampled_from(pile)))
    if draw(st.booleans()):
        pile.append(package("system-prompt", draw(TEXTS), counter=COUNTER, id="system"))
    least = draw(st.sampled_from([None, 3]))
    options = {} if least is None else {"min_tokens": least}
    asked = draw(st.sampled_from([" so?", " so.", " in this picture."]))
    now = (Text(text=draw(TEXTS) + asked), *draw(st.one_of(st.just(()), st.tuples(SHOWN))))
    content = now[0].text if len(now) == 1 else now
    pile.append(package("message-current", content, counter=COUNTER, id="now", timestamp=NOW, **options))
    return pile


@st.composite
def models(draw):
    window = draw(st.one_of(st.integers(150, 900), st.integers(2000, 6000)))
    return ModelInfo(
        id="m",
        provider=draw(st.sampled_from(["p", "openai"])),
        window=window,
        max_output=draw(st.integers(10, 120)),
        wire=draw(st.sampled_from(WIRES)),
        alternate=draw(st.booleans()),
        modalities=draw(st.sampled_from([("text",), ("text", "image")])),
        image_rule="openai-tiles-85-170",
        overhead=draw(st.sampled_from(["openai", "template"])),
    )


POLICIES = st.sampled_from(policy_names())


_NEED = {"newest": 0.7, "decay": 2.0, "own": 0.1, "mentioned": 2.0, "min_share": 0.2, "reread": 0.05}


@st.composite
def _policies(draw):
    """A policy of ours with its knobs turned."""
    policy = load_policy(draw(POLICIES))
    turned = {
        "margin.tokens": draw(st.integers(0, 60)),
        "completion.tokens": draw(st.integers(1, 80)),
        "layout.related": draw(st.sampled_from(["system", "before-current"])),
        "layout.order": draw(st.sampled_from(["best-last", "best-first", "time"])),
        "layout.history_days": draw(st.booleans()),
        "layout.resolve_times": draw(st.booleans()),
        "layout.timezone": draw(st.sampled_from(["UTC", "Asia/Tokyo"])),
        "forms.over": draw(st.sampled_from([2, 8, 300])),
        "forms.min_tokens": draw(st.sampled_from([1, 2])),
        "media.when": draw(st.sampled_from(["always", "needed"])),
        "price": draw(st.sampled_from([0.0, 1.0, 50.0])),
    }
    for pool in policy.pools:
        at = f"pools.{pool.name}"
        turned |= {
            f"{at}.limit.share": draw(st.one_of(st.none(), SHARES)),
            f"{at}.order": draw(st.sampled_from(["score", "newest", "relevance"])),
            f"{at}.borrow": draw(st.booleans()),
            f"{at}.dedupe": draw(st.sampled_from(["retrieved", "all", "id"])),
        }
        if pool.ledger is None:
            turned |= {
                f"{at}.summarize": draw(st.booleans()),
                f"{at}.min_items": draw(st.integers(0, 3)),
                f"{at}.max_items": draw(st.sampled_from([None, 3, 9])),
            }
        if pool.contiguous:
            turned[f"{at}.need"] = draw(st.sampled_from([None, _NEED]))
    return load_policy(policy, overrides=turned)


GENERATED_POLICIES = st.one_of(POLICIES.map(load_policy), _policies())


_REPEATED = (
    "ok",
    "Tea is ready at noon.",
    "tea is  READY at noon.",
    "Ada went home after lunch, and nobody knows why.",
    " ".join(f"On day {n} it rained in Bergen." for n in range(60)),
)
"""Few texts, so that many items have the same one: short, equal but for case and spacing, and long."""


@st.composite
def repeated(draw, id):
    """One item, or a tool's turn, with a text that others probably have, too."""
    text, when = draw(st.sampled_from(_REPEATED)), draw(TIMES)
    kind = draw(st.sampled_from(["message-recent", "message-recent", "message-recent", *_COPIED_KINDS]))
    if kind == "tool-call":
        call = ToolCall(id=f"{id}-c", name="look_up")
        return tool_turn([call], [ToolResult(id=call.id, content=text)], counter=COUNTER, id=id, timestamp=when)
    if kind == "system-note":
        return [note(text, counter=COUNTER, id=id, depth=draw(st.integers(0, 3)))]
    options = {
        "importance": draw(SHARES),
        "relevance": draw(st.one_of(st.none(), SHARES)),
        "pinned": draw(st.integers(0, 4)) == 0,
        "can_drop": draw(st.integers(0, 9)) > 0,
        "group": draw(st.sampled_from([None, None, None, None, "g1", "g2"])),
    }
    if kind == "summary" or draw(st.integers(0, 2)) == 0:
        options["cluster"] = draw(st.sampled_from(["day-1", "day-2"]))
    if kind.startswith("message"):
        options["role"] = draw(st.sampled_from(["user", "assistant"]))
    content = text if draw(st.integers(0, 3)) else (Text(text=text),)
    if kind == "media-image":
        content = (Media(modality="image", url="https://example.org/cat.png"),)
    made = package(kind, content, counter=COUNTER, id=id, timestamp=when, **options)
    if kind != "message-recent" or draw(st.booleans()):
        return [made]
    hit = {"counter": COUNTER, "timestamp": when, "relevance": draw(SHARES)}
    return [made, package("message-older", content, id=f"{id}/recalled", **hit)]  # history, and a search hit


_COPIED_KINDS = (
    "message-older",
    "memory-semantic",
    "memory-episodic",
    "lorebook",
    "summary",
    "document",
    "tool-call",
    "system-note",
    "media-image",
)


@st.composite
def repeated_piles(draw):
    """A pile of candidates of which many have equal content, and a current message."""
    pile = [entry for at in range(draw(st.integers(2, 16))) for entry in draw(repeated(f"r{at:02d}"))]
    if draw(st.booleans()):
        pile.append(package("system-prompt", draw(st.sampled_from(_REPEATED[:4])), counter=COUNTER, id="system"))
    current = draw(st.sampled_from([*_REPEATED[:4], "When is tea?"]))
    return [*pile, package("message-current", current, counter=COUNTER, id="now", timestamp=NOW)]
