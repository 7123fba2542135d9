"""An inspection in lines: what the next context would be, what would stand in it, and how retrieval fares."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from brimful.answers import Build
from brimful.cli import output
from brimful.core.context import Component, Context
from brimful.core.explain import closing_lines, framed, items_of, outcomes, plural, shown_score, title_of
from brimful.core.sections import Entry, media_name, sections
from brimful.retrieval.breaker import State

SHOWN: Final = 12  # memories: more are counted, and told in full by `brimful explain`
RULE: Final = "  " + "─" * 37


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A context that was built for a look, by whom it would be used, and how retrieval fares.

    `breaker` is the state of this process; `last` is the last build that was kept of the same persona and room.
    """

    context: Context
    persona: str
    room: str
    seconds: float
    breaker: State
    embedder: str
    last: Build | None

    def text(self) -> str:
        """Return it for people."""
        named = f"{self.persona} in {self.room}" if self.persona else self.room
        return framed(f"BRIMFUL INSPECTION: {output.one_line(named)}", list(self._lines()))

    def _lines(self) -> Iterator[str]:
        context = self.context
        yield f"Model: {output.one_line(context.budget.model)}"
        yield f"Context Window: {context.budget.window:,} tokens"
        yield f"Policy: {output.one_line(context.budget.policy)}"
        yield ""
        yield "COMPONENTS:"
        entries = [entry for section in sections(context) for entry in section.entries]
        for component in context.components:
            yield component_line(context, component)
            yield from _listed(entries, component.name)
        yield from totals(context)
        yield ""
        yield f"CANDIDATES: {', '.join(f'{count:,} {outcome}' for outcome, count in outcomes(context))}"
        yield from self._retrieval()
        yield ""
        yield from map(output.one_line, closing_lines(context))

    def _retrieval(self) -> Iterator[str]:
        found = [package for package in self.context.inputs.packages if "found" in package.metadata]
        kept = sum(self.context.decision(package.id).included for package in found)
        yield f"RETRIEVAL: {len(found):,} found, {kept:,} of them in, by words{self._meanings()}"
        yield f"  Breaker: {self.breaker} (of this process)"
        yield from (f"  Now: {output.one_line(note)}" for note in self.context.inputs.degraded)
        if self.last is not None:
            notes = "; ".join(map(output.one_line, self.last.degraded)) or "nothing was missing"
            yield f"  Last build: {output.moment(self.last.at)}, {notes}"
        yield f"  Built in {self.seconds:.2f} s"

    def _meanings(self) -> str:
        return "" if self.embedder == "none" else f" and meaning ({self.embedder})"


def component_line(context: Context, component: Component) -> str:
    """Say what a component takes: `Memories:  3,890 tokens (5 items)`."""
    items = _items(context, component)
    return f"  {title_of(component.name) + ':':<17}{component.tokens:>9,} tokens{f' ({items})' if items else ''}"


def totals(context: Context) -> Iterator[str]:
    """Yield what is used, what is reserved, and what is left."""
    yield RULE
    yield f"  {'TOTAL USED:':<17}{context.tokens:>9,} tokens ({context.percent:.1f}%)"
    yield ""
    yield f"  {'Reserved:':<17}{context.budget.reserved:>9,} tokens (completion + safety)"
    yield RULE
    yield f"  {'REMAINING:':<17}{context.remaining:>9,} tokens"


def score_of(entry: Entry) -> str:
    """Return a candidate's score for people."""
    score = entry.decision.score
    return "none" if score is None else shown_score(score.total)


def _items(context: Context, component: Component) -> str:
    if component.name == "media" and _media_kinds(context) == {"media-image"}:
        return plural(component.items, "image")
    return items_of(component.name, component.items)


def _media_kinds(context: Context) -> set[str]:
    return {decision.kind for decision in context.decisions if decision.included and decision.kind.startswith("media")}


def _listed(entries: Sequence[Entry], component: str) -> Iterator[str]:
    """Yield what is worth a line of its own: memories by type and score, media by name."""
    if component == "memories":
        yield from _memories([entry for entry in entries if entry.decision.kind.startswith("memory-")])
    elif component == "media":
        media = (entry for entry in entries if entry.decision.kind.startswith("media-"))
        yield from (f"    - {_medium(entry)} ({entry.decision.cost:,} tokens)" for entry in media)


def _memories(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries[:SHOWN]:
        type = entry.decision.kind.removeprefix("memory-")
        yield f'    - {type}: "{_excerpt(entry)}" (score: {score_of(entry)})'
    if len(entries) > SHOWN:
        yield f"    [... {len(entries) - SHOWN:,} more memories ...]"


def _medium(entry: Entry) -> str:
    return output.one_line(media_name(entry.package))


def _excerpt(entry: Entry) -> str:
    return output.one_line(output.preview(entry.package.text))
