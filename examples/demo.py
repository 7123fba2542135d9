"""A long support conversation in one window: what is included, what is left out, why, and what if.

Needs no API key, network or server. Run it with `make demo`.
"""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

import brimful
from brimful import ContentPackage, Context, Tool, ToolCall, ToolResult, packagers

NOW = 1_794_000_000.0  # a fixed time, so that the output is always the same
MODEL = "gpt-4"  # 8,192 tokens
DAY = 86_400.0
COLORS = {
    "system": "magenta",
    "memories": "green",
    "lorebook": "yellow",
    "recent": "blue",
    "tools": "cyan",
    "media": "red",
    "current": "bright_white",
    "format": "grey50",
}

TURNS = (
    (
        "My order arrived with a broken lid. What can you do?",
        "I am sorry about that. A new lid is on its way. Keep the old one for parts; there is nothing to return.",
    ),
    (
        "Which beans would you take for a moka pot, and how fine should I grind them?",
        "A medium roast, ground a little coarser than for espresso. Fill the basket without pressing it down.",
    ),
    (
        "I was charged twice for the subscription in October, once on the 2nd and once on the 3rd.",
        "I see both charges. The second one has been returned today; banks take three to five working days to show it.",
    ),
    (
        "Can I pause deliveries while we are away in December?",
        "Yes, for up to three months. I have set the pause from the 10th on, and will write before it ends.",
    ),
    (
        "The tracking page says 'delivered', but there is nothing at the door.",
        "Couriers sometimes scan too early. If it has not turned up by tomorrow noon, I will send it again.",
    ),
)
FACTS = (
    "Ada lives in Lisbon and prefers delivery on Thursdays.",
    "Ada is allergic to hazelnut; never suggest the Praline blend.",
    "Ada's grinder is a hand grinder with 30 steps; 12 suits her moka pot.",
    "Ada asked for a quiet tone: short answers, no exclamation marks.",
    "Ada's October refund was promised within five working days.",
    "When a parcel is lost, send it again first and ask the courier later.",
    "Ada gave a subscription to her brother Tomás in September.",
    "The Harvest blend is sold out until the 20th of November.",
)
TOOLS = (
    Tool(
        name="find_order",
        description="Find a customer's orders.",
        parameters={"type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]},
    ),
)


def candidates(turns: int = 200) -> list[ContentPackage]:
    """Return everything that may go into the prompt: far more than fits."""
    return [*instructions(), *memories(), *history(turns), question()]


def instructions() -> Iterator[ContentPackage]:
    """Yield the system prompt and a lorebook entry that is always on."""
    counter = brimful.counter(MODEL)
    rules = (
        "You are Nova, the assistant of Harbour Coffee. Be brief, be kind, and never promise what you cannot check. "
    )
    yield brimful.package("system-prompt", rules * 3, model=MODEL, id="system")
    yield packagers.lorebook_entry(
        "Harbour Coffee roasts on Mondays and ships on Tuesdays.",
        counter=counter,
        id="lore-roast",
        book="handbook",
        constant=True,
    )


def memories() -> Iterator[ContentPackage]:
    """Yield the results of a memory search: more and less relevant, with a duplicate."""
    counter = brimful.counter(MODEL)
    for n in range(48):
        fact = FACTS[n % len(FACTS)]
        text = fact if n < len(FACTS) else f"Note {n}: {fact} " + "It came up in an earlier chat. " * (n % 5)
        yield packagers.memory(
            text,
            counter=counter,
            id=f"mem-{n:02d}",
            type=("semantic", "procedural", "episodic")[n % 3],
            relevance=round(0.95 - 0.018 * n, 3),
            timestamp=NOW - n * DAY,
            metadata={"source": "notes"},
        )
    yield packagers.memory(FACTS[1].upper(), counter=counter, id="mem-echo", relevance=0.5, timestamp=NOW - DAY)


def history(turns: int) -> Iterator[ContentPackage]:
    """Yield the conversation so far: questions, answers, and some tool calls."""
    counter = brimful.counter(MODEL)
    for n in range(turns):
        when = NOW - (turns - n) * 120
        request, response = TURNS[n % len(TURNS)]
        yield packagers.message(request, counter=counter, id=f"q-{n:03d}", timestamp=when, name="Ada", role="user")
        if n % 4 == 2:  # noqa: PLR2004 - every fourth turn
            yield from packagers.tool_turn(
                [ToolCall(id=f"call-{n}", name="find_order", arguments='{"customer": "Ada"}')],
                [ToolResult(id=f"call-{n}", content=f'{{"orders": [{{"id": {4000 + n}, "state": "shipped"}}]}}')],
                counter=counter,
                id=f"tool-{n:03d}",
                timestamp=when + 20,
            )
        yield packagers.message(response, counter=counter, id=f"a-{n:03d}", timestamp=when + 60, role="assistant")


def question() -> ContentPackage:
    """Return the current message."""
    return packagers.message(
        "Did the refund go out, and may I have the Praline blend this time?",
        counter=brimful.counter(MODEL),
        id="now",
        current=True,
        timestamp=NOW,
        name="Ada",
    )


def bar(context: Context, width: int = 96) -> Text:
    """Draw the window: used, free and reserved for the completion."""
    drawn = Text()
    used = 0
    for component in context.components:
        cells = round(width * component.tokens / context.budget.window)
        drawn.append("█" * cells, style=COLORS.get(component.name, "white"))
        used += cells
    reserve = round(width * context.budget.completion / context.budget.window)
    drawn.append("░" * max(0, width - used - reserve), style="grey35")
    drawn.append("▒" * reserve, style="grey50")
    return drawn


def legend(context: Context) -> Text:
    """Explain the colors of the bar."""
    names = [c.name for c in context.components if c.tokens > 0]
    drawn = Text()
    for name in names:
        drawn.append("█ ", style=COLORS.get(name, "white")).append(f"{name}  ")
    return drawn.append("░ free  ").append("▒ reserved for the completion")


def what_if(context: Context) -> Table:
    """Replay the record under other models and policies."""
    table = Table(title="What if? The same record under other models and policies", title_justify="left")
    for column in ("model", "policy", "window", "tokens", "counted", "kept", "dropped", "the refund memory (mem-04)"):
        table.add_column(column, justify="right" if column in ("window", "tokens", "kept", "dropped") else "left")
    for model, policy in (
        (MODEL, "default"),
        (MODEL, "window"),
        (MODEL, "auction"),
        ("gpt-4o", "default"),
        ("claude-sonnet-4-5", "default"),
        ("gemini-2.5-flash", "default"),
        ("qwen2.5:7b", "split"),
    ):
        other = brimful.replay(context, model=model, policy=policy)
        outcomes = [decision.outcome for decision in other.decisions]
        table.add_row(
            model,
            policy,
            f"{other.budget.window:,}",
            f"{other.tokens:,}",
            other.verification.basis,
            str(outcomes.count("kept")),
            str(outcomes.count("dropped")),
            other.decision("mem-04").outcome + ", " + other.decision("mem-04").reason,
        )
    return table


def prefix_shares(turns: int = 60) -> list[float]:
    """Build a context after every message, and return the share of each request that repeats the previous one."""
    messages, shares, previous = list(history(turns)), [], None
    for end in range(len(messages) // 2, len(messages)):
        offered = [*instructions(), *messages[:end]]
        context = brimful.assemble(offered, model=MODEL, tools=TOOLS, previous=previous, now=NOW)
        if previous is not None:
            shares.append(brimful.diff(previous, context).prefix_share)
        previous = context
    return shares


def main() -> None:
    """Run the demo."""
    console = Console(width=120, highlight=False)
    packages = candidates()
    total = sum(package.tokens.tokens for package in packages)
    context = brimful.assemble(packages, model=MODEL, tools=TOOLS, now=NOW)
    console.print(
        f"[bold]{len(packages)} candidates with {total:,} tokens, for the 8,192-token window of {MODEL}.[/]\n"
    )
    console.print(bar(context))
    console.print(legend(context), "\n")
    console.print(context.report(), markup=False)
    verified = context.verification
    console.print(
        f"\nVerified: the whole request has {verified.tokens:,} tokens (its parts {verified.parts:,}); "
        f"the limit is {verified.limit:,}.\n"
    )
    console.print("[bold]Why was this included, and that left out?[/]")
    for id in ("now", "mem-04", "mem-echo", "mem-40", "q-199", "tool-198", "q-003", "lore-roast"):
        console.print(f"  {id:<11} {context.explain(id)}", markup=False, soft_wrap=True)
    console.print()
    console.print(what_if(context))
    shares = sorted(prefix_shares())
    console.print(
        f"\n[bold]Prompt cache:[/] over {len(shares) + 1} requests, the median request shares "
        f"{shares[len(shares) // 2]:.0%} of its bytes with the start of the previous one."
    )
    console.print("\nThe request is in context.request, the record in context.to_json(). Next: brimful --help")


if __name__ == "__main__":
    main()
