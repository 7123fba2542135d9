"""Costs of requests and total spending, from the price list in genai-prices (the extra `prices`). Works offline."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.errors import InvalidValue, MissingExtra
from brimful.models.files import default_registry

if TYPE_CHECKING:
    from brimful.records import Usage
    from brimful.records.statistics import ModelStatistics, ResponseStatistics

_PROVIDER_NAMES: Final = {"xai": "x-ai"}
"""Providers that have another name in genai-prices."""
_MAX_TIME: Final = 6e10  # seconds: about the year 3871, well within what a datetime holds


class RequestCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a request in US dollars, with the prices of the day `as_of`."""

    prompt: Decimal
    completion: Decimal
    total: Decimal
    source: str
    as_of: str


def request_cost(
    model: ModelInfo,
    prompt_tokens: int,
    completion_tokens: int = 0,
    cached_tokens: int = 0,
    *,
    at: datetime | None = None,
) -> RequestCost | None:
    """Return the cost of a request, or None if it is unknown or the model runs on your own hardware.

    `prompt_tokens` includes `cached_tokens`, as OpenAI reports them. Anthropic reports cached tokens separately.
    `at` selects the prices of another time.
    """
    _check_tokens(prompt_tokens, completion_tokens, cached_tokens)
    if model.wire == "ollama":
        return None
    when = at or datetime.now(tz=UTC)
    usage = {"input_tokens": prompt_tokens, "output_tokens": completion_tokens, "cache_read_tokens": cached_tokens}
    for provider, name in _names_in_list(model):
        if (found := _look_up(provider, name, usage, when)) is not None:
            return found
    return None


def usage_cost(model: ModelInfo, usage: "Usage", at: float) -> Decimal | None:
    """Return the cost of reported usage at the prices of that time; None if it is unknown."""
    when = datetime.fromtimestamp(at, UTC) if 0 < at < _MAX_TIME else None
    found = request_cost(model, usage.prompt, usage.completion, min(usage.cached, usage.prompt), at=when)
    return None if found is None else found.total


def _names_in_list(model: ModelInfo) -> tuple[tuple[str, str], ...]:
    """Return where to look in the price list: at the host in the model's name, then at its maker."""
    host, _, name = model.id.partition("/")
    maker = (_PROVIDER_NAMES.get(model.provider, model.provider), model.canonical or model.id)
    return ((host, name), maker) if name else (maker,)


def _look_up(provider: str, name: str, usage: dict[str, int], when: datetime) -> RequestCost | None:
    genai_prices = load_prices()
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(**usage), name, provider_id=provider, genai_request_timestamp=when
        )
    except (LookupError, ValueError):  # unknown provider or model, or no price for this kind of token
        return None
    return RequestCost(
        prompt=found.input_price,
        completion=found.output_price,
        total=found.total_price,
        source=f"genai-prices {genai_prices.__version__}: {found.provider.id}/{found.model.id}",
        as_of=when.date().isoformat(),
    )


def load_prices() -> Any:
    """Return the library with the price list."""
    try:
        import genai_prices  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("prices", "the cost of a request") from error
    return genai_prices


def _check_tokens(prompt: int, completion: int, cached: int) -> None:
    for field, value in (("prompt_tokens", prompt), ("completion_tokens", completion), ("cached_tokens", cached)):
        if type(value) is not int or value < 0:
            raise InvalidValue(field, f"must be a non-negative integer, not {value!r}")
    if cached > prompt:
        raise InvalidValue(
            "cached_tokens", f"must not exceed prompt_tokens ({prompt:,}), which include them, but is {cached:,}"
        )


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of answers and summaries in US dollars, from the usage that providers reported.

    `saved` is what all excluded content would have cost in addition, uncached. `saved_by_cache` is the discount
    of the providers' caches. Answers of `unpriced` models are not included.
    """

    cost: Decimal = Decimal(0)
    saved: Decimal = Decimal(0)
    saved_by_cache: Decimal = Decimal(0)
    unpriced: tuple[str, ...] = ()

    @property
    def naive(self) -> Decimal:
        """The cost of sending everything, without any cache."""
        return self.cost + self.saved + self.saved_by_cache


def spending(models: "Sequence[ModelStatistics]") -> Spending | None:
    """Return the cost of these models' answers and summaries, or None if no price is known."""
    found = [
        (each.model, _spending_on_answers(each.model, answers))
        for each in models
        for answers in (each.answers, each.summaries)
        if answers.reported
    ]
    priced = [each for _, each in found if each is not None]
    if not priced:
        return None
    return Spending(
        cost=sum((each.cost for each in priced), Decimal(0)),
        saved=sum((each.saved for each in priced), Decimal(0)),
        saved_by_cache=sum((each.saved_by_cache for each in priced), Decimal(0)),
        unpriced=tuple(dict.fromkeys(name for name, each in found if each is None)),
    )


def _spending_on_answers(model: str, answers: "ResponseStatistics") -> Spending | None:
    """Charge all tokens at the rates of the mean request, because some prices depend on the prompt's length."""
    info = default_registry().resolve(model)
    more = max(0, answers.naive - answers.counted)
    prompt, longer = _mean_tokens(answers, answers.prompt), _mean_tokens(answers, answers.prompt + more)
    plain, cached = request_cost(info, prompt, 1), request_cost(info, prompt, 0, prompt)
    everything = request_cost(info, longer)
    if plain is None or cached is None or everything is None:
        return None
    rate, cached_rate = plain.prompt / prompt, cached.prompt / prompt
    by_cache = (rate - cached_rate) * min(answers.cached, answers.prompt)
    return Spending(
        cost=rate * answers.prompt - by_cache + plain.completion * answers.completion,
        saved=everything.prompt / longer * (answers.prompt + more) - rate * answers.prompt,
        saved_by_cache=by_cache,
    )


def _mean_tokens(answers: "ResponseStatistics", total: int) -> int:
    return max(1, round(total / answers.reported))
