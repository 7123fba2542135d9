"""Schemas of the inspector's responses, and their construction from stored records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text, ToolCall, ToolResult
from brimful.core.context import Component, Context
from brimful.core.decision import Decision, FormName, Outcome, Reason, Score
from brimful.core.labels import without_reminders
from brimful.core.notice import Notice
from brimful.core.prompt import Prompt
from brimful.core.selection import PoolUse
from brimful.engine.absence import AbsenceReason
from brimful.errors import InvalidRequest, InvalidValue, MissingExtra
from brimful.models.costs import Spending, spending, usage_cost
from brimful.models.registry import Registry
from brimful.packagers.records import plain_text
from brimful.providers.directory import DEFAULT_KEY_VARIABLE, find_server_by_maker
from brimful.records import Content, Persona, Response, Room, Snapshot, Usage
from brimful.records.contexts import AgentRun, Build, Feedback
from brimful.records.statistics import Statistics
from brimful.sessions.events import is_from_user
from brimful.stores import Store
from brimful.threads import run_in_thread
from brimful.views.explain import DecisionLines
from brimful.views.picture import Band, band_name, window_bands
from brimful.wires import renderer_of

ItemStatus = Literal["", "removed", "erased"]
"""What happened to a candidate later."""
EXCERPT_LENGTH: Final = 200  # characters
MAX_ANSWERS: Final = 20  # of one context
MAX_TEXT: Final = 5_000  # characters of an item's text

T = TypeVar("T", bound=msgspec.Struct)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A response."""


# -- contexts --------------------------------------------------------------------------------------------------------


def to_view(kind: type[T], /, *sources: object, **more: Any) -> T:
    """Return a view. Each of its fields is in `more`, or an attribute of a source: of the first one that has it."""
    names = [name for name in kind.__struct_fields__ if name not in more]
    owners = ((name, next((each for each in sources if hasattr(type(each), name)), None)) for name in names)
    return kind(**{name: getattr(owner, name) for name, owner in owners if owner is not None}, **more)


class RunView(View, frozen=True, kw_only=True):
    """The contexts that were built for one task, and what their answers used: an agent's run, or one turn of a chat.

    It is the id of its first context, and has as many `steps` as contexts. `begin` and `end` are the times of its first
    and its last event. `prompt` includes `cached` tokens. `cost` is in US dollars, null if no price is known.
    `warnings` counts the warnings of all contexts.
    """

    id: str
    steps: int
    begin: float
    end: float
    models: tuple[str, ...]
    prompt: int
    cached: int
    completion: int
    cost: float | None
    warnings: int
    degraded: int


class RunPlace(View, frozen=True, kw_only=True):
    """The place of a context in its run: its number from 1, how many there are, and those before and after it."""

    id: str
    step: int
    steps: int
    previous: str | None
    next: str | None


class ContextRow(View, frozen=True, kw_only=True):
    """A context in a list. `number` is its increasing position in the log.

    `room_name` and `persona_name` are empty if they have no name or no longer exist. `question` and `answer` are the
    beginnings of the message and of its newest answer, empty if they are not stored. `prompt` are the prompt tokens of
    that answer, `cached` those that the provider took from its cache, and `expected_cached` those that it could have
    taken, because the request begins like the one before it. All are null if no usage was reported. `cost` is in US
    dollars, null if the price is unknown. `feedback` is that on its answers. If it is not `recorded`, the list is all
    that there is of it.

    While a model calls tools, `question` is the task that it works on. `lines` of what was left out are in the ledger
    of an agent's steps, with a line each. `run` is null if it was removed meanwhile.
    """

    number: int
    id: str
    room: str
    room_name: str
    persona: str | None
    persona_name: str
    user: str | None
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
    lines: int
    warnings: tuple[Notice, ...]
    degraded: tuple[Notice, ...]
    recorded: bool
    run: RunView | None
    question: str
    answer: str
    prompt: int | None
    cached: int | None
    expected_cached: int | None
    cost: float | None
    seconds: float | None
    feedback: Feedback | None = None


class ContextList(View, frozen=True, kw_only=True):
    """Contexts, newest first. Pass `next` as `before` to get older ones; it is null on the last page."""

    contexts: tuple[ContextRow, ...]
    next: int | None


class DecisionView(View, frozen=True, kw_only=True, gc=False):
    """The decision about one candidate.

    `component` is the band it belongs to if included. `position` is its index in the request, null if not included.
    `excerpt` is the beginning of its text. `form` says how much of it the model sees; `larger` and `smaller` are the
    costs of the next larger and smaller form. `size` is the count of all of it, `tokens` that of its form.
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
    position: int | None
    form: FormName
    larger: int
    smaller: int
    size: int


class AnswerView(View, frozen=True, kw_only=True):
    """The answer to a context: finish reason, duration, reported usage and cost.

    `expected_cached` are the tokens expected in the prompt cache; `notices` report problems. `cost` is in US dollars,
    null if no price is known. `upstream` is the name of the one that the proxy sent the request to. `message` is the id
    of the answer in its room, and `text` its text if that is stored. Live events have the beginning of the text.
    """

    id: str
    context: str
    room: str
    message: str | None
    at: float
    model: str
    route: str
    upstream: str = ""
    finish: str
    seconds: float | None
    usage: Usage | None
    expected_cached: int
    cost: float | None
    notices: tuple[Notice, ...]
    feedback: Feedback | None
    text: str = ""


class AnswerEvent(AnswerView, frozen=True, kw_only=True):
    """An answer that just arrived, and the run of its context; null if that was removed."""

    run: RunView | None


class PromptPart(View, frozen=True, kw_only=True):
    """A message of the request."""

    role: str
    excerpt: str
    characters: int


class Endpoint(View, frozen=True, kw_only=True):
    """Where a request can be sent: its format, and the model's own server with the variable of its API key.

    `url` is empty if the model has no server of its own.
    """

    wire: str
    url: str
    key: str


class ContextView(View, frozen=True, kw_only=True):
    """A context. `report` is readable text; the request has an endpoint of its own.

    `hard_limit` is the maximum size of a prompt, `available` what was planned for, `reserved` the rest of the window,
    and `remaining` the unused part of `available`, negative if the margin was used. `price` is the score that 1,000
    tokens have to be worth. `run` is null for a context that is not stored.
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
    endpoint: Endpoint
    policy: str
    price: float
    focus: str
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
    kinds: tuple[Component, ...]
    pools: tuple[PoolUse, ...]
    prompt: tuple[PromptPart, ...]
    decisions: tuple[DecisionView, ...]
    answers: tuple[AnswerView, ...]
    run: RunPlace | None
    report: str


class ItemBuild(View, frozen=True, kw_only=True):
    """The decision about an item in one context."""

    id: str
    at: float
    outcome: str
    reason: str


class AbsenceView(View, frozen=True, kw_only=True):
    """Why a memory, a message or a lorebook entry was not a candidate, and how to `fix` that.

    `relevance` is what search gives it for the question now; null if search does not find it, or was not the reason.
    """

    kind: str
    reason: AbsenceReason
    why: str
    fix: str
    relevance: float | None


class Remedy(View, frozen=True, kw_only=True):
    """A change with which the context includes an item that it left out. It was tried.

    - `window`: a window of that many tokens.
    - `price`: a lower price of tokens, by its name.
    - `pin`: pin the item. A message would have to be saved as a memory.

    `tokens` is what the item costs then, and `left` how many others are left out for it.
    """

    change: Literal["window", "price", "pin"]
    window: int | None = None
    price: str | None = None
    tokens: int
    left: int


class MemoryState(View, frozen=True, kw_only=True):
    """The owners of a memory, and whether it is pinned now."""

    persona: str | None
    user: str | None
    room: str | None
    pinned: bool


class ItemView(View, frozen=True, kw_only=True):
    """One item, with the decisions in the last contexts.

    `decision` is null if it was not a candidate, and `absence` if it was. `remedies` are changes that would include
    it. `memory` is the state of a memory now, null if it is none or was removed. `text` is the beginning of a long
    text, which has this many `characters`; recall the rest by its `handle`. `seen` is what the model saw of a shortened
    item, and else empty. `required_window` is the window in which it would be included, null if no window helps.
    `status` is `removed` if it was removed from the store later, `erased` if it was also erased from this record, and
    else empty.
    """

    decision: DecisionView | None = None
    absence: AbsenceView | None = None
    remedies: tuple[Remedy, ...] = ()
    memory: MemoryState | None = None
    status: ItemStatus = ""
    text: str
    characters: int
    seen: str = ""
    handle: str = ""
    metadata: dict[str, Any] = {}
    required_window: int | None = None
    builds: tuple[ItemBuild, ...] = ()


# -- comparisons -----------------------------------------------------------------------------------------------------


class ChangeView(View, frozen=True, kw_only=True, gc=False):
    """A candidate whose decision differs between two contexts; null in the one in which it was no candidate.

    The forms say how much of it the model sees; null if it sees nothing. `tokens` is what it takes with its label.
    `relevance` is that of the later context; null if no search gave it one.
    """

    id: str
    kind: str
    before: Outcome | None
    after: Outcome | None
    before_reason: Reason | None
    after_reason: Reason | None
    before_form: FormName | None
    after_form: FormName | None
    tokens: int
    relevance: float | None
    excerpt: str


class Exceeded(View, frozen=True, kw_only=True):
    """The required items do not fit. `required` lists the largest ones."""

    needed: int
    limit: int
    message: str
    required: tuple[tuple[str, int], ...]


class WhatIf(View, frozen=True, kw_only=True):
    """The new context and its changes; or `exceeded`, with `context` null.

    Excerpts, prompt and names are left out, since the original context has them.
    """

    context: ContextView | None
    exceeded: Exceeded | None
    entered: tuple[ChangeView, ...]
    left: tuple[ChangeView, ...]
    changed: tuple[ChangeView, ...]
    prefix_share: float


class AnsweredAgain(View, frozen=True, kw_only=True):
    """The answer to a context with other settings. Nothing of it is stored.

    `tokens` is our own count of the prompt, and `usage` what the provider reported. `calls` are tools that the model
    called. `cost` is in US dollars, null if the price is unknown.
    """

    text: str
    calls: tuple[ToolCall, ...]
    model: str
    route: str
    finish: str
    seconds: float
    tokens: int
    usage: Usage | None
    cost: float | None


class ComparedPart(PromptPart, frozen=True, kw_only=True):
    """A message of the later request. `same` means that both requests are identical up to its end."""

    same: bool


class DiffView(View, frozen=True, kw_only=True):
    """Two contexts compared. `common_prefix` is the number of identical bytes at the start of the requests."""

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
    """An available model."""

    id: str
    provider: str
    window: int
    max_output: int
    max_input: int | None


class ModelList(View, frozen=True, kw_only=True):
    """All known models by name.

    `default` is the one used for counting unless another is given: that of the newest context. `upstreams` are
    the names of the servers to which the proxy forwards requests.
    """

    models: tuple[ModelRow, ...]
    default: str
    upstreams: tuple[str, ...]


class PolicyRow(View, frozen=True, kw_only=True):
    """An available policy and its pools."""

    name: str
    description: str
    pools: tuple[str, ...]


class PolicyList(View, frozen=True, kw_only=True):
    """All available policies."""

    policies: tuple[PolicyRow, ...]


class TextCount(View, frozen=True, kw_only=True):
    """The number of tokens of a text, and how exact it is."""

    tokens: int
    basis: str


class DisplayNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names of rooms and personas by id, without those that have none."""

    rooms: dict[str, str] = {}
    personas: dict[str, str] = {}

    def room(self, id: str) -> str:
        """Return the name of a room, or an empty string."""
        return self.rooms.get(id, "")

    def persona(self, id: str | None) -> str:
        """Return the name of a persona, or an empty string."""
        return "" if id is None else self.personas.get(id, "")


async def load_names(store: Store, contexts: Iterable[Build | Snapshot]) -> DisplayNames:
    """Look up the names of all rooms and personas of some contexts."""
    every = list(contexts)
    return DisplayNames(
        rooms=await _load_names(store, Room, {each.room for each in every}),
        personas=await _load_names(store, Persona, {each.persona for each in every if each.persona is not None}),
    )


async def _load_names(store: Store, kind: type[Room] | type[Persona], ids: Iterable[str]) -> dict[str, str]:
    records = {id: await store.get(kind, id) for id in ids}
    return {id: record.name for id, record in records.items() if record is not None and record.name}


class Costs:
    """Looks up the costs of answers."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer_view(self, response: Response, text: str = "") -> AnswerView:
        upstream = str(response.metadata.get("upstream", ""))
        return to_view(AnswerView, response, text=text, cost=self.cost(response), upstream=upstream)

    def cost(self, response: Response) -> float | None:
        """Return the cost in US dollars, if the usage and the price are known."""
        if response.usage is None or not response.model:
            return None
        try:
            cost = usage_cost(self._registry.resolve(response.model), response.usage, response.at)
        except (MissingExtra, InvalidValue):  # prices are an extra, and reported usage may be invalid
            return None
        return None if cost is None else float(cost)

    def run_view(self, run: AgentRun) -> RunView:
        statistics = run.statistics
        spent = find_spending(statistics)
        return to_view(
            RunView,
            run,
            statistics.answers,
            steps=statistics.contexts,
            models=tuple(each.model for each in statistics.models),
            cost=None if spent is None else float(spent.cost),
            warnings=sum(statistics.warnings.values()),
            degraded=statistics.degraded,
        )


def find_spending(statistics: Statistics) -> Spending | None:
    """Return what answers cost, if prices are installed and known."""
    try:
        return spending(statistics.models)
    except MissingExtra:  # prices are an extra
        return None


async def load_runs(store: Store, ids: Iterable[str], costs: Costs) -> dict[str, RunView]:
    """Return runs by id."""
    runs = await store.agent_runs(ids)
    return await run_in_thread(lambda: {id: costs.run_view(run) for id, run in runs.items()})


async def load_rows(store: Store, builds: Sequence[Build], costs: Costs) -> tuple[ContextRow, ...]:
    """Return builds as rows of a list, with what was asked and answered."""
    if not builds:
        return ()
    names = await load_names(store, builds)
    ids = [build.id for build in builds]
    responses = await store.responses(contexts=ids, limit=MAX_ANSWERS * len(builds))
    answers = {each.context: each for each in reversed(responses)}
    texts = await load_excerpts(store, [each.message for each in responses])
    questions = await load_questions(store, builds)
    runs = await load_runs(store, [build.run for build in builds], costs)
    prices = await run_in_thread(lambda: {id: costs.cost(answer) for id, answer in answers.items()})
    feedback = {each.context: each.feedback for each in reversed(responses) if each.feedback is not None}
    return tuple(
        _context_row(
            build,
            names,
            answers.get(build.id),
            texts,
            question=make_excerpt(questions.get(build.id, "")),
            run=runs.get(build.run),
            cost=prices.get(build.id),
            feedback=feedback.get(build.id),
        )
        for build in builds
    )


async def load_questions(store: Store, builds: Sequence[Build]) -> dict[str, str]:
    """Return what the user wrote in the messages that contexts answer, by context: while tools run, of the task."""
    messages = {each.id: each.message for each in builds if each.message is not None and not each.calls}
    stored = {each.id: each.content for each in await store.messages(list(messages.values()))}
    asked = {id: [stored[message]] for id, message in messages.items() if message in stored}
    others = {each.id: [each.question] for each in builds if each.id not in asked and each.question is not None}
    asked |= await store.candidate_contents(others)
    return {id: users_words(content) for id, [content] in asked.items()}


def users_words(content: Content) -> str:
    """Return what the user wrote in a message, without the texts that programs of agents add to it."""
    texts = [content] if isinstance(content, str) else [plain_text((part,)) for part in content]
    words = [each for text in texts if is_from_user(each := without_reminders(text).strip())]
    return "\n".join(words) or plain_text(content)


def _context_row(
    build: Build, names: DisplayNames, answer: Response | None, texts: Mapping[str, str], **more: Any
) -> ContextRow:
    usage = None if answer is None else answer.usage
    return to_view(
        ContextRow,
        build,
        room_name=names.room(build.room),
        persona_name=names.persona(build.persona),
        answer="" if answer is None else texts.get(answer.message or "", ""),
        prompt=None if usage is None else usage.prompt,
        cached=None if usage is None else usage.cached,
        seconds=None if answer is None else answer.seconds,
        expected_cached=None if usage is None or answer is None else answer.expected_cached,
        **more,
    )


async def load_excerpts(store: Store, messages: Iterable[str | None]) -> dict[str, str]:
    """Return the beginnings of messages by id, without those that are not stored."""
    found = await store.messages([id for id in messages if id])
    return {message.id: make_excerpt(plain_text(message.content)) for message in found}


def context_view(
    snapshot: Snapshot,
    *,
    number: int | None = None,
    answers: Iterable[AnswerView] = (),
    names: DisplayNames = DisplayNames(),  # noqa: B008 - frozen
    run: RunPlace | None = None,
    brief: bool = False,
) -> ContextView:
    """Return the view of a context; `brief` leaves out texts."""
    context = snapshot.context
    return to_view(
        ContextView,
        *(snapshot, context, context.budget, context.inputs),
        number=number,
        room_name=names.room(snapshot.room),
        persona_name=names.persona(snapshot.persona),
        model=context.inputs.model.id,
        endpoint=_endpoint(context),
        policy=context.inputs.policy.name,
        price=context.inputs.policy.price,
        basis=context.verification.basis,
        candidates=context.offered,
        bands=tuple(window_bands(context)),
        prompt=() if brief else tuple(prompt_parts(context)),
        decisions=decision_views(context, brief=brief),
        answers=tuple(answers),
        run=run,
        report=context.report(),
    )


def _endpoint(context: Context) -> Endpoint:
    inputs = context.inputs
    wire = inputs.frame.wire if inputs.frame is not None and inputs.frame.messages else inputs.model.wire
    server = find_server_by_maker(inputs.model.provider)
    if server is None:
        return Endpoint(wire=wire, url="", key=DEFAULT_KEY_VARIABLE)
    return Endpoint(wire=wire, url=server.url, key=next(iter(server.keys), ""))


def decision_views(context: Context, *, brief: bool = False) -> tuple[DecisionView, ...]:
    """Return the decisions in the order of the record."""
    packages, lines = packages_by_id(context), DecisionLines(context)
    return tuple(_decision_view(lines, each, packages[each.id], brief=brief) for each in context.decisions)


def packages_by_id(context: Context) -> dict[str, ContentPackage]:
    return {package.id: package for package in context.candidates}


def prompt_parts(context: Context) -> list[PromptPart]:
    """Return the messages of the request; none if something in it was erased."""
    return [
        PromptPart(role=message.role, excerpt=make_excerpt(text), characters=len(text))
        for message in parse_request(context).messages
        for text in [content_text(message.parts)]
    ]


def parse_request(context: Context) -> Prompt:
    try:
        return renderer_of(context.inputs).parse(context.request)
    except InvalidRequest:  # incomplete since something was erased
        return Prompt(model=context.inputs.model.id, messages=())


def content_text(content: str | Sequence[Part]) -> str:
    """Return content as readable text."""
    return content if isinstance(content, str) else "\n".join(_part_text(part) for part in content)


def make_excerpt(text: str) -> str:
    r"""Return the beginning of a text on one line.

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
        position=decision.position,
        form=decision.form,
        larger=decision.larger,
        smaller=decision.smaller,
        size=package.tokens.tokens,
    )
