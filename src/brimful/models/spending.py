"""What answers cost, and what they would have cost: figures of many requests, at the prices of their models."""

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from brimful.models.load import default_registry
from brimful.models.prices import price
from brimful.statistics import AnswerFigures, ModelFigures


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


def spending(models: Sequence[ModelFigures]) -> Spending | None:
    """Return what answers of these models cost; None where no price is known of any."""
    reported = [each for each in models if each.answers.reported]
    found = {each.model: _of_model(each) for each in reported}
    priced = [each for each in found.values() if each is not None]
    if not priced:
        return None
    return Spending(
        cost=sum((each.cost for each in priced), Decimal(0)),
        saved=sum((each.saved for each in priced), Decimal(0)),
        saved_by_cache=sum((each.saved_by_cache for each in priced), Decimal(0)),
        unpriced=tuple(name for name, each in found.items() if each is None),
    )


def _of_model(figures: ModelFigures) -> Spending | None:
    """Price all tokens at the rates of the mean request: some prices rise with a prompt's length."""
    info, answers = default_registry().resolve(figures.model), figures.answers
    more = max(0, answers.naive - answers.counted)
    prompt, longer = _mean(answers, answers.prompt), _mean(answers, answers.prompt + more)
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


def _mean(answers: AnswerFigures, total: int) -> int:
    return max(1, round(total / answers.reported))
