"""What one build or one answer adds to the figures, and what many come to.

All sums are whole numbers, so that they are the same in whatever order they are added: relevances are kept in
billionths, seconds in microseconds.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from brimful.answers import Build
from brimful.core.context import Context
from brimful.core.explain import COMPONENTS
from brimful.core.warning import WARNING_KINDS, WarningKind, warning_kinds
from brimful.records import Response
from brimful.statistics import (
    AnswerFigures,
    ComponentShare,
    MemoryFigures,
    ModelFigures,
    Spread,
    Statistics,
)

_MILLION: Final = 1_000_000
_BILLION: Final = 1_000_000_000
_MEMORY: Final = "memory-"
_MOST: Final = 10**10  # tokens or seconds: whoever reports more is wrong, and must not spoil all sums
_ORDER: Final = (*dict.fromkeys(COMPONENTS.values()),)


class Tally(msgspec.Struct, kw_only=True, array_like=True):
    """Sums, as they are kept: new ones are added at the end, with a default."""

    contexts: int = 0
    tokens: int = 0
    most: int = 0
    least: int = 0
    windows: int = 0
    fullest: float = 0.0
    emptiest: float = 0.0
    component_tokens: dict[str, int] = {}
    component_items: dict[str, int] = {}
    memories: dict[str, int] = {}
    relevance: int = 0
    rated: int = 0
    candidates: int = 0
    left_out: int = 0
    naive: int = 0
    warnings: dict[WarningKind, int] = {}
    answers: int = 0
    reported: int = 0
    prompt: int = 0
    cached: int = 0
    expected_cached: int = 0
    completion: int = 0
    reasoning: int = 0
    counted: int = 0
    naive_prompt: int = 0
    known_prompt: int = 0
    duration: int = 0
    timed: int = 0

    def add(self, other: "Tally") -> None:
        """Take up what another one counted."""
        if other.contexts:
            self._compare(other)
            for name in _MAPS:
                _add_up(getattr(self, name), getattr(other, name))
        for name in _SUMS:
            more = getattr(other, name)
            if more:  # most are of answers, or of builds
                setattr(self, name, getattr(self, name) + more)

    def _compare(self, other: "Tally") -> None:
        first = not self.contexts
        self.most = other.most if first else max(self.most, other.most)
        self.least = other.least if first else min(self.least, other.least)
        self.fullest = other.fullest if first else max(self.fullest, other.fullest)
        self.emptiest = other.emptiest if first else min(self.emptiest, other.emptiest)


_MAPS: Final = ("component_tokens", "component_items", "memories", "warnings")
_SUMS: Final = tuple(
    name for name in Tally.__struct_fields__ if name not in (*_MAPS, "most", "least", "fullest", "emptiest")
)


def tally_of_build(build: Build, context: Context) -> Tally:
    """Return what a build adds."""
    share = build.tokens / build.window
    seen = [each for each in context.decisions if each.included and each.kind.startswith(_MEMORY)]
    relevance = {package.id: package.relevance for package in context.inputs.packages}
    rated = [found for each in seen if (found := relevance.get(each.id)) is not None]
    memories: dict[str, int] = {}
    for each in seen:
        _add_up(memories, {each.kind.removeprefix(_MEMORY): 1})
    return Tally(
        contexts=1,
        tokens=build.tokens,
        most=build.tokens,
        least=build.tokens,
        windows=build.window,
        fullest=share,
        emptiest=share,
        component_tokens={each.name: each.tokens for each in build.components},
        component_items={each.name: each.items for each in build.components},
        memories=memories,
        relevance=sum(round(each * _BILLION) for each in rated),
        rated=len(rated),
        candidates=build.candidates,
        left_out=build.left_out,
        naive=min(build.naive, _MOST),
        warnings=dict.fromkeys(warning_kinds(context), 1),
    )


def tally_of_answer(response: Response, build: Build | None) -> Tally:
    """Return what an answer adds; without the build that it answers, our own count is not known."""
    usage = response.usage
    seconds = response.seconds
    tally = Tally(answers=1, timed=int(seconds is not None))
    tally.duration = round(min(max(0.0, seconds or 0.0), _MOST / _MILLION) * _MILLION)
    if usage is None or not usage.prompt:
        return tally
    prompt = min(usage.prompt, _MOST)
    return msgspec.structs.replace(
        tally,
        reported=1,
        prompt=prompt,
        cached=min(usage.cached, _MOST),
        expected_cached=min(response.expected_cached, _MOST),
        completion=min(usage.completion, _MOST),
        reasoning=min(usage.reasoning, _MOST),
        counted=build.tokens if build else 0,
        naive_prompt=min(build.naive, _MOST) if build else 0,
        known_prompt=prompt if build else 0,
    )


def statistics_of(key: str, begin: float | None, models: Mapping[str, Tally]) -> Statistics:
    """Return the figures of tallies, model by model and together."""
    all = added(models.values())
    many = max(1, all.contexts)
    lost = all.warnings.get("vectors-failed", 0) + all.warnings.get("vectors-off", 0)
    return Statistics(
        key=key,
        begin=begin,
        contexts=all.contexts,
        tokens=Spread(mean=all.tokens / many, max=all.most, min=all.least),
        share=Spread(mean=all.tokens / max(1, all.windows), max=all.fullest, min=all.emptiest),
        total_tokens=all.tokens,
        components=tuple(_components(all)),
        memories=_memories(all),
        candidates=all.candidates,
        left_out=all.left_out,
        naive=all.naive,
        warnings={kind: all.warnings[kind] for kind in WARNING_KINDS if kind in all.warnings},
        breaker_openings=all.warnings.get("breaker-opened", 0),
        vector_uptime=1 - lost / many,
        answers=_answers(all),
        models=tuple(_model(name, models[name]) for name in sorted(models)),
    )


def added(tallies: Iterable[Tally]) -> Tally:
    """Return what tallies come to."""
    total = Tally()
    for each in tallies:
        total.add(each)
    return total


def _components(tally: Tally) -> list[ComponentShare]:
    many, tokens, items = max(1, tally.contexts), tally.component_tokens, tally.component_items
    return [
        ComponentShare(
            name=name,
            tokens=tokens[name] / many,
            items=items.get(name, 0) / many,
            share=tokens[name] / max(1, tally.tokens),
        )
        for name in sorted(tokens, key=_place)
    ]


def _place(component: str) -> tuple[int, str]:
    """Return where a component stands: known ones in their order, then others, the frame around them last."""
    if component == "format":
        return (len(_ORDER) + 1, "")
    return (_ORDER.index(component), "") if component in _ORDER else (len(_ORDER), component)


def _memories(tally: Tally) -> MemoryFigures:
    total = sum(tally.memories.values())
    return MemoryFigures(
        total=total,
        per_context=total / max(1, tally.contexts),
        types=dict(sorted(tally.memories.items(), key=lambda each: (-each[1], each[0]))),
        relevance=tally.relevance / _BILLION / tally.rated if tally.rated else None,
    )


def _answers(tally: Tally) -> AnswerFigures:
    return AnswerFigures(
        total=tally.answers,
        reported=tally.reported,
        prompt=tally.prompt,
        cached=tally.cached,
        expected_cached=tally.expected_cached,
        completion=tally.completion,
        reasoning=tally.reasoning,
        counted=tally.counted,
        naive=tally.naive_prompt,
        count_error=tally.counted / tally.known_prompt - 1 if tally.known_prompt else None,
        seconds=tally.duration / _MILLION / tally.timed if tally.timed else None,
    )


def _model(name: str, tally: Tally) -> ModelFigures:
    return ModelFigures(model=name, contexts=tally.contexts, tokens=tally.tokens, answers=_answers(tally))


def _add_up(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        sums[name] = sums.get(name, 0) + count
