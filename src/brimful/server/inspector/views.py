"""What the inspector is told: the form of each answer of its API, as JSON and in the description."""

from typing import Any, Literal

import msgspec

from brimful.core.bands import Band
from brimful.core.context import Component
from brimful.core.decision import Outcome, Reason
from brimful.core.score import Score
from brimful.core.verdict import PoolUse
from brimful.records import Usage

Since = Literal["", "removed", "erased"]
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
    warnings: tuple[str, ...]
    degraded: tuple[str, ...]


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
    notes: tuple[str, ...]


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
    warnings: tuple[str, ...]
    degraded: tuple[str, ...]
    components: tuple[Component, ...]
    bands: tuple[Band, ...]
    pools: tuple[PoolUse, ...]
    prompt: tuple[PromptPart, ...]
    decisions: tuple[DecisionView, ...]
    answers: tuple[AnswerView, ...]
    report: str


class Fate(View, frozen=True, kw_only=True):
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
    since: Since
    text: str
    metadata: dict[str, Any]
    window_for: int | None
    builds: tuple[Fate, ...]


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
