"""Schemas of the inspector's responses, and their construction from stored records."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text, ToolCall, ToolResult
from brimful.core.context import Component, Context
from brimful.core.decision import Decision, Outcome, Reason
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.prompt import Prompt
from brimful.core.score import Score
from brimful.core.selection import PoolUse
from brimful.errors import InvalidRequest, InvalidValue, MissingExtra
from brimful.models.prices import price
from brimful.models.registry import Registry
from brimful.protocols import Store
from brimful.records import Persona, Response, Room, Snapshot, Usage
from brimful.records.search import Build
from brimful.render import renderer_of
from brimful.views.explain import DecisionLines
from brimful.views.picture import Band, band_name, window_bands

ItemStatus = Literal["", "removed", "erased"]
"""What became of a candidate after it was one."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that is told."""


# -- contexts --------------------------------------------------------------------------------------------------------


class ContextRow(View, frozen=True, kw_only=True):
    """A context in one line. `number` is its place in the log, and grows.

    `room_name` and `persona_name` are what people call them; empty where they have no name, or are gone.
    """

    number: int
    id: str
    room: str
    room_name: str
    persona: str | None
    persona_name: str
    message: str | None
    at: float
    model: str
    policy: str
    tokens: int
    window: int
    completion: int
    available: int
    components: tuple[Component, ...]
    candidates: int
    left_out: int
    warnings: tuple[Notice, ...]
    degraded: tuple[Notice, ...]


class ContextList(View, frozen=True, kw_only=True):
    """Contexts, newest first. `next` is what to pass as `before` for older ones; null if there are none."""

    contexts: tuple[ContextRow, ...]
    next: int | None


class DecisionView(View, frozen=True, kw_only=True, gc=False):
    """What became of one candidate, and why.

    `component` is the name of the band that it is part of, if it is in. `place` counts from 0 in the order of the
    request, null if it is not in. `excerpt` is the beginning of its text.
    """

    id: str
    kind: str
    component: str
    outcome: Outcome
    reason: Reason
    tokens: int
    cost: int
    pool: str
    score: Score | None
    rank: int
    cut: int
    by: str
    group: str
    why: str
    excerpt: str
    at: float
    place: int | None


class AnswerView(View, frozen=True, kw_only=True):
    """What came of a context: why the answer ended, how long it took, what the upstream reported, what that costs.

    `expected_cached` are the tokens that should have been in its prompt cache; `notes` say what was amiss. `cost` is in
    US dollars, null where no price is known. `message` is the id of the answer in its room.
    """

    id: str
    context: str
    room: str
    message: str | None
    at: float
    model: str
    route: str
    finish: str
    seconds: float | None
    usage: Usage | None
    expected_cached: int
    cost: float | None
    notices: tuple[Notice, ...]


class PromptPart(View, frozen=True, kw_only=True):
    """A message of the request as the model sees it: who speaks, how much, and how it begins."""

    role: str
    excerpt: str
    characters: int


class ContextView(View, frozen=True, kw_only=True):
    """A context as its record tells it. `report` is for people. The request is fetched apart.

    `hard_limit` is what a prompt may have at the most, `available` what was planned with, `reserved` the rest of the
    window, and `remaining` what is left of `available`, below zero if the margin was needed.
    """

    number: int | None
    id: str
    room: str
    room_name: str
    persona: str | None
    persona_name: str
    message: str | None
    at: float
    model: str
    policy: str
    window: int
    completion: int
    margin: int
    hard_limit: int
    available: int
    reserved: int
    tokens: int
    remaining: int
    basis: str
    candidates: int
    left_out: int
    warnings: tuple[Notice, ...]
    degraded: tuple[Notice, ...]
    components: tuple[Component, ...]
    bands: tuple[Band, ...]
    pools: tuple[PoolUse, ...]
    prompt: tuple[PromptPart, ...]
    decisions: tuple[DecisionView, ...]
    answers: tuple[AnswerView, ...]
    report: str


class ItemBuild(View, frozen=True, kw_only=True):
    """What became of an item in one build."""

    id: str
    at: float
    outcome: str
    reason: str


class ItemView(View, frozen=True, kw_only=True):
    """One candidate, whole: its text, the smallest window in which it would be in, and its last builds.

    `window_for` is null if no window helps. `since` tells what became of it after this build: it was `removed` from the
    store, or `erased` from this record, too; empty if neither.
    """

    decision: DecisionView
    since: ItemStatus
    text: str
    metadata: dict[str, Any]
    window_for: int | None
    builds: tuple[ItemBuild, ...]


# -- what would be otherwise -----------------------------------------------------------------------------------------


class ChangeView(View, frozen=True, kw_only=True, gc=False):
    """A candidate whose fate differs between two contexts; null where it was no candidate."""

    id: str
    kind: str
    before: Outcome | None
    after: Outcome | None
    before_reason: Reason | None
    after_reason: Reason | None
    tokens: int
    excerpt: str


class Exceeded(View, frozen=True, kw_only=True):
    """What is required does not fit: it needs so many tokens, and there are so many. `required` are the largest."""

    needed: int
    limit: int
    message: str
    required: tuple[tuple[str, int], ...]


class WhatIf(View, frozen=True, kw_only=True):
    """A context as it would be, and what that changes; or why it cannot be, in `exceeded`, and then `context` is null.

    Its decisions have no excerpts, its prompt and names are left out: the context that was asked about has them.
    """

    context: ContextView | None
    exceeded: Exceeded | None
    entered: tuple[ChangeView, ...]
    left: tuple[ChangeView, ...]
    changed: tuple[ChangeView, ...]
    prefix_share: float


class ComparedPart(PromptPart, frozen=True, kw_only=True):
    """A message of the later request. `same` says that both requests are equal up to its end."""

    same: bool


class DiffView(View, frozen=True, kw_only=True):
    """Two contexts side by side. `common_prefix` are the bytes of the request that both begin with."""

    before: ContextRow
    after: ContextRow
    entered: tuple[ChangeView, ...]
    left: tuple[ChangeView, ...]
    changed: tuple[ChangeView, ...]
    common_prefix: int
    prefix_share: float
    messages: tuple[ComparedPart, ...]


# -- models, policies, counts ----------------------------------------------------------------------------------------


class ModelRow(View, frozen=True, kw_only=True):
    """A model that may be chosen."""

    id: str
    provider: str
    window: int
    max_output: int
    max_input: int | None


class ModelList(View, frozen=True, kw_only=True):
    """All models that are known, by name. `default` is the one that texts are counted for where none is named."""

    models: tuple[ModelRow, ...]
    default: str


class PolicyRow(View, frozen=True, kw_only=True):
    """A policy that may be chosen, and its pools."""

    name: str
    description: str
    pools: tuple[str, ...]


class PolicyList(View, frozen=True, kw_only=True):
    """All policies that may be named."""

    policies: tuple[PolicyRow, ...]


class TextCount(View, frozen=True, kw_only=True):
    """How many tokens a text has, and how sure that is."""

    tokens: int
    basis: str


class DisplayNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names by id. Who has none, or is gone, is not among them."""

    rooms: dict[str, str] = {}
    personas: dict[str, str] = {}

    def room(self, id: str) -> str:
        """Return what a room is called, or nothing."""
        return self.rooms.get(id, "")

    def persona(self, id: str | None) -> str:
        """Return what a persona is called, or nothing."""
        return "" if id is None else self.personas.get(id, "")


async def load_names(store: Store, contexts: Iterable[Build | Snapshot]) -> DisplayNames:
    """Look up the names of all rooms and personas of some contexts, each once."""
    every = list(contexts)
    return DisplayNames(
        rooms=await _load_names(store, Room, {each.room for each in every}),
        personas=await _load_names(store, Persona, {each.persona for each in every if each.persona is not None}),
    )


async def _load_names(store: Store, kind: type[Room] | type[Persona], ids: Iterable[str]) -> dict[str, str]:
    found = {id: await store.get(kind, id) for id in ids}
    return {id: record.name for id, record in found.items() if record is not None and record.name}


class Prices:
    """Looks up prices."""

    def __init__(self, registry: Registry) -> None:
        """Take the rows of all models."""
        self._registry = registry

    def answered(self, response: Response) -> AnswerView:
        """Return what is shown of an answer."""
        fields = {field: getattr(response, field) for field in AnswerView.__struct_fields__ if field != "cost"}
        return AnswerView(**fields, cost=self.of(response.model, response.usage, at=response.at))

    def of(self, model: str, usage: Usage | None, *, at: float) -> float | None:
        """Return what a model's usage costs at the prices of that time; None where that is not known."""
        if usage is None or not model:
            return None
        return _price(self._registry.resolve(model), usage, at)


def _price(model: ModelInfo, usage: Usage, at: float) -> float | None:
    try:
        found = price(model, usage.prompt, usage.completion, min(usage.cached, usage.prompt), at=_to_datetime(at))
    except (MissingExtra, InvalidValue):  # prices are an extra, and a report may make no sense
        return None
    return None if found is None else float(found.total)


def _to_datetime(at: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, tz=UTC)
    except (OverflowError, OSError, ValueError):  # a time that no calendar has
        return None


EXCERPT_LENGTH: Final = 200  # characters


def context_row(build: Build, names: DisplayNames) -> ContextRow:
    """Return a build as a line of a list."""
    told: dict[str, Any] = {field: getattr(build, field, "") for field in ContextRow.__struct_fields__}
    return ContextRow(**told | {"room_name": names.room(build.room), "persona_name": names.persona(build.persona)})


def context_view(
    snapshot: Snapshot,
    *,
    number: int | None = None,
    answers: Iterable[AnswerView] = (),
    names: DisplayNames = DisplayNames(),  # noqa: B008 - frozen
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
        bands=tuple(window_bands(context)),
        pools=context.pools,
        prompt=() if brief else tuple(prompt_parts(context)),
        decisions=decision_views(context, brief=brief),
        answers=tuple(answers),
        report=context.report(),
    )


def decision_views(context: Context, *, brief: bool = False) -> tuple[DecisionView, ...]:
    """Return what became of every candidate, in the order of the record."""
    packages, lines = packages_by_id(context), DecisionLines(context)
    return tuple(_decision_view(lines, each, packages[each.id], brief=brief) for each in context.decisions)


def packages_by_id(context: Context) -> dict[str, ContentPackage]:
    """Return the candidates by id."""
    return {package.id: package for package in context.inputs.packages}


def prompt_parts(context: Context) -> list[PromptPart]:
    """Return the messages of the request; none if it is no longer whole, for something in it was erased."""
    return [
        PromptPart(role=message.role, excerpt=make_excerpt(text), characters=len(text))
        for message in parse_request(context).messages
        for text in [content_text(message.parts)]
    ]


def parse_request(context: Context) -> Prompt:
    """Read the request as its model does."""
    try:
        return renderer_of(context.inputs).parse(context.request)
    except InvalidRequest:  # what was erased later left it with holes, or took it away
        return Prompt(model=context.inputs.model.id, messages=())


def content_text(content: str | Sequence[Part]) -> str:
    """Return a content as a person reads it."""
    return content if isinstance(content, str) else "\n".join(_part_text(part) for part in content)


def make_excerpt(text: str) -> str:
    r"""Return the beginning of a text, on one line.

    >>> make_excerpt("Hello,\n  world")
    'Hello, world'
    """
    line = " ".join(text[: 2 * EXCERPT_LENGTH].split())
    return line if len(line) <= EXCERPT_LENGTH and len(text) <= 2 * EXCERPT_LENGTH else line[: EXCERPT_LENGTH - 1] + "…"


def _part_text(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Media():
            return f"[{part.modality}{f' {part.url[:EXCERPT_LENGTH]}' if part.url else ''}]"
        case ToolCall():
            return f"{part.name}({part.arguments})"
        case ToolResult():
            return part.content


def _decision_view(lines: DecisionLines, decision: Decision, package: ContentPackage, *, brief: bool) -> DecisionView:
    return DecisionView(
        id=decision.id,
        kind=decision.kind,
        component=band_name(decision),
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
        excerpt="" if brief else make_excerpt(content_text(package.content)),
        at=package.timestamp,
        place=decision.position,
    )
