"""The stages of assembly in order: dedupe, allocate, fill, arrange, render, verify, record.

`prepare` does everything that does not depend on the window. `assemble_candidates` does the rest, and repeats fill to
verify until the request fits and is full.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from brimful.core.arrange import Arrangement, arrange, find_history_start
from brimful.core.budget import ContextBudget, allocate, smaller_reserve_notice
from brimful.core.candidates import (
    canonical_order,
    dedupe_by_id,
    replace_unsupported_media,
    resolve_times,
    split_excluded,
)
from brimful.core.content import ContentPackage, Media
from brimful.core.context import COMPONENTS, Component, Context, Inputs, make_id_function, scale_to_total
from brimful.core.cost import (
    COVERED_KEY,
    NameStyle,
    base_cost,
    make_cost_function,
    make_heading_function,
    name_style,
    recount,
    region_of,
)
from brimful.core.decision import Decision, Reason, Region, make_scorer
from brimful.core.fill import fill, find_needed
from brimful.core.forms import Shaper, find_query, find_step_queries
from brimful.core.handles import Handles, find_names
from brimful.core.ledger import LedgerWriter
from brimful.core.media import candidate_ids, make_media_units, media_parts, split_media
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.own_output import find_carried
from brimful.core.prompt import Renderer, Request, TokenCounter
from brimful.core.recall import RECALL
from brimful.core.select import Queues, make_queues
from brimful.core.selection import BaseCost, HistoryStart, RetrievedItem, Selection, ToolLoop
from brimful.core.tool_ranking import Similarity
from brimful.core.toolset import ToolChoice, Toolset, limit_tools
from brimful.core.units import find_question, is_tool_loop, make_units, total_cost
from brimful.core.verify import Verification, verify
from brimful.core.worth import find_needs, mark_exceptions
from brimful.errors import BudgetExceeded

_MAX_ROUNDS: Final = 12  # usually one; two if a template joins what was counted separately
_MAX_NAMED: Final = 5  # ids in a notice
_WORTH_A_ROUND: Final = 0.005  # of the budget: less spare room than that is left unused


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates of some inputs, ready to fill a window of any size.

    `excluded` holds decisions on candidates that cannot get in. `base` is the estimated cost of the request itself,
    without its tools, and `contents` what all candidates would cost, and the required ones alone.
    `make_id` returns the id of a context with these candidates; `shaper` makes smaller forms of them, and `writer` the
    lines of a ledger. `question` is the id of the message to answer, unless the request is a caller's own.
    """

    inputs: Inputs
    queues: Queues
    excluded: tuple[Decision, ...]
    base: BaseCost
    contents: tuple[int, int]
    toolset: Toolset
    names: NameStyle
    make_id: Callable[[Inputs], str]
    shaper: Shaper
    writer: LedgerWriter
    counter: TokenCounter
    renderer: Renderer
    question: str
    loop: ToolLoop | None

    def with_window(self, window: int) -> "Candidates":
        """Return the same candidates for another window."""
        return msgspec.structs.replace(self, inputs=msgspec.structs.replace(self.inputs, window=window))

    def allocate(self) -> ContextBudget:
        """Divide the window."""
        return self.inputs.allocate()

    def _allocate(self, completion: int | None) -> ContextBudget:
        return allocate(self.inputs.policy, self.inputs.model, window=self.inputs.window, completion=completion)

    def find_budgets(self) -> tuple[ContextBudget, ...]:
        """Return the budgets to try in turn, until no required content has to be shortened.

        What a request allows for the answer is reserved. It gives way to any content down to half of the window, and to
        required content down to the policy's own reserve, but never further than that helps.
        """
        own, smallest = self._allocate(self.inputs.reserve), self._allocate(None)
        smallest = self._allocate(smallest.window - smallest.hard_limit)
        if self.inputs.completion is not None or smallest.available <= own.available:
            return (own,)
        if not self.inputs.policy.completion.gives_way:
            return own, smallest
        everything = self.base.full + self.toolset.cost + self.contents[0]
        chosen = self._give_way(own, everything, self.allocate())
        if everything > chosen.available:
            base = self.base_with(self.choose_tools(chosen))
            chosen = self._give_way(chosen, find_needed(self.queues, self.inputs.policy, base, self.writer), smallest)
        return (smallest,) if chosen.completion <= smallest.completion else (chosen, smallest)

    def _give_way(self, budget: ContextBudget, needed: int, least: ContextBudget) -> ContextBudget:
        """Return a budget whose reserve leaves `needed` tokens to the prompt, but is not smaller than the least."""
        left = least.window - least.margin - needed
        chosen = self._allocate(max(least.completion, min(budget.completion, left)))
        missing = needed - chosen.available  # a longer answer has a larger margin if the prompt is capped
        return chosen if missing <= 0 else self._allocate(max(least.completion, chosen.completion - missing))

    def choose_tools(self, budget: ContextBudget) -> ToolChoice:
        """Choose the tools, and the forms of their definitions."""
        everything, required = self.contents
        room = budget.available - self.base.full
        if self.toolset.cost + everything <= room:
            return self.toolset.choose(room)
        return self.toolset.choose(limit_tools(room, everything, required, self.inputs.policy))

    def plan(self, budget: ContextBudget) -> tuple[ToolChoice, Selection]:
        """Choose tools and what gets in, by the counts of the parts alone."""
        tools = self.choose_tools(budget)
        return tools, self.fill(budget, self.base_with(tools))

    def base_with(self, tools: ToolChoice) -> BaseCost:
        """Return the cost of the request itself with these tools."""
        cost = self.toolset.count(tools.tools)
        return BaseCost(full=self.base.full + cost, required=self.base.required + cost)

    def fill(self, budget: ContextBudget, base: BaseCost) -> Selection:
        """Choose what gets in, by the counts of the parts alone."""
        inputs = self.inputs
        return fill(
            self.queues,
            inputs.policy,
            budget,
            base=base,
            shaper=self.shaper,
            writer=self.writer,
            previous=inputs.previous,
            retrieved=self.loop.retrieved if self.loop else None,
        )

    def arrange(self, selection: Selection, budget: ContextBudget, tools: ToolChoice) -> Arrangement:
        """Arrange the chosen units."""
        inputs = self.inputs
        return arrange(
            selection,
            model=inputs.model,
            tools=tools.tools,
            max_output=budget.completion,
            layout=inputs.policy.layout,
            days=_shows_days(inputs),
            names=self.names,
            break_tokens=_breaks_special_tokens(inputs, self.renderer),
            loop=self.loop,
        )


def _shows_days(inputs: Inputs) -> bool:
    """Whether messages begin with their day: not in a request that somebody else wrote."""
    return inputs.policy.layout.history_days and not inputs.is_fitted


def _breaks_special_tokens(inputs: Inputs, renderer: Renderer) -> bool:
    """Whether special tokens in content are broken up: not in a request that somebody else wrote."""
    model = inputs.model
    templated = model.overhead == "template" or renderer.is_templated or not model.known
    return templated and not inputs.is_fitted and inputs.policy.layout.special_tokens == "break"


def _bills_by_detail(model: ModelInfo, renderer: Renderer) -> bool:
    """Whether a request can ask for pictures in low detail."""
    return model.provider == renderer.detail_provider and model.image_rule is not None


def _lacks_image_rule(model: ModelInfo) -> bool:
    """Whether pictures are sent to a model of which nobody knows how it counts them."""
    return model.image_rule is None and (not model.known or "image" in model.modalities)


class Attempt(msgspec.Struct, frozen=True):
    """One round: tools and a selection within a budget, arranged, rendered and counted as a whole."""

    budget: ContextBudget
    tools: ToolChoice
    selection: Selection
    arrangement: Arrangement
    request: Request
    verification: Verification

    @property
    def surprise(self) -> int:
        """What the whole costs beyond the plan of the fill; negative if it costs less."""
        return self.verification.tokens - self.selection.used

    @property
    def is_over(self) -> bool:
        """Whether it takes more than it may. The safety margin is only for what was planned to need it."""
        budget = self.budget
        limit = budget.hard_limit if self.selection.used > budget.available else budget.available
        return self.verification.tokens > limit

    @property
    def is_cut(self) -> bool:
        """Whether required content was shortened, besides media that are not sent."""
        return any(unit.fixed and unit.whole and not (unit.tie and unit.tie.reason) for unit in self.selection.required)


def assemble(
    inputs: Inputs, *, counter: TokenCounter, renderer: Renderer, similarity: Similarity | None = None
) -> Context:
    """Build the context that these inputs give. Pure: equal inputs give an equal context, byte for byte."""
    return assemble_candidates(prepare(inputs, counter=counter, renderer=renderer, similarity=similarity))


def prepare(
    inputs: Inputs, *, counter: TokenCounter, renderer: Renderer, similarity: Similarity | None = None
) -> Candidates:
    """Dedupe the candidates, exclude what cannot get in, count the rest for the model, and queue it by pool.

    `similarity` compares meanings, to find the tools that are needed most; without it, only words are compared.
    """
    inputs = msgspec.structs.replace(inputs, packages=tuple(canonical_order(inputs.packages)))
    packages, duplicates = dedupe_by_id(inputs.packages, inputs.policy)
    packages, excluded = split_excluded(packages)
    question = None if inputs.is_fitted else find_question(packages)
    query = find_query(packages)
    handles = Handles(candidate_ids(inputs.packages), find_names(inputs.packages))
    packages, items = split_media(
        packages,
        handles=handles,
        when=inputs.policy.media.when,
        query=query,
        model=inputs.model,
        renderer=renderer,
        counter=counter,
    )
    packages, unsupported = replace_unsupported_media(packages, inputs.model, renderer)
    layout = inputs.policy.layout
    if layout.resolve_times:
        packages = resolve_times(packages, inputs.policy, counter)
    packages = recount(packages, counter)
    names = name_style(packages, names_in_text=renderer.names_in_text or inputs.model.names_in_text)
    days = _shows_days(inputs)
    cost_of = make_cost_function(counter, names=names, days=days)
    is_agent = any(pool.ledger for pool in inputs.policy.pools)
    shaper = Shaper(
        counter,
        inputs.policy.forms,
        query,
        handles,
        low_detail=_bills_by_detail(inputs.model, renderer),
        bare=is_agent,
        queries=find_step_queries(packages) if is_agent else {},
    )
    score_of = make_scorer(inputs.policy.weights, inputs.now, find_needs(packages, inputs.policy))
    heading_of = make_heading_function(counter, days=days, timezone=layout.timezone)
    units, refused = make_units(packages, inputs.policy, cost_of, heading_of, shaper.may_shrink, score_of)
    units = mark_exceptions(units, inputs.policy)
    required = [package for package in packages if not package.flex.can_drop]
    return Candidates(
        inputs=inputs,
        queues=make_queues(units, make_media_units(items, inputs.policy, inputs.now), inputs.policy),
        excluded=(*duplicates, *excluded, *unsupported, *refused),
        base=BaseCost(full=base_cost(packages, counter), required=base_cost(required, counter)),
        contents=(total_cost(units), total_cost([unit for unit in units if unit.fixed])),
        toolset=Toolset(
            inputs.tools,
            inputs.packages,
            fixed=_find_fixed_tools(inputs, renderer),
            can_search=inputs.policy.recall == "tool" and renderer.can_add_tools,
            model=inputs.model.id,
            counter=counter,
            similarity=similarity,
        ),
        names=names,
        make_id=make_id_function(inputs.packages),
        shaper=shaper,
        writer=LedgerWriter(counter, cost_of, handles, shaper, inputs.tools, inputs.model.cache),
        counter=counter,
        renderer=renderer,
        question=question.id if question else "",
        loop=_find_loop(packages, question, inputs.previous),
    )


def _find_loop(
    packages: Sequence[ContentPackage], question: ContentPackage | None, previous: HistoryStart | None
) -> ToolLoop | None:
    if question is None or not is_tool_loop(packages):
        return None
    if previous is None or previous.question != question.id:
        return ToolLoop(question=question.id)
    return ToolLoop(question=question.id, retrieved={each.id: each.limit for each in previous.retrieved})


def _find_fixed_tools(inputs: Inputs, renderer: Renderer) -> frozenset[str]:
    """Return the names of the tools that must stay as they are."""
    if not inputs.policy.tools.trim:
        return frozenset(tool.name for tool in inputs.tools)
    return renderer.fixed_tools.union([RECALL.name] if inputs.recall else ())


def assemble_candidates(candidates: Candidates) -> Context:
    """Build a context from prepared candidates."""
    return record(candidates, choose(candidates))


def choose(candidates: Candidates) -> Attempt:
    """Choose what gets in, and in which form, such that the request as a whole fits."""
    *larger, smallest = candidates.find_budgets()
    may_cut = not candidates.inputs.policy.completion.gives_way
    for budget in larger:
        with suppress(BudgetExceeded):
            done = _choose_within(candidates, budget)
            if may_cut or not done.is_cut:
                return done
    return _choose_within(candidates, smallest)


def _choose_within(candidates: Candidates, budget: ContextBudget) -> Attempt:
    tools = candidates.choose_tools(budget)
    try:
        return _choose_contents(candidates, budget, tools)
    except BudgetExceeded:
        fewest = candidates.toolset.choose(0)
        if fewest.tools == tools.tools:
            raise
        return _choose_contents(candidates, budget, fewest)


def _choose_contents(candidates: Candidates, budget: ContextBudget, tools: ToolChoice) -> Attempt:
    """Choose what gets in beside these tools."""
    own = candidates.base_with(tools)
    rounds = _Rounds(own, budget)
    for base in rounds:
        selection = candidates.fill(budget, base)
        arrangement = candidates.arrange(selection, budget, tools)
        request = candidates.renderer.render(arrangement.prompt, window=budget.window)
        verification = verify(
            request,
            arrangement.prompt,
            candidates.renderer,
            candidates.counter,
            limit=budget.hard_limit,
            parts=selection.used - base.of(selection) + own.of(selection),
            rounds=rounds.number,
        )
        rounds.last = Attempt(budget, tools, selection, arrangement, request, verification)
    return rounds.best


class _Rounds:
    """Decides what to plan for the request itself in each round, by what the rounds before it cost as a whole.

    What the whole costs beyond the plan is added to the base, so every round comes closer. Once a round fits, and if
    anything is still waiting, spare room is given back to the fill. Set `last` after each round; `best` is the result.
    """

    last: Attempt

    def __init__(self, base: BaseCost, budget: ContextBudget) -> None:
        self._base = base
        self._budget = budget
        self.number = 0
        self.best: Attempt

    def __iter__(self) -> Iterator[BaseCost]:
        base = self._base
        yield self._next(base)
        while self.last.is_over:
            if self.number == _MAX_ROUNDS:
                raise _unverified_error(self.last)
            base = _raise_base(base, self.last)
            yield self._next(base)
        self.best = self.last
        if _has_waiting(self.best.selection):
            yield from self._use_spare_room(base)

    def _use_spare_room(self, base: BaseCost) -> Iterator[BaseCost]:
        """Plan with less for the base as long as that fits: parts that were counted too high make room for more."""
        fitting, too_much, more = 0, None, _estimate_spare(self.best, base)
        while more - fitting > _WORTH_A_ROUND * self._budget.available and self.number < _MAX_ROUNDS:
            yield self._next(BaseCost(full=base.full - more, required=base.required))
            if self.last.is_over:
                too_much = more
            else:
                fitting, self.best = more, max(self.best, self.last, key=lambda one: one.verification.tokens)
            more = fitting + _estimate_spare(self.best, base) if too_much is None else (fitting + too_much) // 2

    def _next(self, base: BaseCost) -> BaseCost:
        self.number += 1
        return base


def _estimate_spare(done: Attempt, base: BaseCost) -> int:
    """Estimate how much more can be planned, if content continues to cost as much per planned token."""
    planned = done.selection.used - base.full
    return -done.surprise * planned // max(1, done.verification.tokens)


def _raise_base(base: BaseCost, done: Attempt) -> BaseCost:
    """Charge the surprise to whatever can still give way: optional content first, then what may shrink."""
    required = base.required if done.selection.optional else base.required + done.surprise
    return BaseCost(full=base.full + done.surprise, required=required)


def _has_waiting(selection: Selection) -> bool:
    """Whether anything stayed out only because there was no room."""
    return any(decision.reason in ("pool-full", "window-full", "older", "trimmed") for decision in selection.decisions)


def _unverified_error(done: Attempt) -> BudgetExceeded:
    return BudgetExceeded(
        needed=done.verification.tokens,
        limit=done.verification.limit,
        required=[(unit.key, unit.cost) for unit in done.selection.units],
        where=f"the request counts {done.surprise:,} tokens more than its parts after {_MAX_ROUNDS} rounds",
    )


# -- record ----------------------------------------------------------------------------------------------------------


def record(candidates: Candidates, done: Attempt) -> Context:
    """Return the context with a decision on every candidate, and its warnings."""
    placements = done.arrangement.placements
    chosen = [_with_placement(each, placements) for each in done.selection.decisions]
    decisions = [*candidates.excluded, *done.tools.decisions, *chosen]
    decisions = _credit_summaries(decisions, candidates.inputs.packages)
    context = Context(
        id=candidates.make_id(candidates.inputs),
        inputs=candidates.inputs,
        budget=done.budget,
        pools=(*done.selection.pools, *([done.tools.use] if done.tools.use else ())),
        components=_components(decisions, done.verification.tokens),
        decisions=tuple(decisions),
        verification=done.verification,
        request=done.request,
        history=find_history_start(
            done.selection,
            find_carried(candidates.inputs.packages),
            question=candidates.question,
            retrieved=_list_retrieved(done),
        ),
        warnings=(),
    )
    warnings = (*candidates.inputs.degraded, *_find_warnings(context, done.arrangement.broken))
    return msgspec.structs.replace(context, warnings=warnings)


def _list_retrieved(done: Attempt) -> tuple[RetrievedItem, ...]:
    """Return the retrieved content, in its order."""
    placements = done.arrangement.placements
    units = [unit for unit in done.selection.units if unit.key in placements]
    related = [unit for unit in units if placements[unit.key][0] == "related"]
    return tuple(
        RetrievedItem(
            id=unit.key,
            kind=unit.packages[0].kind,
            limit=unit.limit if unit.whole else 0,
            relevance=unit.packages[0].relevance,
            matches=unit.packages[0].matches,
        )
        for unit in sorted(related, key=lambda unit: placements[unit.key][1])
    )


def _credit_summaries(decisions: list[Decision], packages: Sequence[ContentPackage]) -> list[Decision]:
    """Return the decisions, with those on dropped messages that a summary in the context covers, by position or id."""
    if not any(each.covers or each.kind == "summary" for each in packages):
        return decisions
    included = {each.id for each in decisions if each.included}
    inside = [each for each in packages if each.id in included]
    by_id = {id: each.id for each in inside for id in each.covers}
    by_position = _find_by_position(packages, inside)
    credited: list[Decision] = []
    for decision in decisions:
        # A summary of a request names messages that are excluded. One of a room covers positions of dropped messages.
        summary = by_id.get(decision.id, "") if decision.reason == "excluded" else ""
        summary = summary or (by_position.get(decision.id, "") if decision.outcome == "dropped" else "")
        if summary:
            decision = msgspec.structs.replace(decision, outcome="replaced", reason="summary", by=summary)  # noqa: PLW2901
        credited.append(decision)
    return credited


def _find_by_position(packages: Sequence[ContentPackage], inside: Iterable[ContentPackage]) -> dict[str, str]:
    """Return the summary inside that covers a message by its position, by the message's id."""
    spans: list[tuple[int, int, str]] = []
    for package in inside:
        match package.metadata.get(COVERED_KEY):
            case [int(first), int(last)] if package.kind == "summary":
                spans.append((first, last, package.id))
    turns = [each for each in packages if region_of(each) == "history" and each.cluster is None] if spans else []
    return {each.id: next((id for first, last, id in spans if first <= each.position <= last), "") for each in turns}


def _unknown_model_notice(model: ModelInfo, window: int) -> Notice:
    origin = f", the smallest of its family ({model.relative})" if model.relative else ""
    relative = {"relative": model.relative} if model.relative else {}
    return Notice(
        kind="unknown-model",
        text=f"unknown model {model.id!r}: assuming a window of {window:,} tokens{origin}; pass window= to set it",
        facts={"model": model.id, "window": window, **relative},
    )


def _find_warnings(context: Context, broken: Sequence[str]) -> Iterator[Notice]:
    model, budget = context.inputs.model, context.budget
    if model.assumed_window and context.inputs.window is None:
        yield _unknown_model_notice(model, budget.window)
    if context.is_output_lowered:
        yield smaller_reserve_notice(budget.completion, context.inputs.max_output or 0)
    if unknown := _find_media(context, lambda part: part.has_unknown_size):
        yield Notice(
            kind="unknown-size",
            text=f"documents, audio or video of unknown size, whose tokens are assumed: {_name_ids(unknown)}",
            facts={"ids": unknown},
        )
    pictures = _find_media(context, lambda part: part.modality == "image") if _lacks_image_rule(model) else []
    if pictures:
        yield Notice(
            kind="unknown-image-rule",
            text=f"model {model.id!r} has no image rule: pictures are counted with a margin for the largest known rule",
            facts={"model": model.id, "ids": pictures},
        )
    # Required content may use the margin. It fits by our counts, but a provider that counts more may refuse it.
    if context.remaining < 0:
        yield Notice(
            kind="margin-used",
            text=f"{-context.remaining:,} tokens of the safety margin are in use",
            facts={"tokens": -context.remaining},
        )
    yield from _find_pin_warnings(context)
    if left_out := _find_nothing_relevant(context):
        yield Notice(
            kind="nothing-relevant",
            text=f"nothing that was found is worth its tokens: {left_out:,} item{'s' * (left_out > 1)} left out",
            facts={"items": left_out, "price": context.inputs.policy.price},
        )
    if broken:
        yield Notice(
            kind="special-tokens",
            text=f"special tokens of chat templates were broken up in {_name_ids(broken)}",
            facts={"ids": list(broken)},
        )


def _find_pin_warnings(context: Context) -> Iterator[Notice]:
    always = {package.id for package in context.inputs.packages if package.pinned or package.always_on}
    shortened = [each for each in context.decisions if each.outcome == "shrunk"]
    if shrunk := sorted(each.id for each in shortened if each.reason == "required" or each.id in always):
        yield Notice(
            kind="required-shrunk",
            text=f"required or pinned content was shortened to fit: {_name_ids(shrunk)}",
            facts={"ids": shrunk},
        )
    # What somebody excluded is out on purpose, pinned or not.
    out = {each.id for each in context.decisions if each.outcome == "dropped" and each.reason != "excluded"}
    if dropped := sorted(out & always):
        yield Notice(
            kind="pins-dropped",
            text=f"pinned or always-on content did not fit: {_name_ids(dropped)}",
            facts={"ids": dropped},
        )


NOT_WORTH: Final[tuple[Reason, ...]] = ("not-worth", "unlikely")
"""Reasons of what stays out although there may be room."""


def _find_nothing_relevant(context: Context) -> int:
    """Return how many items were not worth their tokens, if none was; otherwise 0."""
    best_sets = {pool.name for pool in context.inputs.policy.pools if pool.optimize}
    found = [each for each in context.decisions if each.pool in best_sets]
    return 0 if any(each.included for each in found) else sum(each.reason in NOT_WORTH for each in found)


def _find_media(context: Context, matches: Callable[[Media], bool]) -> list[str]:
    """Return the media items in the request that match, or the packages that they are part of."""
    found: set[str] = set()
    for package in context.inputs.packages:
        if isinstance(package.content, str):
            continue
        if any(isinstance(part, Media) and matches(part) for part in package.content):
            # Media of messages are candidates of their own, unless they stayed in their message.
            own = {id for id, _, part in media_parts(package) if matches(part)}
            found |= own if own & context.decisions_by_id.keys() else {package.id}
    return sorted(
        id for id in found if (each := context.decisions_by_id.get(id)) and each.included and each.form != "stub"
    )


def _name_ids(ids: Sequence[str]) -> str:
    return ", ".join(map(repr, ids[:_MAX_NAMED])) + (
        f" and {len(ids) - _MAX_NAMED:,} more" if len(ids) > _MAX_NAMED else ""
    )


def _with_placement(decision: Decision, placements: dict[str, tuple[Region, int]]) -> Decision:
    place = placements.get(decision.id) if decision.included else None
    return decision if place is None else msgspec.structs.replace(decision, region=place[0], position=place[1])


def _components(decisions: Iterable[Decision], total: int) -> tuple[Component, ...]:
    """Sum the included tokens by component. `format` is the cost of the request without its packages."""
    tokens: dict[str, int] = dict.fromkeys(("system", "memories", "recent", "media", "current"), 0)
    items = dict(tokens)
    for decision in decisions:
        if decision.included:
            name = COMPONENTS.get(decision.kind, decision.kind)
            tokens[name] = tokens.get(name, 0) + decision.cost
            items[name] = items.get(name, 0) + 1
    tokens = scale_to_total(tokens, total)
    rows = [Component(name=name, tokens=tokens[name], items=items[name]) for name in tokens]
    return (*rows, Component(name="format", tokens=total - sum(tokens.values()), items=0))
