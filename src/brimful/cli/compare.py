"""`brimful diff` and `brimful replay`: compare two contexts, or rebuild past ones under other conditions."""

import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from heapq import heappush, heappushpop, nlargest
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.assembly.assemble import replay as replay_context
from brimful.cli import output
from brimful.cli.explain import locate
from brimful.cli.files import write_context
from brimful.cli.options import (
    Completion,
    Json,
    MaxPromptTokens,
    Out,
    Price,
    Settings,
    StoreOptions,
    TokenizerName,
    Window,
    model_option,
    policy_option,
    read_duration,
    read_overrides,
    resolve_model,
)
from brimful.cli.output import Table, columns, progress
from brimful.cli.records import require_room
from brimful.cli.store import with_store
from brimful.core.context import Context
from brimful.core.recall import is_erased
from brimful.errors import BudgetExceeded, EncryptionError, InvalidRecord, NotRecorded, StoreCorrupt
from brimful.records.contexts import Build
from brimful.views.explain import Change, Difference
from brimful.views.explain import diff as difference_of

if TYPE_CHECKING:
    from brimful.stores import Store


PAGE: Final = 200  # builds read at once
MAX_WORST: Final = 10  # contexts reported by id

Replay = Callable[[Context], Context]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Selects contexts by time, room and persona."""

    since: float | None = None
    room: str | None = None
    persona: str | None = None


class Loss(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What one context would lose. Tokens come first, so that the worst loss is the largest."""

    tokens: int
    items: int
    id: str


class ReplayOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of replaying many contexts under other conditions.

    Of those `replayed`, `losing` lost an item or part of one, and `gaining` gained one. Of the losing ones, `unfit`
    cannot be built, because the required content does not fit. `lost_tokens` counts what the others lost, formatting
    included. `erased`, `unreadable` and `unrecorded` contexts were not replayed: their content is gone, cannot be
    decrypted, or was never stored.
    """

    contexts: int = 0
    replayed: int = 0
    losing: int = 0
    gaining: int = 0
    unfit: int = 0
    erased: int = 0
    unreadable: int = 0
    unrecorded: int = 0
    lost_tokens: int = 0
    worst: tuple[Loss, ...] = ()
    unfit_ids: tuple[str, ...] = ()

    @property
    def mean_lost(self) -> float:
        """The average loss in tokens of the contexts that lose something and can be built."""
        return self.lost_tokens / (self.losing - self.unfit) if self.losing > self.unfit else 0.0


class ReplayTally:
    """Counts outcomes in constant memory."""

    def __init__(self) -> None:
        self._counts = Counter[str]()  # by field of the outcome
        self._worst: list[Loss] = []
        self._unfit: list[str] = []

    def missing(self, how: str) -> None:
        """Count a context that cannot be replayed: `erased`, `unreadable` or `unrecorded`."""
        self._counts.update(("contexts", how))

    def replayed(self, before: Context, replay: Replay) -> None:
        """Replay a context, and count the outcome."""
        self._counts.update(("contexts", "replayed"))
        try:
            after = replay(before)
        except BudgetExceeded:
            self._counts.update(("losing", "unfit"))
            self._unfit = sorted([*self._unfit, before.id])[:MAX_WORST]
            return
        before_costs = {each.id: each.cost for each in before.decisions if each.included}
        after_costs = {each.id: each.cost for each in after.decisions if each.included}
        shrunk = {each.id for each in after.decisions if each.outcome == "shrunk"}
        lost = [
            cost - after_costs.get(id, 0)
            for id, cost in before_costs.items()
            if id not in after_costs or (id in shrunk and after_costs[id] < cost)
        ]
        if after_costs.keys() - before_costs.keys():
            self._counts["gaining"] += 1
        if lost:
            self._counts.update(losing=1, lost_tokens=sum(lost))
            self._remember(Loss(tokens=sum(lost), items=len(lost), id=before.id))

    def outcome(self) -> ReplayOutcome:
        worst = tuple(nlargest(MAX_WORST, self._worst))
        return ReplayOutcome(**self._counts, worst=worst, unfit_ids=tuple(self._unfit))

    def _remember(self, loss: Loss) -> None:
        if len(self._worst) < MAX_WORST:
            heappush(self._worst, loss)
        else:
            heappushpop(self._worst, loss)


async def iter_builds(store: "Store", span: Span) -> AsyncIterator[Build]:
    """Yield the builds of a span, newest first."""
    before: int | None = None
    while page := await store.builds(room=span.room, persona=span.persona, since=span.since, before=before, limit=PAGE):
        for build in page:
            yield build
        before = page[-1].number


async def select_contexts(store: "Store", span: Span, sample: int | None) -> tuple[int, list[str] | None]:
    """Return the number of contexts to replay and their ids; None means all of them.

    A sample is chosen by a hash of the ids, so it is the same every time.
    """
    count, sampled = 0, list[tuple[int, str]]()
    async for build in iter_builds(store, span):
        count += 1
        if sample is not None:
            push = heappush if len(sampled) < sample else heappushpop
            digest = hashlib.blake2b(build.id.encode(), digest_size=8).digest()
            push(sampled, (-int.from_bytes(digest, "big"), build.id))
    if sample is None or count <= sample:
        return count, None
    return sample, [id for _, id in sorted(sampled, reverse=True)]


async def replay_all(
    store: "Store", span: Span, ids: list[str] | None, replay: Replay, on_progress: Callable[[int], None]
) -> ReplayOutcome:
    """Replay contexts one after the other, and report progress."""
    tally, done = ReplayTally(), 0
    async for id in _iter_ids(store, span, ids):
        try:
            snapshot = await store.snapshot(id)
        except (EncryptionError, StoreCorrupt, InvalidRecord):
            tally.missing("unreadable")
        except NotRecorded:
            tally.missing("unrecorded")
        else:
            if snapshot is not None:  # or it was removed a moment ago
                _replay_one(tally, snapshot.context, replay)
        done += 1
        on_progress(done)
    return tally.outcome()


def _replay_one(tally: ReplayTally, context: Context, replay: Replay) -> None:
    if any(map(is_erased, context.inputs.packages)):
        tally.missing("erased")
    else:
        tally.replayed(context, replay)


async def _iter_ids(store: "Store", span: Span, ids: list[str] | None) -> AsyncIterator[str]:
    if ids is None:
        async for build in iter_builds(store, span):
            yield build.id
    else:
        for id in ids:
            yield id


DIFF_EXAMPLES: Final = """\
Examples:
  brimful diff before.json after.json
  brimful diff ctx-81c2f4d19a05b7e36c1f88aa msg-0007
  brimful diff before.json after.json --json | jq .prefix_share"""

REPLAY_EXAMPLES: Final = """\
Examples:
  brimful replay context.json
  brimful replay ctx-81c2f4d19a05b7e36c1f88aa --model gpt-4 --completion 1000
  brimful replay context.json -p window --set pools.recent.max_items=20 --out b.json
  brimful replay --last 24h --window 32000
  brimful replay --last 7d --persona nova --model gpt-4o-mini --sample 500"""

_CHANGE_COLUMNS: Final = columns(
    "change", "id", "before", "after", "tokens", right=["tokens"], spare=["tokens", "before"]
)
_WORST_COLUMNS: Final = columns("lost tokens", "candidates", "context", right=["lost tokens", "candidates"])


def register(app: typer.Typer) -> None:
    app.command("diff", epilog=DIFF_EXAMPLES)(diff)
    app.command("replay", epilog=REPLAY_EXAMPLES)(replay)


def diff(
    *,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A context: a file, or an id in the store.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The context to compare it with.")],
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Compare two contexts.

    Shows which candidates entered, left or changed, and how much of the start
    of the request is identical, since a provider's prompt cache can reuse it.
    A context is a file, or the id of a context or message in the store.
    """
    found = [locate(name, target=target).context for name in (before, after)]
    _show_difference(*found, as_json=as_json)


def replay(  # noqa: PLR0913 - the options of a command
    *,
    context: Annotated[
        str | None, typer.Argument(metavar="CONTEXT", help="A file, `-` for standard input, or an id in the store.")
    ] = None,
    last: Annotated[
        float | None,
        typer.Option(
            "--last",
            metavar="TIME",
            parser=read_duration,
            help="Replay all contexts of a recent period, such as 90m, 24h or 7d.",
        ),
    ] = None,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="With --last: only in this room.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="With --last: only for this persona.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="N", min=1, help="With --last: replay a sample of N contexts.")
    ] = None,
    model: Annotated[str | None, model_option("Replay for this model.")] = None,
    tokenizer: TokenizerName = None,
    policy: Annotated[str | None, policy_option("Replay with this policy.")] = None,
    window: Window = None,
    completion: Completion = None,
    max_prompt_tokens: MaxPromptTokens = None,
    price: Price = None,
    settings: Settings = None,
    out: Out = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Rebuild past contexts, optionally with another model, window or policy.

    A replay needs nothing but the saved context. Without options, the result
    is identical. With --last, all contexts of a period are rebuilt, and you
    see how many would lose something, how much, and how many would not fit.
    """
    if context is None and last is None:
        raise typer.BadParameter("name a context, or use --last for all of a period", param_hint="CONTEXT")
    if context is not None and last is not None:
        raise typer.BadParameter("cannot be combined with --last", param_hint="CONTEXT")
    alone = {"--room": room, "--persona": persona, "--sample": sample} if last is None else {"--out": out}
    if invalid := [name for name, value in alone.items() if value is not None]:
        reason = "can only be used with --last" if last is None else "cannot be combined with --last"
        raise typer.BadParameter(reason, param_hint=f"'{invalid[0]}'")
    again = partial(
        replay_context,
        model=None if model is None else resolve_model(model),
        tokenizer=tokenizer,
        policy=policy,
        window=window,
        completion=completion,
        max_prompt_tokens=max_prompt_tokens,
        overrides=read_overrides(settings, price),
    )
    if context is not None:
        before = locate(context, target=target).context
        after = again(before)
        write_context(out, after)
        _show_difference(before, after, as_json=as_json)
        return

    span = Span(since=time.time() - (last or 0.0), room=room, persona=persona)
    _show_outcome(_replay_span(span, again, sample, target=target, quiet=as_json), as_json=as_json)


def _replay_span(
    span: "Span", again: "Replay", sample: int | None, *, target: StoreOptions, quiet: bool
) -> "ReplayOutcome":

    async def run(store: "Store") -> "ReplayOutcome":
        total, ids = await select_contexts(store, span, sample)
        if not total:
            await require_room(store, span.room)
        with progress("replaying", total, quiet=quiet, unit="contexts") as advance:
            return await replay_all(store, span, ids, again, advance)

    return with_store(run, target=target)


def _show_outcome(outcome: "ReplayOutcome", *, as_json: bool) -> None:
    if as_json:
        output.show_json(msgspec.structs.asdict(outcome) | {"mean_lost": round(outcome.mean_lost, 1)})
        return
    if not outcome.contexts:
        output.write("no contexts in this period")
        return
    output.show_fields(_outcome_fields(outcome))
    if outcome.worst:
        output.write("\nworst losses")
        rows = [[f"{loss.tokens:,}", f"{loss.items:,}", loss.id] for loss in outcome.worst]
        output.show_table(Table(_WORST_COLUMNS, rows))


def _outcome_fields(outcome: "ReplayOutcome") -> Iterator[tuple[str, str]]:
    def share(count: int) -> str:
        return f"{count:,} ({count / outcome.replayed:.1%})" if outcome.replayed else f"{count:,}"

    yield "contexts", f"{outcome.contexts:,}"
    yield "replayed", f"{outcome.replayed:,}"
    yield "lose something", share(outcome.losing)
    yield "gain something", share(outcome.gaining)
    worst = outcome.worst[0].tokens if outcome.worst else 0
    yield "tokens lost", f"{outcome.mean_lost:,.0f} on average, {worst:,} at worst" if outcome.losing else "none"
    ids = f": {', '.join(outcome.unfit_ids)}" if outcome.unfit_ids else ""
    yield "would not fit", share(outcome.unfit) + ids
    yield "erased", f"{outcome.erased:,}, not replayed" if outcome.erased else ""
    yield "unreadable", f"{outcome.unreadable:,}, not replayed" if outcome.unreadable else ""
    yield "unrecorded", f"{outcome.unrecorded:,}, not replayed" if outcome.unrecorded else ""


def _show_difference(before: Context, after: Context, *, as_json: bool) -> None:
    difference = difference_of(before, after)
    if as_json:
        output.show_json(difference)
        return
    output.show_fields(_difference_fields(before, after, difference))
    rows = [_row(name, change) for name, change in _changes(difference)]
    if rows:
        output.write()
        output.show_table(Table(_CHANGE_COLUMNS, rows))


def _difference_fields(before: Context, after: Context, difference: Difference) -> Iterator[tuple[str, str]]:
    a, b = before.budget, after.budget
    yield "context", _format_change(before.id, after.id)
    yield "model", _format_change(a.model, b.model)
    yield "policy", _format_change(a.policy, b.policy)
    yield "window", _format_change(f"{a.window:,}", f"{b.window:,}")
    yield "reserved", _format_change(f"{a.reserved:,}", f"{b.reserved:,}")
    more = difference.tokens_after - difference.tokens_before
    tokens = _format_change(f"{difference.tokens_before:,}", f"{difference.tokens_after:,}")
    yield "tokens", f"{tokens} ({more:+,})" if more else tokens
    yield "same prefix", f"{difference.common_prefix:,} bytes, {difference.prefix_share:.1%} of the request"
    counts = (difference.entered, difference.left, difference.changed)
    yield "candidates", "{} entered, {} left, {} changed".format(*(f"{len(changes):,}" for changes in counts))


def _format_change(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _changes(difference: Difference) -> Iterator[tuple[str, Change]]:
    for name in ("entered", "left", "changed"):
        for change in getattr(difference, name):
            yield name, change


def _row(name: str, change: Change) -> list[str]:
    before, after = (
        _format_outcome(change.before, change.before_reason, change.before_form),
        _format_outcome(change.after, change.after_reason, change.after_form),
    )
    return [name, change.id, before, after, f"{change.tokens:,}"]


def _format_outcome(outcome: str | None, reason: str | None, form: str | None) -> str:
    shown = "" if form in (None, "full") else f" ({form})"
    return f"{outcome}: {reason}{shown}" if outcome else "not a candidate"
