"""How an engine retrieves: where it looks, how much it brings, how long it waits, when it gives up."""

import msgspec

from brimful.core.check import finite, is_whole, shown
from brimful.errors import InvalidValue
from brimful.records import MEMORY_TYPES
from brimful.retrieval.breaker import COOLDOWN, FAILURES
from brimful.retrieval.cache import MOST, TTL
from brimful.retrieval.retriever import TIME_LIMIT


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
        """Refuse what cannot be meant. What breaker, cache and time limit are asked, they check themselves."""
        if not is_whole(self.other_rooms, 0):
            raise InvalidValue("other_rooms", f"must be a number of rooms, not {shown(self.other_rooms)}")
        if not is_whole(self.most, 0):
            raise InvalidValue("most", f"must be a number of finds, not {shown(self.most)}")
        wrong = [type for type in self.types if type not in MEMORY_TYPES]
        if wrong:
            raise InvalidValue("types", f"must be among {', '.join(MEMORY_TYPES)}, not {shown(wrong[0])}")
        least = finite(self.least_relevance)
        if least is None or not 0.0 <= least <= 1.0:
            raise InvalidValue("least_relevance", f"must be a number from 0 to 1, not {shown(self.least_relevance)}")
        days = 1.0 if self.half_life is None else finite(self.half_life)
        if days is None or days <= 0:
            raise InvalidValue("half_life", f"must be a positive number of days, not {shown(self.half_life)}")
