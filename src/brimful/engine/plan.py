"""What a build is based on before anything is loaded: room, persona, model, policy, budget and current message."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import takewhile
from typing import Any, Self

import msgspec

from brimful.assembly.arguments import with_prompt_limit
from brimful.core.budget import ContextBudget, allocate
from brimful.core.content import ContentPackage, Flex, Media, ToolCall, ToolResult
from brimful.core.decision import RETRIEVED_KINDS
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.prompt import TokenCounter
from brimful.core.selection import HistoryStart, RetrievedItem
from brimful.core.validation import preview
from brimful.counting import counter_for, vocabulary_for
from brimful.engine.options import Retrieval
from brimful.engine.personas import as_seen_by
from brimful.engine.room_totals import RoomCounter
from brimful.errors import InvalidPolicy, InvalidValue
from brimful.lore.reasons import CURRENT_MESSAGE
from brimful.packagers.records import package_message, plain_text
from brimful.policies import Overrides, load_policy
from brimful.records import Content, Message, Persona, Room, User

_TOKENS_PER_HIT = 8  # fewer than a short message with its label takes: so tokens end the search, not the number of hits
FEW_MEMORIES = 50  # of which all are candidates, if the policy may include all of them
_MIN_HITS = 100  # hits are weighed by sender and content after the search: even a small budget needs a choice

_REQUIRED = Flex(can_drop=False, priority=10)


class CurrentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message to answer; None if the history ends with something to answer, such as tool results."""

    message: Message | None = None

    @property
    def text(self) -> str:
        """Its text, for search."""
        return plain_text(self.message.content) if self.message else ""

    @property
    def sender(self) -> str:
        """Who sent it."""
        return self.message.sender if self.message else ""

    @property
    def posted(self) -> Message | None:
        """The message, if it is in the store."""
        return self.message if self.message and self.message.seq else None

    @property
    def id(self) -> str | None:
        """Its id, if it is in the store."""
        return self.posted.id if self.posted else None

    def packages(self, counter: TokenCounter) -> list[ContentPackage]:
        """Package it as required content."""
        return [package_message(self.message, counter=counter, current=True)] if self.message else []


class BuildPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that is known about a build before candidates are loaded.

    `previous` says where history began last time, and what was found, so that the prefix stays the same. `steps` come
    after the current message, and are not stored.
    """

    room: Room
    persona: Persona | None
    model: ModelInfo
    policy: Policy
    counter: TokenCounter
    vocabulary: str | None
    window: int | None
    completion: int | None
    max_output: int | None
    budget: ContextBudget
    current: CurrentMessage = CurrentMessage()
    steps: tuple[Message, ...] = ()
    user: User | None = None
    media: tuple[Media, ...] = ()
    focus: str = ""
    search_room: str = ""
    retrieval: Retrieval = Retrieval()
    previous: HistoryStart | None = None
    now: float = 0.0

    def with_window(self, window: int) -> Self:
        """Return the plan for another window."""
        budget = allocate(
            self.policy, self.model, window=window, completion=self.completion, max_output=self.max_output
        )
        return msgspec.structs.replace(self, window=window, budget=budget)

    @property
    def history_start(self) -> str:
        """The id of the message with which history began last time."""
        return self.previous.first if self.previous else ""

    def retrieved_before(self, question: Message | None) -> tuple[RetrievedItem, ...] | None:
        """Return what was found for the question, if the model goes on to answer it; None if it is new."""
        is_loop = self.current.message is None and question is not None and self.previous is not None
        if not is_loop or self.previous is None or question is None or self.previous.question != question.id:
            return None
        return self.previous.retrieved

    @cached_property
    def room_counter(self) -> RoomCounter:
        """Counts all messages of the room."""
        return RoomCounter(model=self.model, counter=self.counter, vocabulary=self.vocabulary)

    @property
    def max_results(self) -> int:
        """How many search results to load: as many short ones as fit, but not too few to choose from."""
        if not self.tokens_for_results:
            return 0
        return min(self.retrieval.max_results, max(_MIN_HITS, self.tokens_for_results // _TOKENS_PER_HIT))

    @property
    def few_memories(self) -> int:
        """Up to how many memories of a scope are all candidates, whether search finds them or not."""
        pool = self.policy.pool_for_kind("memory-semantic")
        return FEW_MEMORIES if self.policy.price and pool is not None and pool.free is not None else 0

    @property
    def min_relevance(self) -> float:
        """The relevance below which a hit is not worth any tokens."""
        return min(map(self.policy.min_relevance_of, RETRIEVED_KINDS)) if self.policy.price else 0.0

    @cached_property
    def tokens_for_results(self) -> int:
        """Tokens that search results may use: the limit of their pool, 0 if the policy has none for them."""
        pool = self.policy.pool_for_kind("message-older")
        return 0 if pool is None or pool.contiguous else self.budget.limit(pool.name)


def make_plan(  # noqa: PLR0913 - all but the first two have names
    room: Room,
    persona: Persona | None,
    *,
    model: ModelInfo,
    policy: str | Policy | None,
    overrides: Mapping[str, Any] | Overrides | None = None,
    tools: bool = False,
    timezone: str = "",
    max_prompt_tokens: int | None = None,
    window: int | None = None,
    completion: int | None = None,
    max_output: int | None = None,
) -> BuildPlan:
    """Plan a build. The user's time zone changes the policy, then the persona's overrides, then the caller's.

    Without a policy, a conversation with `tools` gets `agent`, as in `fit`, and any other `default`.
    """
    changes = {"layout.timezone": timezone} if timezone else {}
    changes |= get_policy_keys(persona.overrides if persona else None) | get_policy_keys(overrides)
    loaded = _load_policy(policy, changes or None, is_agent=tools and not model.alternate)
    loaded = with_prompt_limit(loaded, max_prompt_tokens)
    return BuildPlan(
        room=room,
        persona=persona,
        model=model,
        policy=loaded,
        counter=counter_for(model, loaded.counting),
        vocabulary=vocabulary_for(model, loaded.counting),
        window=window,
        completion=completion,
        max_output=max_output,
        budget=allocate(loaded, model, window=window, completion=completion, max_output=max_output),
    )


def _load_policy(policy: str | Policy | None, changes: Mapping[str, Any] | None, *, is_agent: bool) -> Policy:
    if policy is None and is_agent:
        with suppress(InvalidPolicy):  # what a persona overrides may be in `default` only
            return load_policy("agent", overrides=changes, environ=os.environ)
    return load_policy(policy or "default", overrides=changes, environ=os.environ)


def get_policy_keys(overrides: Mapping[str, Any] | Overrides | None) -> dict[str, Any]:
    """Return overrides as dotted policy keys. A mapping may also use the field names of `Overrides`.

    >>> get_policy_keys({"max_messages": 50, "margin.tokens": 64})
    {'pools.recent.max_items': 50, 'margin.tokens': 64}
    """
    if overrides is None:
        return {}
    if isinstance(overrides, Overrides):
        return overrides.keys()
    if not isinstance(overrides, Mapping):
        raise InvalidValue("overrides", f"must be an Overrides or a mapping of policy keys, not {preview(overrides)}")
    named = {key: value for key, value in overrides.items() if key in Overrides.__struct_fields__}
    try:
        short = msgspec.convert(named, Overrides).keys()
    except msgspec.ValidationError as error:
        raise InvalidValue("overrides", str(error)) from None
    return short | {key: value for key, value in overrides.items() if key not in named}


def make_current(
    message: Content | Message | None, *, room: str, sender: str, now: float, persona: Persona | None = None
) -> CurrentMessage:
    """Return the message to answer, as the answering persona sees it."""
    match message:
        case None:
            return CurrentMessage()
        case Message():
            if message.room != room:
                raise InvalidValue("message", f"belongs to room {preview(message.room)}, not {preview(room)}")
            return CurrentMessage(message=as_seen_by([message], persona)[0])
        case str() | tuple():
            return CurrentMessage(
                message=Message(id=CURRENT_MESSAGE, room=room, content=message, sender=sender, at=now)
            )
        case _:
            raise InvalidValue("message", f"must be a string, a tuple of parts or a Message, not {preview(message)}")


def split_answers(
    current: CurrentMessage, messages: Sequence[Message], packages: Sequence[ContentPackage]
) -> tuple[list[ContentPackage], list[ContentPackage]]:
    """Separate history from what other personas have already answered to the current message, which comes after it."""
    history: list[ContentPackage] = []
    answers: list[ContentPackage] = []
    for message, package in zip(messages, packages, strict=True):
        is_answer = current.posted is not None and message.persona is not None and message.seq > current.posted.seq
        (answers if is_answer else history).append(package)
    asked_at = current.message.at if current.message else 0.0
    return history, [
        msgspec.structs.replace(
            answer,
            kind="message-current",
            flex=_REQUIRED,
            importance=1.0,
            timestamp=max(answer.timestamp, asked_at),  # clocks differ; the order in the room counts
        )
        for answer in answers
    ]


def require_last_turn(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Return history, newest first, with the last user message and the last turn required.

    Without them there would be nothing to answer. An agent's steps in between are ordinary history.
    """
    last_user = next((i for i, package in enumerate(packages) if package.role == "user"), None)
    required = {*_find_last_turn(packages), *([] if last_user is None else [last_user])}
    return [
        msgspec.structs.replace(package, flex=_REQUIRED, importance=1.0) if i in required else package
        for i, package in enumerate(packages)
    ]


def _find_last_turn(packages: Sequence[ContentPackage]) -> range:
    """Return the positions of the last message, or of the last tool call with its results; empty if one is missing."""
    results = list(takewhile(lambda package: package.kind == "tool-result", packages))
    turn = packages[: len(results) + 1]
    call_ids = {part.id for part in turn[-1].parts if isinstance(part, ToolCall)} if turn else set()
    result_ids = {part.id for result in results for part in result.parts if isinstance(part, ToolResult)}
    return range(len(turn) if call_ids == result_ids else 0)
