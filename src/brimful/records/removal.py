"""What was removed together with a record."""

import msgspec


class RemovalReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many records of each kind were removed. It is false if there were none.

    `contexts` count with their decisions, and `answers` are the responses to them. `api_keys` were bound to a user.
    """

    users: int = 0
    personas: int = 0
    rooms: int = 0
    lorebooks: int = 0
    lore_entries: int = 0
    messages: int = 0
    summaries: int = 0
    memories: int = 0
    contexts: int = 0
    answers: int = 0
    api_keys: int = 0

    def __bool__(self) -> bool:
        """Whether anything was removed."""
        return bool(self.counts)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers that are not zero, by kind."""
        return {kind: count for kind, count in msgspec.structs.asdict(self).items() if count}
