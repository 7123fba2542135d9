"""Prices of requests and total spending, from the price list in genai-prices (the extra `prices`). Works offline."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.errors import InvalidValue, MissingExtra
from brimful.models.files import default_registry

if TYPE_CHECKING:
    from brimful.records.statistics import ModelStatistics, ResponseStatistics

_PROVIDER_NAMES: Final = {"xai": "x-ai"}
"""Our names of makers, where genai-prices has another."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars for the prompt, for the completion, and for both; `as_of` is the day whose prices were asked for."""

    prompt: Decimal
    completion: Decimal
    total: Decimal
    source: str
    as_of: str


def price(
    model: ModelInfo,
    prompt_tokens: int,
    completion_tokens: int = 0,
    cached_tokens: int = 0,
    *,
    at: datetime | None = None,
) -> Price | None:
    """Return the price of a request, or None where it is not known (or there is none: a model of one's own).

    `prompt_tokens` includes `cached_tokens`, as OpenAI counts them; Anthropic reports the cached ones beside the rest.
    Prices change: `at` asks for those of another time than now.
    """
    _check_tokens(prompt_tokens, completion_tokens, cached_tokens)
    if model.wire == "ollama":
        return None
    when = at or datetime.now(tz=UTC)
    usage = {"input_tokens": prompt_tokens, "output_tokens": completion_tokens, "cache_read_tokens": cached_tokens}
    for provider, name in _price_candidates(model):
        if (found := _look_up_price(provider, name, usage, when)) is not None:
            return found
    return None


def _price_candidates(model: ModelInfo) -> tuple[tuple[str, str], ...]:
    """Name where the price may stand: with the host in the model's name, then with its maker."""
    host, _, name = model.id.partition("/")
    maker = (_PROVIDER_NAMES.get(model.provider, model.provider), model.canonical or model.id)
    return ((host, name), maker) if name else (maker,)


def _look_up_price(provider: str, name: str, usage: dict[str, int], when: datetime) -> Price | None:
    genai_prices = _import_library()
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(**usage),
            name,
            provider_id=provider,
            genai_request_timestamp=when,
        )
    except (LookupError, ValueError):  # no such provider or model; or no price for this kind of token
        return None
    return Price(
        prompt=found.input_price,
        completion=found.output_price,
        total=found.total_price,
        source=f"genai-prices {genai_prices.__version__}: {found.provider.id}/{found.model.id}",
        as_of=when.date().isoformat(),
    )


def _import_library() -> Any:
    try:
        import genai_prices  # noqa: PLC0415 - an extra: only who asks for a price needs it
    except ImportError as error:
        raise MissingExtra("prices", "a price") from error
    return genai_prices


def _check_tokens(prompt: int, completion: int, cached: int) -> None:
    for field, value in (("prompt_tokens", prompt), ("completion_tokens", completion), ("cached_tokens", cached)):
        if type(value) is not int or value < 0:
            raise InvalidValue(field, f"must be a whole number, not {value!r}")
    if cached > prompt:
        raise InvalidValue("cached_tokens", f"{cached:,} is more than prompt_tokens, {prompt:,}, which include them")


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars: what answers cost, by the usage that providers reported.

    `saved` is what everything that was left out would have cost on top, sent in every prompt and in no cache.
    `saved_by_cache` is what the providers' caches took off. Answers of `unpriced` models are in none of these.
    """

    cost: Decimal = Decimal(0)
    saved: Decimal = Decimal(0)
    saved_by_cache: Decimal = Decimal(0)
    unpriced: tuple[str, ...] = ()

    @property
    def naive(self) -> Decimal:
        """What it would have cost to send everything, without any cache."""
        return self.cost + self.saved + self.saved_by_cache


def spending(models: "Sequence[ModelStatistics]") -> Spending | None:
    """Return what answers of these models cost; None where no price is known of any."""
    reported = [each for each in models if each.answers.reported]
    found = {each.model: _spending_on_model(each) for each in reported}
    priced = [each for each in found.values() if each is not None]
    if not priced:
        return None
    return Spending(
        cost=sum((each.cost for each in priced), Decimal(0)),
        saved=sum((each.saved for each in priced), Decimal(0)),
        saved_by_cache=sum((each.saved_by_cache for each in priced), Decimal(0)),
        unpriced=tuple(name for name, each in found.items() if each is None),
    )


def _spending_on_model(figures: "ModelStatistics") -> Spending | None:
    """Price all tokens at the rates of the mean request: some prices rise with a prompt's length."""
    info, answers = default_registry().resolve(figures.model), figures.answers
    more = max(0, answers.naive - answers.counted)
    prompt, longer = _mean_tokens(answers, answers.prompt), _mean_tokens(answers, answers.prompt + more)
    plain, cached = price(info, prompt, 1), price(info, prompt, 0, prompt)
    everything = price(info, longer)
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
