"""The record of a context: what went in, what was decided, and what came out. It can be explained and replayed."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, Literal, Self

import msgspec

from brimful import higher
from brimful.core.arrange import NOTE_KIND, note_depth
from brimful.core.budget import ContextBudget, allocate
from brimful.core.candidates import dedupe_by_id
from brimful.core.content import ContentPackage
from brimful.core.cost import is_own
from brimful.core.decision import Decision, explain_search
from brimful.core.frame import Frame, is_message_id, message_index
from brimful.core.handles import Handles, find_names, hash_handle
from brimful.core.labels import HISTORY_OPEN
from brimful.core.media import candidate_ids, make_media_package, media_parts
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import Method, Policy
from brimful.core.prompt import Request, Tool
from brimful.core.recall import RECALL, Item, Recalled
from brimful.core.selection import LEDGER_ID, HistoryStart, PoolUse
from brimful.core.tokens import Count
from brimful.core.toolset import TOOL_KIND, TOOL_SEARCH, tool_id, tool_package
from brimful.core.validation import preload_types
from brimful.core.verify import Verification
from brimful.errors import InvalidRecord, UnknownRecord

FORMAT: Literal["brimful/1"] = "brimful/1"
ID_PREFIX: Final = "ctx-"
"""The prefix of context ids."""
COMPONENTS: Final = {
    "system-prompt": "system",
    "memory-episodic": "memories",
    "memory-semantic": "memories",
    "memory-procedural": "memories",
    "message-recent": "recent",
    "message-older": "older",
    "message-current": "current",
    "media-image": "media",
    "media-audio": "media",
    "media-video": "media",
    "media-document": "media",
    "tool-call": "tools",
    "tool-result": "tools",
    "tool-definition": "definitions",
    "ledger": "ledger",
    "lorebook": "lorebook",
    "summary": "summaries",
    "system-note": "notes",
}
"""The component of each known kind. Any other kind is a component of its own name."""

_HISTORY: Final = ("message-recent", "tool-call", "tool-result")
RECALLED_SUFFIX: Final = "/recalled"
"""Added to the id of a message that search found, since the message may also be a candidate as history."""
_OPENING: Final = b'{"packages":'  # the beginning of inputs as JSON


class Unread(msgspec.Struct, frozen=True, gc=False):
    """The messages of a conversation that were not loaded, because the window is full without them."""

    messages: int = 0
    tokens: int = 0


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a context depends on. Equal inputs give equal contexts, byte for byte.

    `origin` distinguishes contexts that would otherwise be equal, such as two rooms with the same messages.
    `focus` is what was searched for besides the current message; it explains candidates, and changes nothing here.
    `frame` is the caller's own request around the packages, if they were read from one. `recall` says that the tool for
    recalling was added to `tools` and to that request. `unread` are messages that are not among the packages; it says
    how much there is altogether, and changes nothing here. `completion` is what the caller wants to reserve for the
    answer. Without it, `max_output` is reserved, the longest answer that the request allows, as far as there is room.
    """

    packages: tuple[ContentPackage, ...]
    policy: Policy
    model: ModelInfo
    method: Method
    now: float
    window: int | None = None
    completion: int | None = None
    tools: tuple[Tool, ...] = ()
    previous: HistoryStart | None = None
    degraded: tuple[Notice, ...] = ()
    origin: str = ""
    focus: str = ""
    frame: Frame | None = None
    recall: bool = False
    unread: Unread = Unread()
    max_output: int | None = None

    @property
    def lowerable_output(self) -> int | None:
        """The longest answer that the request allows, unless the caller decides how much is reserved."""
        return self.max_output if self.completion is None else None

    @property
    def reserve(self) -> int | None:
        """The tokens to reserve for the answer, unless they have to give way; None leaves them to the policy."""
        return self.max_output if self.completion is None else self.completion

    def allocate(self) -> ContextBudget:
        """Divide the window, before the reserve gives way to required content."""
        return allocate(
            self.policy, self.model, window=self.window, completion=self.completion, max_output=self.max_output
        )

    @property
    def is_fitted(self) -> bool:
        """Whether the packages are the messages of a caller's own request, with ids made from their indices."""
        return self.frame is not None and bool(self.frame.messages)


class Component(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens and items of one part of the prompt: system, memories, recent, media, current and others."""

    name: str
    tokens: int
    items: int


class Context(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A built context: the verified request, and the record that explains why each candidate is in or out.

    `history` is what the next context of the conversation needs to keep its prefix: pass this context as `previous`.
    """

    id: str
    inputs: Inputs
    budget: ContextBudget
    pools: tuple[PoolUse, ...]
    components: tuple[Component, ...]
    decisions: tuple[Decision, ...]
    verification: Verification
    request: Request
    history: HistoryStart | None
    warnings: tuple[Notice, ...]
    format: Literal["brimful/1"] = FORMAT

    @property
    def tokens(self) -> int:
        """The request's tokens, counted as a whole."""
        return self.verification.tokens

    @property
    def remaining(self) -> int:
        """Tokens that are neither used nor reserved; below zero if the safety margin was needed."""
        return self.budget.available - self.tokens

    @property
    def is_output_lowered(self) -> bool:
        """Whether the reserve is smaller than the longest answer that the request allows."""
        return self.budget.completion < (self.inputs.lowerable_output or 0)

    @property
    def percent(self) -> float:
        """How much of the budget the request takes. The budget is the window without the reserve and the margin."""
        return 100 * self.tokens / self.budget.available if self.budget.available else 100.0

    @property
    def kept(self) -> tuple[str, ...]:
        """The ids of what the model sees, sorted."""
        return tuple(sorted(decision.id for decision in self.decisions if decision.included))

    @cached_property
    def _records(self) -> list[Decision]:
        """The decision on each record: of a message that is a candidate twice, as history and as a search result, one.

        If it is in, that is the decision which saved least.
        """
        candidates = [each for each in self.decisions if each.kind != LEDGER_ID]  # which replaces others
        found = [each for each in candidates if each.id.endswith(RECALLED_SUFFIX)]
        if not found:
            return candidates
        records = [[each] for each in candidates if not each.id.endswith(RECALLED_SUFFIX)]
        history = {record[0].id: record for record in records}
        for each in found:
            record = history.setdefault(each.id.removesuffix(RECALLED_SUFFIX), [])
            records += [] if record else [record]
            record.append(each)
        inside = [[each for each in record if each.included] for record in records]
        return [
            min(included, key=lambda each: each.saved, default=record[0])
            for record, included in zip(records, inside, strict=True)
        ]

    @property
    def offered(self) -> int:
        """How much there is: the candidates, and the messages that were not loaded."""
        return len(self._records) + self.inputs.unread.messages

    @property
    def left_out(self) -> int:
        """How many candidates and messages are not in."""
        return self.offered - sum([each.included for each in self._records])

    @property
    def lines(self) -> int:
        """The number of left-out items with a line in the ledger of an agent's steps."""
        return sum([each.outcome == "replaced" and each.reason == "ledger" for each in self._records])

    @cached_property
    def naive(self) -> int:
        """The tokens of everything: the request, and all that was left out, shortened or not loaded."""
        return self.tokens + sum([each.saved for each in self._records]) + self.inputs.unread.tokens

    @cached_property
    def loaded(self) -> int:
        """The number of messages of the history that were loaded."""
        return sum(decision.kind in _HISTORY for decision in self.decisions)

    @cached_property
    def stopped_at(self) -> str | None:
        """The message at which the history begins, if older ones are not in; None if all of them are.

        If none of the history is in, it is the current message.
        """
        history = {each.id: each for each in self.decisions if each.kind in _HISTORY}
        # The text of a duplicate is in under another id, so nothing of the history is missing.
        is_whole = all(each.included or each.outcome == "duplicate" for each in history.values())
        if is_whole and not self.inputs.unread.messages:
            return None
        if self.history is not None and self.history.first in history:
            return self.history.first
        inside = {id for id, each in history.items() if each.included}
        packages = self.inputs.packages
        sent = [each for each in packages if (each.id in inside if inside else each.kind == "message-current")]
        return min(sent, key=lambda each: (each.timestamp, each.position, each.id)).id if sent else None

    @property
    def is_reduced(self) -> bool:
        """Whether anything was left out or shortened."""
        return any(decision.outcome != "kept" for decision in self.decisions)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The messages of a fitted request that stay, by their indices in the request as it was given."""
        return self._positions(lambda decision: decision.included)

    @cached_property
    def shortened(self) -> tuple[int, ...]:
        """The messages of a fitted request that stay, but not in full, by their indices as in `positions`."""
        cut = self._positions(lambda decision: decision.form != "full" or not decision.included)
        return tuple(sorted(set(cut).intersection(self.positions)))

    @cached_property
    def ledger(self) -> str:
        """The ledger of an agent's steps that are out, as the model sees it; empty if there is none."""
        has_ledger = LEDGER_ID in self.decisions_by_id or any(map(is_own, self.inputs.packages))
        texts = _strings(self.request) if has_ledger else ()
        return next((text for text in texts if text.startswith(HISTORY_OPEN)), "")

    def _positions(self, chosen: Callable[[Decision], bool]) -> tuple[int, ...]:
        if not self.inputs.is_fitted:
            return ()
        found = (each.id for each in self.decisions if chosen(each) and is_message_id(each.id))
        return tuple(sorted(set(map(message_index, found))))

    @cached_property
    def kinds(self) -> tuple[Component, ...]:
        """Tokens and items by kind of content, such as `memory-semantic`. They add up to the components."""
        rows: dict[str, dict[str, list[int]]] = {}
        for decision in self.decisions:
            if decision.included:
                component = COMPONENTS.get(decision.kind, decision.kind)
                rows.setdefault(component, {}).setdefault(decision.kind, []).append(decision.cost)
        return tuple(
            Component(name=kind, tokens=tokens, items=len(costs[kind]))
            for component, costs in rows.items()
            for kind, tokens in scale_to_total(
                {kind: sum(costs[kind]) for kind in sorted(costs)}, self.component(component).tokens
            ).items()
        )

    def component(self, name: str) -> Component:
        """Return a component by name; a missing one is empty."""
        return next((c for c in self.components if c.name == name), Component(name=name, tokens=0, items=0))

    def decision(self, id: str) -> Decision:
        """Return the decision on a candidate. If several have the same id, return the one that is in."""
        if id not in self.decisions_by_id:
            raise UnknownRecord("candidate", id)
        return self.decisions_by_id[id]

    def included(self, kind: str = "*") -> tuple[Decision, ...]:
        """Return the decisions on included candidates of a kind, or of a pattern of kinds such as `memory-*`."""
        return tuple(each for each in self.decisions if each.included and fnmatchcase(each.kind, kind))

    @cached_property
    def decisions_by_id(self) -> dict[str, Decision]:
        """All decisions by id. If several candidates have the same id, the one that is in."""
        found: dict[str, Decision] = {}
        for decision in self.decisions:
            if decision.id not in found or decision.included:
                found[decision.id] = decision
        return found

    @cached_property
    def candidates(self) -> tuple[ContentPackage, ...]:
        """All packages that have a decision: the inputs, media of messages, tools that competed, and the ledger."""
        media = (
            make_media_package(package, id, part, _full_count(decision))
            for package in self.inputs.packages
            for id, _, part in media_parts(package)
            if (decision := self.decisions_by_id.get(id)) is not None and decision.kind.endswith(part.modality)
        )
        found = {package.id: package for package in media}
        tools = {tool_id(tool.name): tool for tool in self.inputs.tools}
        for decision in self.decisions:
            if decision.kind == TOOL_KIND:
                found[decision.id] = tool_package(tools[decision.id], decision)
            if decision.kind == decision.id == LEDGER_ID:
                found[LEDGER_ID] = ContentPackage(
                    id=LEDGER_ID, kind=LEDGER_ID, role="user", content=self.ledger, tokens=_full_count(decision)
                )
        return (*self.inputs.packages, *found.values())

    @cached_property
    def explanations(self) -> dict[str, str]:
        """What made each package a candidate, or excluded it, by id, for packages that say so."""
        reasons = ((each.id, _why(each)) for each in self.inputs.packages)
        return {id: why for id, why in reasons if why}

    def explain(self, id: str) -> str:
        """Return one line that says what happened to a candidate, and why."""
        return str(higher.find_function("describe_decision")(self, self.decision(id)))

    def handle(self, id: str) -> str:
        """Return the short name by which a candidate is recalled. It stays the same from turn to turn."""
        self.decision(id)
        return self._handles[id]

    @cached_property
    def _handles(self) -> Handles:
        tools = (each.id for each in self.decisions if each.kind == TOOL_KIND)
        return Handles({*candidate_ids(self.inputs.packages), *tools}, find_names(self.inputs.packages))

    @cached_property
    def items(self) -> dict[str, Item]:
        """All candidates by handle. If several have the same id, the one that competed has its handle."""
        survivors, _ = dedupe_by_id(self.inputs.packages, self.inputs.policy)
        decisions = self.decisions_by_id
        media = self.candidates[len(self.inputs.packages) :]
        found = [
            Item(handle=self._handles[each.id], package=each, decision=decisions[each.id])
            for each in (*survivors, *media)
        ]
        items = {item.handle: item for item in found}
        if len(survivors) < len(self.inputs.packages):
            competed = {package.id: package for package in survivors}
            duplicates = {each.id: each for each in self.decisions if each.reason == "same-id"}
            for package in self.inputs.packages:
                if package.content != competed[package.id].content:
                    handle = hash_handle(f"{package.id}\0{package.hash}", items)
                    items[handle] = Item(handle=handle, package=package, decision=duplicates[package.id])
        return items

    def recall(
        self, handle: str = "", *, query: str = "", max_tokens: int = 1_000, earlier: "Sequence[Context]" = ()
    ) -> Recalled:
        """Return a candidate that was shortened or left out, by handle or id, in at most `max_tokens`.

        If it does not fit, the parts that match the query are returned. Without a handle, everything that was shortened
        or left out is searched, and the best passages are returned with their handles. If you keep fitted messages
        as your history, pass the contexts of earlier rounds as `earlier`, oldest first: they have what went then.
        """
        recall = higher.find_function("recall")
        recalled: Recalled = recall(self, handle, query=query, max_tokens=max_tokens, earlier=earlier)
        return recalled

    @cached_property
    def hidden_tools(self) -> tuple[Tool, ...]:
        """The tools that the model does not see in full."""
        hidden = {each.id for each in self.decisions if each.kind == TOOL_KIND and each.outcome != "kept"}
        return tuple(tool for tool in self.inputs.tools if tool_id(tool.name) in hidden)

    @cached_property
    def added_tools(self) -> frozenset[str]:
        """The names of the tools that were added to the caller's own, whose calls have to be answered."""
        own = {tool.name for tool in self.inputs.tools}
        offers_search = TOOL_SEARCH.name not in own and TOOL_SEARCH.name in _strings(self.request.get("tools"))
        return frozenset([RECALL.name] * self.inputs.recall + [TOOL_SEARCH.name] * offers_search)

    def report(self) -> str:
        """Return the budget report."""
        return str(higher.find_function("report")(self))

    def _repr_html_(self) -> str:
        """Return the window as a picture for notebooks."""
        return str(higher.find_function("window_html")(self))

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Decode and validate a record."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeError, TypeError, RecursionError) as error:
            raise InvalidRecord("context", str(error)) from None


preload_types(Context)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def scale_to_total(tokens: dict[str, int], whole: int) -> dict[str, int]:
    """Scale numbers down in proportion if parts that were counted one by one come to more than the whole."""
    total = sum(tokens.values())
    if total <= whole:
        return tokens
    taken, ends = 0, []
    for count in tokens.values():
        taken += count
        ends.append(taken * whole // total)
    return {name: end - start for name, start, end in zip(tokens, [0, *ends], ends, strict=False)}


def _full_count(decision: Decision) -> Count:
    return Count(tokens=decision.full or decision.tokens, basis="bound")


def _why(package: ContentPackage) -> str:
    if package.excluded or package.why:
        return package.excluded or package.why
    if package.kind == NOTE_KIND:
        return f"it is a note at depth {note_depth(package):,}"
    return explain_search(package.metadata.get("search"))


def make_id_function(packages: tuple[ContentPackage, ...]) -> Callable[[Inputs], str]:
    """Return a function that returns the id of a context with these packages: a hash of its inputs as JSON.

    The packages come first in it and are most of it, so they are encoded and hashed only once.
    """
    prefix = hashlib.sha256(_OPENING)
    prefix.update(msgspec.json.encode(packages))

    def name(inputs: Inputs) -> str:
        rest = msgspec.json.encode(msgspec.structs.replace(inputs, packages=()))
        digest = prefix.copy()
        digest.update(rest.removeprefix(_OPENING + b"[]"))
        return ID_PREFIX + digest.hexdigest()[:24]

    return name
