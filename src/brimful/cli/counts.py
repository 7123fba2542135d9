"""`brimful stats --counts`: what was counted beside what providers reported, and what was learned from it."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from brimful.answers import Accuracy
from brimful.cli import output
from brimful.cli.figures import percent
from brimful.cli.opened import ask_store
from brimful.cli.table import Table, columns
from brimful.core.model import Prior
from brimful.counting import WINDOW, Learned, learn_from, learned_window, observed_id, prior_of
from brimful.models import default_registry

if TYPE_CHECKING:
    from brimful.protocols import Store

NOTHING: Final = (
    "nothing was observed yet. Requests are, when a model answers through `brimful chat`, `brimful serve` or "
    "Engine.respond, or when Engine.record_response is told its usage."
)
_LARGE: Final = 0.02  # of a prompt: what an exact count should never be off by

_COLUMNS: Final = columns(
    *("model", "route", "requests", "error", "mean", "worst", "covered", "counted by", "cached", "expected"),
    *("overflows", "cuts", "last"),
    right=["requests", "error", "mean", "worst", "covered", "cached", "expected", "overflows", "cuts"],
    spare=["route", "worst", "cuts", "overflows", "expected", "cached", "last", "error"],
)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a model was counted on a route, what was learned of it, and the window that its server told."""

    accuracy: Accuracy
    learned: Learned
    window: int | None

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        learned = self.learned
        return {
            **msgspec.to_builtins(self.accuracy),
            "tokenizer": learned.model.tokenizer,
            "prior": _prior(learned.model.prior),
            "learned_from": learned.observations if learned.believed else 0,
            "believed": learned.believed,
            "learned_error": learned.error,
            "interval": learned.interval,
            "drift": msgspec.to_builtins(learned.drift),
            "learned_window": self.window,
        }


def show_counts(*, since: float | None, model: str | None, db: str, tenant: str, as_json: bool) -> None:
    """Show how well prompts were counted, by model and by server (route)."""

    async def stood(store: "Store") -> list[Standing]:
        named = None if model is None else observed_id(default_registry().resolve(model))
        found = await store.accuracy(since=since, model=named)
        return [await _standing(store, each) for each in found]

    found = ask_store(stood, db=db, tenant=tenant)
    if as_json:
        output.show_json([each.data() for each in found])
    elif not found:
        output.say(NOTHING if since is None and model is None else "nothing was observed that fits")
    else:
        output.show_table(Table(_COLUMNS, [_row(each) for each in found]))
        for note in [note for each in found for note in _notes(each)]:
            output.say(f"\n{output.one_line(note)}")


async def _standing(store: "Store", accuracy: Accuracy) -> Standing:
    observations = await store.observations(accuracy.model, accuracy.route, limit=WINDOW)
    info = default_registry().resolve(accuracy.model)
    return Standing(
        accuracy=accuracy,
        learned=learn_from(info, observations, route=accuracy.route),
        window=learned_window(observations),
    )


def _row(each: Standing) -> list[str]:
    seen = each.accuracy
    return [
        seen.model,
        seen.route,
        f"{seen.requests:,}",
        *(_shares(seen) if seen.requests else [""] * 4),
        _counted_by(each),
        percent(seen.cached / seen.reported) if seen.reported else "",
        percent(seen.expected_cached / seen.reported) if seen.reported else "",
        f"{seen.overflows:,}",
        f"{seen.cuts:,}",
        output.moment(seen.last),
    ]


def _shares(seen: Accuracy) -> list[str]:
    errors = (percent(seen.mean_error, sign=True), percent(seen.mean_absolute_error))
    return [*errors, percent(seen.worst_error, sign=True), percent(seen.covered)]


def _counted_by(each: Standing) -> str:
    """Say by what the model was counted before anything was learned, and by what it is now."""
    info = default_registry().resolve(each.accuracy.model)
    known, now = prior_of(info), prior_of(each.learned.model)
    first = info.tokenizer or f"{known.tokenizer} × {known.factor:g} ± {percent(known.margin)}"
    if not each.learned.observations or not each.learned.believed:
        return first
    return f"{first} → × {now.factor:g} ± {percent(each.learned.interval)}, from {each.learned.observations}"


def _prior(prior: Prior | None) -> dict[str, Any] | None:
    """Return a prior as a model file takes it."""
    if prior is None:
        return None
    return msgspec.structs.asdict(prior) | {"weights": dict(prior.weights), "spread": dict(prior.spread)}


def _notes(each: Standing) -> list[str]:
    """Return what a table has no place for."""
    seen, notes = each.accuracy, []
    name = f"{seen.model} on {seen.route}"
    if drift := each.learned.drift:
        notes.append(
            f"{name}: since {output.moment(drift.at)} the server counts {percent(drift.step, sign=True)} otherwise; "
            f"{drift.forgotten} older observations were set aside, and the margin is wider"
        )
    if not each.learned.believed:
        notes.append(f"{name}: nothing is learned from what the server reports: no tokenizer would count like that")
    if each.window is not None:
        notes.append(f"{name}: the server told a window of {each.window:,} tokens when it refused a prompt")
    if each.learned.model.tokenizer is not None and seen.requests and seen.mean_absolute_error > _LARGE:
        notes.append(
            f"{name}: counted by its own tokenizer, and still {percent(seen.mean_error, sign=True)} off: the server "
            "may run another model, or another chat template; see `chat_template` in docs/models.md"
        )
    return notes
