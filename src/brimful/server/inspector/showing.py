"""From a record to what is shown of it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from brimful.answers import Build
from brimful.core.bands import band_of, bands_of
from brimful.core.content import ContentPackage, Media, Part, Text, ToolCall, ToolResult
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.core.explain import Lines
from brimful.core.order import reading_order
from brimful.core.prompt import Prompt
from brimful.errors import InvalidRequest
from brimful.records import Snapshot
from brimful.render import renderer_of
from brimful.server.inspector.names import Names
from brimful.server.inspector.views import AnswerView, ContextRow, ContextView, DecisionView, PromptPart

EXCERPT: Final = 200  # characters


def row_of(build: Build, names: Names) -> ContextRow:
    """Return a build as a line of a list."""
    told: dict[str, Any] = {field: getattr(build, field, "") for field in ContextRow.__struct_fields__}
    return ContextRow(**told | {"room_name": names.room(build.room), "persona_name": names.persona(build.persona)})


def view_of(
    snapshot: Snapshot,
    *,
    number: int | None = None,
    answers: Iterable[AnswerView] = (),
    names: Names = Names(),  # noqa: B008 - frozen
    brief: bool = False,
) -> ContextView:
    """Return all that is shown of a context; `brief`, without texts."""
    context = snapshot.context
    budget = context.budget
    return ContextView(
        number=number,
        id=snapshot.id,
        room=snapshot.room,
        room_name=names.room(snapshot.room),
        persona=snapshot.persona,
        persona_name=names.persona(snapshot.persona),
        message=snapshot.message,
        at=snapshot.at,
        model=context.inputs.model.id,
        policy=context.inputs.policy.name,
        window=budget.window,
        completion=budget.completion,
        margin=budget.margin,
        hard_limit=budget.hard_limit,
        available=budget.available,
        reserved=budget.reserved,
        tokens=context.tokens,
        remaining=context.remaining,
        basis=context.verification.basis,
        candidates=len(context.decisions),
        left_out=sum(not each.included for each in context.decisions),
        warnings=context.warnings,
        degraded=context.inputs.degraded,
        components=context.components,
        bands=tuple(bands_of(context)),
        pools=context.pools,
        prompt=() if brief else tuple(prompt_of(context)),
        decisions=decisions_of(context, brief=brief),
        answers=tuple(answers),
        report=context.report(),
    )


def decisions_of(context: Context, *, brief: bool = False) -> tuple[DecisionView, ...]:
    """Return what became of every candidate, in the order of the record."""
    places, packages, lines = reading_order(context), packages_of(context), Lines(context)
    return tuple(
        _decision(lines, each, packages[each.id], places.get(each.id) if each.included else None, brief=brief)
        for each in context.decisions
    )


def packages_of(context: Context) -> dict[str, ContentPackage]:
    """Return the candidates by id."""
    return {package.id: package for package in context.inputs.packages}


def prompt_of(context: Context) -> list[PromptPart]:
    """Return the messages of the request; none if it is no longer whole, for something in it was erased."""
    return [
        PromptPart(role=message.role, excerpt=excerpt(text), characters=len(text))
        for message in parsed(context).messages
        for text in [told(message.parts)]
    ]


def parsed(context: Context) -> Prompt:
    """Read the request as its model does."""
    try:
        return renderer_of(context.inputs).parse(context.request)
    except InvalidRequest:  # what was erased later left it with holes, or took it away
        return Prompt(model=context.inputs.model.id, messages=())


def told(content: str | Sequence[Part]) -> str:
    """Return a content as a person reads it."""
    return content if isinstance(content, str) else "\n".join(_told(part) for part in content)


def excerpt(text: str) -> str:
    r"""Return the beginning of a text, on one line.

    >>> excerpt("Hello,\n  world")
    'Hello, world'
    """
    line = " ".join(text[: 2 * EXCERPT].split())
    return line if len(line) <= EXCERPT and len(text) <= 2 * EXCERPT else line[: EXCERPT - 1] + "…"


def _told(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Media():
            return f"[{part.modality}{f' {part.url[:EXCERPT]}' if part.url else ''}]"
        case ToolCall():
            return f"{part.name}({part.arguments})"
        case ToolResult():
            return part.content


def _decision(
    lines: Lines, decision: Decision, package: ContentPackage, place: int | None, *, brief: bool
) -> DecisionView:
    return DecisionView(
        id=decision.id,
        kind=decision.kind,
        component=band_of(package),
        outcome=decision.outcome,
        reason=decision.reason,
        tokens=decision.tokens,
        cost=decision.cost,
        pool=decision.pool,
        score=decision.score,
        rank=decision.rank,
        cut=decision.cut,
        by=decision.by,
        group=decision.group,
        why=lines.of(decision),
        excerpt="" if brief else excerpt(told(package.content)),
        at=package.timestamp,
        place=place,
    )
