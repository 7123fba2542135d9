"""What a request costs, by the price list that comes with genai-prices (the extra `prices`). Nothing is fetched."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.errors import InvalidValue, MissingExtra

_PROVIDERS: Final = {"xai": "x-ai"}
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
    _check(prompt_tokens, completion_tokens, cached_tokens)
    if model.wire == "ollama":
        return None
    when = at or datetime.now(tz=UTC)
    usage = {"input_tokens": prompt_tokens, "output_tokens": completion_tokens, "cache_read_tokens": cached_tokens}
    for provider, name in _listings(model):
        if (found := _listed(provider, name, usage, when)) is not None:
            return found
    return None


def _listings(model: ModelInfo) -> tuple[tuple[str, str], ...]:
    """Name where the price may stand: with the host in the model's name, then with its maker."""
    host, _, name = model.id.partition("/")
    maker = (_PROVIDERS.get(model.provider, model.provider), model.canonical or model.id)
    return ((host, name), maker) if name else (maker,)


def _listed(provider: str, name: str, usage: dict[str, int], when: datetime) -> Price | None:
    genai_prices = _library()
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


def _library() -> Any:
    try:
        import genai_prices  # noqa: PLC0415 - an extra: only who asks for a price needs it
    except ImportError as error:
        raise MissingExtra("prices", "a price") from error
    return genai_prices


def _check(prompt: int, completion: int, cached: int) -> None:
    for field, value in (("prompt_tokens", prompt), ("completion_tokens", completion), ("cached_tokens", cached)):
        if type(value) is not int or value < 0:
            raise InvalidValue(field, f"must be a whole number, not {value!r}")
    if cached > prompt:
        raise InvalidValue("cached_tokens", f"{cached:,} is more than prompt_tokens, {prompt:,}, which include them")
