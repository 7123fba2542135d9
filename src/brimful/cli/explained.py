"""A past context in lines: what the model saw, part by part, and what it answered."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from textwrap import wrap
from typing import Final

from brimful.cli import output
from brimful.cli.inspected import score_of, totals
from brimful.cli.located import Located
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.explain import closing_lines, framed, items_of, outcomes, plural
from brimful.core.sections import Entry, Section, is_erased, media_name, sections
from brimful.errors import MissingExtra
from brimful.models import default_registry, price
from brimful.packagers.stored import plain_text
from brimful.records import Response

SHOWN: Final = 5  # entries of a part: the others are counted, unless all was asked for
WIDTH: Final = 76  # columns of a text
EXCERPT: Final = 3  # lines of a text
_LAST_PRICED: Final = 6e10  # seconds: about the year 3871, well within what a datetime holds


def explanation(found: Located, *, full: bool) -> str:
    """Draw what a model saw and said; `full` shows whole texts, and all of them."""
    title = f"CONTEXT for message #{found.message}" if found.message else f"CONTEXT {found.context.id}"
    return framed(f"BRIMFUL {output.one_line(title)}", list(_lines(found, full=full)))


def _lines(found: Located, *, full: bool) -> Iterator[str]:
    context = found.context
    facts = (
        ("Persona", found.persona),
        ("Room", f"{found.room_name} ({found.room})" if found.room_name else found.room),
        ("Timestamp", output.moment(found.at)),
        ("Context", context.id if found.message else ""),
        ("Model", context.budget.model),
        ("Policy", context.budget.policy),
        ("Context Window", f"{context.budget.window:,} tokens"),
    )
    yield from (f"{name}: {output.one_line(value)}" for name, value in facts if value)
    yield ""
    yield "CONTEXT COMPONENTS:"
    for number, section in enumerate(sections(context), start=1):
        yield ""
        yield f"{number}. {section.heading} ({_amount(section)}):"
        yield from (f"   {line}".rstrip() for line in _section_lines(section, full=full))
    yield ""
    yield from totals(context)
    yield ""
    yield f"CANDIDATES: {', '.join(f'{count:,} {outcome}' for outcome, count in outcomes(context))}"
    for answer in found.answers:
        yield ""
        yield from _answer(context, answer)
    yield ""
    yield from map(output.one_line, closing_lines(context))


def _amount(section: Section) -> str:
    kinds = {entry.decision.kind for entry in section.entries}
    count = len(section.entries)
    items = plural(count, "image") if kinds == {"media-image"} else items_of(section.name, count)
    return ", ".join(filter(None, (items, f"{section.tokens:,} tokens")))


# -- parts -----------------------------------------------------------------------------------------------------------


def _section_lines(section: Section, *, full: bool) -> Iterator[str]:
    match section.name:
        case "system" | "current":
            for entry in section.entries:
                yield from _quoted(entry.package, full=full)
        case "media":
            names = ((media_name(entry.package), entry.decision.cost) for entry in section.entries)
            yield from (f"- {output.one_line(name)} ({cost:,} tokens)" for name, cost in names)
        case "recent" | "tools":
            yield from _turns(section.entries, full=full)
        case _:
            yield from _pieces(section.entries, full=full)


def _turns(entries: Sequence[Entry], *, full: bool) -> Iterator[str]:
    """Yield the end of a conversation: what came before is counted."""
    shown = entries if full else entries[-SHOWN:]
    if len(shown) < len(entries):
        yield f"[... {len(entries) - len(shown):,} earlier messages ...]"
    for entry in shown:
        package = entry.package
        speaker = output.one_line(package.name or package.role or entry.decision.kind)
        text = plain_text(package.content)
        yield from (map(output.one_line, f"{speaker}: {text}".split("\n")) if full else [f"{speaker}: {_brief(text)}"])


def _pieces(entries: Sequence[Entry], *, full: bool) -> Iterator[str]:
    """Yield memories, lore and whatever else was retrieved, each with its score."""
    shown = entries if full else entries[:SHOWN]
    for number, entry in enumerate(shown, start=1):
        kind, _, type = entry.decision.kind.partition("-")
        told = f"{type}, " if type else ""
        if number > 1:
            yield ""
        yield f"{kind.title()} #{number} ({output.one_line(told)}score: {score_of(entry)}):"
        yield from _quoted(entry.package, full=full)
    if len(shown) < len(entries):
        yield ""
        named = "memories" if entries[0].decision.kind.startswith("memory-") else "items"
        yield f"[... {len(entries) - len(shown):,} more {named} ...]"


def _quoted(package: ContentPackage, *, full: bool) -> list[str]:
    """Return a text between quotation marks, in lines that hang below each other."""
    if is_erased(package):
        return ["(erased)"]
    text = plain_text(package.content)
    if full:
        return [output.one_line(line) for line in f'"{text}"'.split("\n")]
    lines = wrap(f'"{" ".join(text[: WIDTH * (EXCERPT + 1)].split())}"', WIDTH, subsequent_indent=" ")
    return [output.one_line(line) for line in lines] if len(lines) <= EXCERPT else _cut(lines)


def _cut(lines: Sequence[str]) -> list[str]:
    kept = [output.one_line(line) for line in lines[:EXCERPT]]
    return [*kept[:-1], f'{kept[-1][: WIDTH - 4].rstrip()}..."']


def _brief(text: str) -> str:
    return output.one_line(output.preview(text))


# -- what came of it -------------------------------------------------------------------------------------------------


def _answer(context: Context, answer: Response) -> Iterator[str]:
    usage = answer.usage
    prompt = usage.prompt if usage else 0
    yield "RESPONSE GENERATED:"
    facts = [
        ("Message", answer.message or ""),
        ("Model", answer.model or context.budget.model),
        ("Route", answer.route),
        ("Completion Tokens", f"{usage.completion:,}" if usage else ""),
        ("Total Tokens", f"{(prompt or context.tokens) + (usage.completion if usage else 0):,}"),
        ("Cached Tokens", f"{usage.cached:,} of {prompt:,} ({usage.cached / prompt:.0%})" if usage and prompt else ""),
        ("Duration", f"{answer.seconds:.1f}s" if answer.seconds is not None else ""),
        ("Cost", _cost(context, answer)),
        ("Finish", answer.finish),
    ]
    yield from (f"  {name}: {output.one_line(value)}" for name, value in facts if value)
    yield from (f"  Note: {output.one_line(note)}" for note in answer.notes)


def cost_of(context: Context, answer: Response) -> Decimal | None:
    """Return what an answer cost in US dollars, by the prices of its day; None where these are not known."""
    usage = answer.usage
    if usage is None or not usage.prompt:
        return None
    info = context.inputs.model
    if answer.model not in ("", info.id):
        info = default_registry().resolve(answer.model)
    when = datetime.fromtimestamp(answer.at, UTC) if 0 < answer.at < _LAST_PRICED else None
    found = price(info, usage.prompt, usage.completion, min(usage.cached, usage.prompt), at=when)
    return None if found is None else found.total


def _cost(context: Context, answer: Response) -> str:
    try:
        found = cost_of(context, answer)
    except MissingExtra:
        return "unknown (prices come with `pip install 'brimful[prices]'`)"
    return "" if found is None else f"${found:.6f}"
