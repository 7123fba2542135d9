"""How an engine retrieves: where it looks, how much it brings, how long it waits, when it gives up."""

import msgspec

from brimful.core.check import finite, is_whole, shown
from brimful.errors import InvalidValue
from brimful.retrieval.breaker import COOLDOWN, FAILURES
from brimful.retrieval.cache import MOST, TTL
from brimful.retrieval.retriever import TIME_LIMIT
from brimful.retrieval.wanted import check_types


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    """What may be set of retrieval.

    - `other_rooms`: look into the newest rooms of the same user, too, so many of them.
    - `types`: only memories of these types. `least_relevance`: nothing below it.
    - `half_life`: days after which relevance is worth half; None: age does not count here (the policy may weigh it).
    - `most`: finds a build may bring, 0 for none; the token budget may ask for fewer.
    - `time_limit`: seconds for embedding and vector search. `failures` and `cooldown` (seconds) are the breaker's.
    - `cache_results` and `cache_seconds`: how many results are kept, for how long. A write makes them stale at once.
    """

    other_rooms: int = 0
    types: tuple[str, ...] = ()
    least_relevance: float = 0.0
    half_life: float | None = None
    most: int = 400
    time_limit: float = TIME_LIMIT
    failures: int = FAILURES
    cooldown: float = COOLDOWN
    cache_results: int = MOST
    cache_seconds: float = TTL

    def __post_init__(self) -> None:
        """Refuse what cannot be meant. What breaker and time limit are asked, they check themselves."""
        if not is_whole(self.other_rooms, 0):
            raise InvalidValue("other_rooms", f"must be a number of rooms, not {shown(self.other_rooms)}")
        if not is_whole(self.most, 0):
            raise InvalidValue("most", f"must be a number of finds, not {shown(self.most)}")
        check_types(self.types)
        least = finite(self.least_relevance)
        if least is None or not 0.0 <= least <= 1.0:
            raise InvalidValue("least_relevance", f"must be a number from 0 to 1, not {shown(self.least_relevance)}")
        days = 1.0 if self.half_life is None else finite(self.half_life)
        if days is None or days <= 0:
            raise InvalidValue("half_life", f"must be a positive number of days, not {shown(self.half_life)}")
        if not is_whole(self.cache_results):
            raise InvalidValue(
                "cache_results", f"must be a positive number of results, not {shown(self.cache_results)}"
            )
        seconds = finite(self.cache_seconds)
        if seconds is None or seconds < 0:
            raise InvalidValue("cache_seconds", f"must be a number of seconds, not {shown(self.cache_seconds)}")


def settings_of(retrieval: Retrieval) -> Retrieval:
    """Return settings as such."""
    if not isinstance(retrieval, Retrieval):
        raise InvalidValue("retrieval", f"must be a Retrieval, not {shown(retrieval)}")
    return retrieval
