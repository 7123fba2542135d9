"""Make src/brimful/models/data/published.json: windows from the lists of genai-prices and LiteLLM.

    pip download --no-deps litellm
    python tools/refresh_windows.py litellm-*.whl --as-of 2026-11-18

The list of genai-prices is that of the installed package. The same lists give the same bytes. The script prints the
names on which the lists, or a list and our rows, differ. `--measure` writes nothing. It prints the table of
docs/models.md: how many names are unknown, and how many get a larger window than published, with both lists and with
half of the names hidden.

The window of a name without a host is the one that the model's maker publishes; if there is none, the smallest of
all hosts. A host has an entry if it differs. Of two windows for the same name and host, the smaller one counts. Models
of the TOML files keep their windows, with an entry for each host that publishes a smaller one.
"""

import argparse
import hashlib
import json
import math
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import genai_prices
import msgspec
from genai_prices.data import providers

from brimful.models.files import PUBLISHED_FILE, load_registry
from brimful.models.names import parse_name
from brimful.models.registry import PublishedWindows, Registry

LITELLM_FILE = "litellm/model_prices_and_context_window_backup.json"
CHAT_MODES = {"chat", "completion", "responses"}
NO_CHAT = re.compile(
    r"embed|bge-|rerank|whisper|transcribe|[-_]tts|speech|realtime|moderation|[-_/]ocr|image|flux|lyria|veo|"
    r"imagen|ttm-|prompt-guard|deplot|parakeet|voxtral-mini-transcribe|vision-exp"
)
MOVING = "/~"  # before OpenRouter's names that change their meaning, such as `~openai/gpt-latest`
ROUNDED = 1.1  # lists give 1,048,576 tokens as 1,000,000
MIN_WINDOW = 1_024  # tokens; less is no window of a chat model

NO_FACTS = {"ollama", "ollama_chat", "lemonade"}
"""Servers whose window is a setting of whoever runs them."""

MAKERS = {
    "claude": ("anthropic",),
    "codestral": ("mistral", "codestral"),
    "command": ("cohere", "cohere_chat"),
    "deepseek": ("deepseek",),
    "devstral": ("mistral",),
    "gemini": ("google", "gemini"),
    "glm": ("zai", "zhipuai"),
    "gpt": ("openai",),
    "grok": ("xai", "x-ai"),
    "jamba": ("ai21",),
    "kimi": ("moonshot", "moonshotai"),
    "magistral": ("mistral",),
    "mercury": ("inception",),
    "mimo": ("xiaomi_mimo",),
    "minimax": ("minimax",),
    "ministral": ("mistral",),
    "mistral": ("mistral",),
    "moonshot": ("moonshot", "moonshotai"),
    "muse": ("meta",),
    "nova": ("amazon_nova", "aws", "bedrock", "bedrock_converse"),
    "o": ("openai",),
    "pixtral": ("mistral",),
    "qwen": ("dashscope",),
    "sonar": ("perplexity",),
}
"""Who serves their own models, by the first word of the models' names."""


class Fact(msgspec.Struct, frozen=True):
    """A window as published: for a name, of a provider, in a list. Many names are listed without one."""

    name: str
    provider: str
    window: int | None
    source: str

    @property
    def is_plausible(self) -> bool:
        return type(self.window) is int and self.window >= MIN_WINDOW


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="LiteLLM's wheel")
    parser.add_argument("--as-of", default="", help="the day of both lists")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    rows = msgspec.structs.replace(load_registry(environ={}), published=())
    listed = read_lists(options.wheel)
    facts = [fact for fact in listed if fact.is_plausible]
    if options.measure:
        measure(facts, rows, {fact.name for fact in listed} - {fact.name for fact in facts})
    elif not options.as_of:
        parser.error("--as-of is required")
    else:
        PUBLISHED_FILE.write_text(encode(publish(facts, rows, options.as_of)), encoding="utf-8")
        for line in conflicts(facts, rows):
            print(line)


def read_lists(wheel: Path) -> list[Fact]:
    """Return all chat models in both lists, sorted."""
    with zipfile.ZipFile(wheel) as archive:
        listed = json.loads(archive.read(LITELLM_FILE))
    version = wheel.name.split("-")[1]
    chat = {name: row for name, row in listed.items() if row.get("mode") in CHAT_MODES}
    other = {bare(name) for name in listed.keys() - chat.keys()} - {bare(name) for name in chat}
    facts = [
        Fact(name, row["litellm_provider"], row.get("max_input_tokens"), f"litellm {version}")
        for name, row in chat.items()
        if row["litellm_provider"] not in NO_FACTS
    ]
    facts += [
        Fact(f"{provider.id}/{model.id}", provider.id, model.context_window, f"genai-prices {genai_prices.__version__}")
        for provider in providers
        for model in provider.models
        if bare(model.id) not in other
    ]
    chats = (fact for fact in facts if not NO_CHAT.search(fact.name.lower()) and MOVING not in fact.name)
    return sorted(chats, key=lambda fact: (fact.name, fact.provider, fact.window or 0, fact.source))


def bare(name: str) -> str:
    return name.rsplit("/", 1)[-1].lower()


def publish(facts: Iterable[Fact], rows: Registry, as_of: str) -> tuple[PublishedWindows, ...]:
    """Return the windows by their source."""
    by_host, alone = group(facts, rows)
    windows = {name: smallest(found) for name, found in alone.items() if name not in rows.hosted}
    for name, found in by_host.items():
        window, source = smallest(found)
        spelling = name.rpartition("/")[2]
        if row := rows.hosted.get(spelling) or rows.local.get(spelling):
            info = rows.rows[row]
            if window < min(info.window, info.max_input or info.window) and not all(map(is_own, found)):
                windows[name] = window, source
        elif windows[spelling][0] != window:
            windows[name] = window, source
    sources = sorted({source for _, source in windows.values()})
    return tuple(
        PublishedWindows(
            source=source,
            as_of=as_of,
            windows={name: window for name, (window, its) in sorted(windows.items()) if its == source},
        )
        for source in sources
    )


def group(facts: Iterable[Fact], rows: Registry) -> tuple[dict[str, list[Fact]], dict[str, list[Fact]]]:
    """Return the facts of each name with its host, and those that count for the name alone."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    by_name: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        parsed = parse_name(fact.name)
        spelling = key_of(fact.name, rows)
        by_name[spelling].append(fact)
        if parsed.host:
            by_host[f"{parsed.host}/{spelling}"].append(fact)
    alone = {name: [fact for fact in found if is_own(fact)] or found for name, found in by_name.items()}
    return by_host, alone


def key_of(name: str, rows: Registry) -> str:
    """Return the spelling under which a name is found in the registry; otherwise, its simplest one."""
    parsed = parse_name(name)
    return next((each for each in parsed.spellings() if each in rows.hosted or each in rows.local), parsed.simplest)


def is_own(fact: Fact) -> bool:
    """Whether the maker of a model published its window."""
    word = re.match("[a-z]*", parse_name(fact.name).bare)
    return word is not None and fact.provider in MAKERS.get(word[0], ())


def smallest(facts: Iterable[Fact]) -> tuple[int, str]:
    """Return the smallest window, and who published it."""
    found = sorted({(fact.window, fact.source) for fact in facts})
    sources = sorted({source for window, source in found if window == found[0][0]})
    larger = {source for window, source in found if window > found[0][0]} - set(sources)
    return found[0][0], " and ".join(sources) + "".join(f" (more by {source})" for source in sorted(larger))


def encode(published: tuple[PublishedWindows, ...]) -> str:
    """Return the file's text, a few names per line."""
    text = msgspec.json.encode(published).decode()
    return re.sub(r"(.{80}[^,]*,)", r"\1\n", text) + "\n"


def conflicts(facts: Iterable[Fact], rows: Registry) -> Iterator[str]:
    """Yield the names for which there are two windows, and the rows that differ from what is published."""
    for name, found in sorted(group(facts, rows)[1].items()):
        windows = sorted({fact.window for fact in found if is_own(fact)})
        row = rows.rows.get(rows.hosted.get(name, ""))
        if row is not None and windows and windows[0] < min(row.window, row.max_input or row.window):
            yield f"{name}: {row.window:,} by its row, {windows[0]:,} as published"
        elif row is None and len(windows) > 1:
            yield f"{name}: {windows[0]:,}, not {windows[-1]:,}"


def measure(facts: list[Fact], rows: Registry, without_window: Iterable[str]) -> None:
    """Print how names are resolved: by the rows alone, with all facts, and with half of the names hidden."""
    print("| | names | unknown | larger window | by more than 10 % |\n|---|--:|--:|--:|--:|")
    everything = with_published(rows, facts)
    report("rows only", facts, rows)
    report("rows and lists", facts, everything)
    for half, label in enumerate(("even", "odd")):
        hidden = [fact for fact in facts if half_of(fact, rows) == half]
        shown = [fact for fact in facts if half_of(fact, rows) != half]
        report(f"rows and lists, half of the names hidden ({label} hashes)", hidden, with_published(rows, shown))
    report(
        "rows and lists, names without a published window",
        [Fact(name, "", None, "") for name in without_window],
        everything,
    )


def with_published(rows: Registry, facts: Iterable[Fact]) -> Registry:
    return msgspec.structs.replace(rows, published=publish(facts, rows, ""))


def half_of(fact: Fact, rows: Registry) -> int:
    """Return 0 or 1 by the name of the model, whoever hosts it: all facts about it are in the same half."""
    return hashlib.sha256(key_of(fact.name, rows).encode()).digest()[0] % 2


def report(label: str, facts: list[Fact], registry: Registry) -> None:
    smallest_of: dict[str, int] = {}
    for fact in facts:
        smallest_of[fact.name] = min(fact.window or math.inf, smallest_of.get(fact.name, math.inf))
    resolved = {name: registry.resolve(name) for name in smallest_of}
    unknown = sum(info.source == "fallback" for info in resolved.values())
    ratios = [min(info.window, info.max_input or info.window) / smallest_of[name] for name, info in resolved.items()]
    counts = (unknown, sum(ratio > 1 for ratio in ratios), sum(ratio > ROUNDED for ratio in ratios))
    shares = " | ".join(f"{count:,} ({count / len(resolved):.1%})" for count in counts)
    print(f"| {label} | {len(resolved):,} | {shares} |")


if __name__ == "__main__":
    main()
