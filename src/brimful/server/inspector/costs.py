"""What an answer costs, in US dollars, where its price is known."""

from datetime import UTC, datetime

from brimful.core.model import ModelInfo
from brimful.errors import InvalidValue, MissingExtra
from brimful.models.prices import price
from brimful.models.registry import Registry
from brimful.records import Response, Usage
from brimful.server.inspector.views import AnswerView


class Costs:
    """Looks up prices."""

    def __init__(self, registry: Registry) -> None:
        """Take the rows of all models."""
        self._registry = registry

    def answered(self, response: Response) -> AnswerView:
        """Return what is shown of an answer."""
        fields = {field: getattr(response, field) for field in AnswerView.__struct_fields__ if field != "cost"}
        return AnswerView(**fields, cost=self.of(response.model, response.usage, at=response.at))

    def of(self, model: str, usage: Usage | None, *, at: float) -> float | None:
        """Return what a model's usage costs at the prices of that time; None where that is not known."""
        if usage is None or not model:
            return None
        return _price(self._registry.resolve(model), usage, at)


def _price(model: ModelInfo, usage: Usage, at: float) -> float | None:
    try:
        found = price(model, usage.prompt, usage.completion, min(usage.cached, usage.prompt), at=_day(at))
    except (MissingExtra, InvalidValue):  # prices are an extra, and a report may make no sense
        return None
    return None if found is None else float(found.total)


def _day(at: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, tz=UTC)
    except (OverflowError, OSError, ValueError):  # a time that no calendar has
        return None
