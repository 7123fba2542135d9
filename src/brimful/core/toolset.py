"""Tool definitions: which stay whole, which are shortened, and which are left out if there is no room for all of them.

A tool has four forms: whole; a digest, without examples and long descriptions; a line in the description of a tool that
searches for the others; and none, found only by that search.

The choice begins with what the task asks for. It stays as it is from turn to turn, since every change of the tools
costs the whole prompt cache. Only if a later turn asks for a tool that is not there, or a search found one, is it made
again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from brimful.core.content import ContentPackage, Text, ToolCall, ToolResult
from brimful.core.cost import count_tools, is_from_user
from brimful.core.decision import Decision, FormName, Reason, Score
from brimful.core.labels import without_reminders
from brimful.core.policy import Policy
from brimful.core.prompt import TokenCounter, Tool
from brimful.core.selection import PoolUse
from brimful.core.tokens import Count
from brimful.core.tool_ranking import Similarity, ToolRanking
from brimful.core.units import call_order_key

TOOL_KIND: Final = "tool-definition"
TOOL_POOL: Final = "tools"
TOOL_SEARCH: Final = Tool(
    name="tool_search",
    description="Return the definitions of tools that are not defined here, by words about what they do or their name.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
"""The tool with which a model finds those that its request left out."""

_PREFIX: Final = "tool:"  # of the ids of tools
_MAX_SENTENCE: Final = 160  # characters of a description in a digest
_MAX_PARAMETER: Final = 80  # characters of the description of a parameter in a digest
_MAX_LINE: Final = 60  # characters of a description in a line
_ANNOTATIONS: Final = ("examples", "example", "title", "$comment")  # keywords that only explain
_WHOLE_SHARE: Final = 0.75  # of the room is for whole definitions, the rest for digests, unless these leave some
_LINES_SHARE: Final = 0.125  # of the room, at most, for lines about tools that are left out
_MAX_WANTED: Final = 3  # tools that one message is taken to ask for
_MIN_WANTED: Final = 0.6  # of the best match
_STEPS: Final = (1 / 16, 1 / 4, 1 / 2, 3 / 4)  # of the room, for messages; see `limit_tools`
_MIN_SHARE: Final = 0.25  # of the room that tools have, whatever the required messages take
_MAX_FOUND: Final = 5  # tools that a search returns
_SIZES: Final[tuple[FormName, ...]] = ("stub", "digest", "full")
_HISTORY_KINDS: Final = ("message-recent", "message-current", "tool-call", "tool-result")


def tool_id(name: str) -> str:
    """Return the id of a tool as a candidate.

    >>> tool_id("look_up")
    'tool:look_up'
    """
    return _PREFIX + name


def tool_package(tool: Tool, decision: Decision) -> ContentPackage:
    """Return a tool as a candidate with its definition as JSON."""
    tokens = Count(tokens=decision.full or decision.tokens, basis="bound")
    return ContentPackage(id=decision.id, kind=TOOL_KIND, role="system", content=write_tools([tool]), tokens=tokens)


def write_tools(tools: Sequence[Tool]) -> str:
    """Return definitions as JSON, one a line."""
    return "\n".join(msgspec.json.encode(tool).decode() for tool in tools)


# -- forms -------------------------------------------------------------------------------------------------------------


def shorten_tool(tool: Tool) -> Tool:
    """Return a tool without examples and long descriptions. All of its parameters stay.

    >>> schema = {"properties": {"q": {"type": "string", "examples": ["tea"]}}}
    >>> shorten_tool(Tool(name="find", description="Find pages. Use it often.", parameters=schema))
    Tool(name='find', description='Find pages.', parameters={'properties': {'q': {'type': 'string'}}})
    """
    description = _first_sentence(tool.description, _MAX_SENTENCE)
    return Tool(name=tool.name, description=description, parameters=_shorten_schema(tool.parameters))


def _shorten_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_shorten_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shorter: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):  # whose keys are names, not keywords
            shorter[key] = {name: _shorten_schema(item) for name, item in value.items()}
        elif key == "description" and isinstance(value, str):
            shorter[key] = _first_sentence(value, _MAX_PARAMETER)
        elif key in ("enum", "const", "default", "required"):
            shorter[key] = value
        elif key not in _ANNOTATIONS:
            shorter[key] = _shorten_schema(value)
    return shorter


def _first_sentence(text: str, limit: int) -> str:
    """Return the first sentence of a text, or its beginning if that is longer.

    >>> _first_sentence("Find pages. Use it often.", 40), _first_sentence("Find pages about tea", 12)
    ('Find pages.', 'Find pages…')
    """
    line = text.strip().partition("\n")[0]
    sentence, period, _ = line.partition(". ")
    sentence += period.rstrip()
    return sentence if len(sentence) <= limit else f"{sentence[:limit].rpartition(' ')[0] or sentence[:limit]}…"


def _line(tool: Tool) -> str:
    description = _first_sentence(tool.description, _MAX_LINE)
    return f"\n- {tool.name}: {description}" if description else f"\n- {tool.name}"


# -- the choice --------------------------------------------------------------------------------------------------------


def limit_tools(room: int, contents: int, required: int, policy: Policy) -> int:
    """Return the tokens that tools may take of the `room` that they share with contents, some of which are required.

    What contents take is rounded up to one of a few steps, so that tools change rarely while a conversation grows. If
    the policy gives contents a share of the room, tools take no more than the rest while contents need it.
    """
    taken = max(required, min(contents, int(room * (1 - policy.tools.max_share))))
    steps = (int(room * step) for step in _STEPS)
    left = room - next((step for step in steps if step >= taken), taken)
    return max(left, int(room * _MIN_SHARE))


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a request as they are sent, in order, with a decision on each if not all of them fit."""

    tools: tuple[Tool, ...]
    decisions: tuple[Decision, ...] = ()
    use: PoolUse | None = None


class _Event(msgspec.Struct, frozen=True):
    """The tools that a turn needs: those that match a message of the user, with the scores of all, or that were used.

    Those that a search found are needed in full.
    """

    names: tuple[str, ...]
    scores: dict[str, float] | None = None
    is_found: bool = False


class _Chosen:
    """The forms that were chosen so far, and the tokens that are left."""

    def __init__(self, costs: Mapping[tuple[str, FormName], int], left: int) -> None:
        self.forms: dict[str, FormName] = {}
        self.left = left
        self._costs = costs

    def take(self, name: str, form: FormName, spare: int = 0) -> None:
        """Give a tool a form if that is larger than its own, and leaves so much to spare."""
        before = self.forms.get(name)
        cost = self._costs[name, form] - (0 if before is None else self._costs[name, before])
        is_larger = before is None or _SIZES.index(form) > _SIZES.index(before)
        if is_larger and cost <= self.left - spare:
            self.add(name, form)

    def take_all(self, names: Iterable[str], form: FormName) -> None:
        """Give tools a form, one by one, as long as it fits."""
        for name in names:
            self.take(name, form)

    def add(self, name: str, form: FormName) -> None:
        """Give a tool a form, whatever it costs."""
        self.left -= self._costs[name, form] - (self._costs[name, self.forms[name]] if name in self.forms else 0)
        self.forms[name] = form


class Toolset:
    """The tools of a request, prepared so that they can be chosen for a window of any size.

    `fixed` are the names of tools that must stay as they are. `can_search` says whether a tool that searches for the
    others may be added.
    """

    def __init__(
        self,
        tools: tuple[Tool, ...],
        packages: Sequence[ContentPackage],
        *,
        fixed: frozenset[str],
        can_search: bool,
        model: str,
        counter: TokenCounter,
        similarity: Similarity | None,
    ) -> None:
        self.tools = tools
        self._fixed = fixed
        self._can_search = can_search and all(tool.name != TOOL_SEARCH.name for tool in tools)
        self._packages = packages
        self._model = model
        self._counter = counter
        self._similarity = similarity

    @cached_property
    def cost(self) -> int:
        """The tokens of all tools."""
        return self.count(self.tools)

    def choose(self, limit: int) -> ToolChoice:
        """Choose the forms of the tools, such that they take at most `limit` tokens if that is possible.

        At least the tool that is needed most is there, whatever it costs.
        """
        if self.cost <= limit or not self._own:
            return ToolChoice(tools=self.tools)
        target = limit
        forms = self._fold(target)
        tools = self._write(forms)
        while forms and (over := self.count(tools) - limit) > 0 and target > 0:
            target = max(0, target - over)  # its parts were counted too low
            forms = self._fold(target)
            tools = self._write(forms)
        return ToolChoice(tools=tools, decisions=tuple(self._decide(forms)), use=self._use(limit, forms))

    # -- candidates --------------------------------------------------------------------------------------------------

    @cached_property
    def _own(self) -> dict[str, Tool]:
        """The tools that may be shortened or left out."""
        return {tool.name: tool for tool in self.tools if tool.name not in self._fixed}

    @cached_property
    def _ranking(self) -> ToolRanking:
        return ToolRanking([*self._own.values()], self._similarity)

    @cached_property
    def _events(self) -> tuple["_Event", ...]:
        """The messages of the user and the calls, in order, each with the tools that it needs."""
        history = sorted((each for each in self._packages if each.kind in _HISTORY_KINDS), key=call_order_key)
        searches: set[str] = set()
        events: list[_Event] = []
        for part, is_user in ((part, is_from_user(each)) for each in history for part in each.parts):
            match part:
                case Text(text=text) if is_user and (said := without_reminders(text).strip()):
                    scores = self._ranking.score(said)
                    events.append(_Event(tuple(self._find_wanted(said, scores)), scores))
                case ToolCall(id=id, name=name):
                    searches.update([id] if name == TOOL_SEARCH.name else ())
                    events += [_Event((name,))] if name in self._own else []
                # A tool that a search found must be defined in full from then on, or the model could not call it.
                case ToolResult(id=id, content=content) if id in searches:
                    found = tuple(name for name in read_names(content) if name in self._own)
                    events.append(_Event(found, is_found=True))
        return tuple(events)

    @cached_property
    def _scores(self) -> dict[str, float]:
        """How well each tool matches the task: the first message of the user."""
        found = (event.scores for event in self._events if event.scores is not None)
        return next(found, dict.fromkeys(self._own, 0.0))

    @cached_property
    def _used(self) -> frozenset[str]:
        """The tools that were called, or found by a search."""
        return frozenset(name for event in self._events if event.scores is None for name in event.names)

    def _find_wanted(self, text: str, matches: Mapping[str, float]) -> Iterator[str]:
        named = self._ranking.find_named(text)
        yield from named
        least = _MIN_WANTED * max(matches.values(), default=0.0)
        best = [name for name in _by_score(matches) if matches[name] >= least > 0 and name not in named]
        yield from best[:_MAX_WANTED]

    @cached_property
    def _costs(self) -> dict[tuple[str, FormName], int]:
        """The tokens of each tool in each form. What all tools share is left out."""
        shorter = {name: shorten_tool(tool) for name, tool in self._own.items()}
        lines = self._counter.texts([_line(tool) for tool in self._own.values()])
        costs: dict[tuple[str, FormName], int] = {}
        for (name, tool), line in zip(self._own.items(), lines, strict=True):
            costs[name, "full"] = self.count([tool]) - self._shared
            costs[name, "digest"] = self.count([shorter[name]]) - self._shared
            costs[name, "stub"] = line.upper
        return costs

    @cached_property
    def _shared(self) -> int:
        """The tokens that tools cost besides each of them."""
        one, other = self.tools[:1], self.tools[-1:]
        return max(0, self.count(one) + self.count(other) - self.count((*one, *other)))

    @cached_property
    def _base(self) -> int:
        """The tokens of the tools that always stay: fixed ones, and the one that searches."""
        fixed = [tool for tool in self.tools if tool.name in self._fixed]
        return self.count([*fixed, *[TOOL_SEARCH] * self._can_search]) or self._shared

    def count(self, tools: Sequence[Tool]) -> int:
        """Return what tools add to a request."""
        return count_tools(tuple(tools), self._model, self._counter)

    # -- selection ---------------------------------------------------------------------------------------------------

    def _fold(self, limit: int) -> dict[str, FormName]:
        """Return the forms that are chosen for the task, and changed only by turns that need other tools."""
        room, order = limit - self._base, _by_score(self._scores)
        used: dict[str, None] = {}
        current: set[str] = set()  # used since the user's last message
        forms: dict[str, FormName] = {}
        for event in self._events or (_Event(()),):
            is_user = event.scores is not None
            used |= {} if is_user else dict.fromkeys(event.names)
            current = set() if is_user else current | {*event.names}
            enough = ("full",) if event.is_found else ("full", "digest")
            if not forms or any(forms.get(name) not in enough for name in event.names):
                first = dict.fromkeys((*sorted(current), *used, *event.names))
                order = [*first, *(name for name in order if name not in first)]
                forms = self._select(order, first, used, current, room)
        return forms

    def _select(
        self, order: Sequence[str], wanted: Collection[str], used: Collection[str], required: Collection[str], room: int
    ) -> dict[str, FormName]:
        """Choose whole definitions first, then digests, then lines, and give the remaining tokens to digests.

        Tools that were used may take all of the room, and required ones even more.
        """
        lines = min(int(room * _LINES_SHARE), sum(self._costs[name, "stub"] for name in order)) * self._can_search
        chosen = _Chosen(self._costs, room - lines)
        for name in required:
            chosen.add(name, "full")
        spare = int(chosen.left * (1 - _WHOLE_SHARE))
        for name in order:
            chosen.take(name, "full", spare=0 if name in used or name == order[0] else spare)
            if name in wanted:
                chosen.take(name, "digest")
        chosen.take_all(order, "digest")
        chosen.take_all(order, "full")
        if not chosen.forms:
            chosen.add(order[0], "digest")  # one is there, whatever it costs
        if self._can_search:
            chosen.left += lines
            chosen.take_all(order, "stub")
        return chosen.forms

    def _write(self, forms: Mapping[str, FormName]) -> tuple[Tool, ...]:
        """Return the tools in their forms and in their order, with the one that searches at the end."""
        written = []
        for tool in self.tools:
            form = forms.get(tool.name) if tool.name in self._own else "full"
            written += [tool] if form == "full" else [shorten_tool(tool)] if form == "digest" else []
        if self._can_search and len(written) < len(self.tools):
            lines = [_line(tool) for tool in self.tools if forms.get(tool.name) == "stub"]
            written.append(msgspec.structs.replace(TOOL_SEARCH, description="".join((TOOL_SEARCH.description, *lines))))
        return tuple(written)

    # -- the record --------------------------------------------------------------------------------------------------

    def _decide(self, forms: Mapping[str, FormName]) -> Iterator[Decision]:
        scores = self._scores
        best = max(scores.values(), default=0.0) or 1.0
        ranks = {name: i for i, name in enumerate(_by_score(scores), start=1)}
        cut = max((ranks[name] for name in forms), default=0)
        for tool in self.tools:
            name, id = tool.name, tool_id(tool.name)
            if name not in self._own:
                tokens = self.count([tool]) - self._shared
                yield Decision(
                    id=id, kind=TOOL_KIND, outcome="kept", reason="required", tokens=tokens, cost=tokens, pool=TOOL_POOL
                )
                continue
            form, full = forms.get(name), self._costs[name, "full"]
            cost = 0 if form is None else self._costs[name, form]
            is_shrunk = form not in (None, "full")
            reason: Reason = "pool-full" if form is None else "used" if name in self._used else "fits"
            # Scores of a ranking have no unit. As shares of the best, they look like the relevance of other items.
            relevance = scores[name] / best
            yield Decision(
                id=id,
                kind=TOOL_KIND,
                outcome="dropped" if form is None else "shrunk" if is_shrunk else "kept",
                reason=reason,
                tokens=cost if is_shrunk else full,
                cost=cost,
                pool=TOOL_POOL,
                score=Score(relevance, 0.0, 0.0, relevance, 0.0),
                rank=ranks[name],
                cut=cut,
                form=form or "full",
                larger=full if is_shrunk else 0,
                full=full if is_shrunk else 0,
            )

    def _use(self, limit: int, forms: Mapping[str, FormName]) -> PoolUse:
        used = self._base + sum(self._costs[name, form] for name, form in forms.items())
        items = len(self.tools) - len(self._own) + len(forms)
        return PoolUse(name=TOOL_POOL, limit=limit, max_tokens=limit, used=used, items=items)


def _by_score(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


def read_names(found: str) -> Iterator[str]:
    r"""Yield the names of the definitions in the result of a search.

    >>> list(read_names('{"name":"now"}\n{"name":"look_up","description":"Look up"}\n{"name":7}\nAnd a note.'))
    ['now', 'look_up']
    """
    for line in found.splitlines():
        try:
            name = msgspec.json.decode(line, type=dict[str, Any]).get("name")
        except msgspec.DecodeError:
            continue
        if isinstance(name, str):
            yield name


def search_tools(
    tools: Sequence[Tool], query: str, max_tokens: int, counter: TokenCounter, similarity: Similarity | None
) -> list[Tool]:
    """Return the tools that match a query best, whose definitions take at most `max_tokens` together.

    One that is too large is shortened. Whatever its form is, the next request has it in full.
    """
    ranking = ToolRanking(tools, similarity)
    scores = ranking.score(query)
    least = _MIN_WANTED * max(scores.values(), default=0.0)
    order = [*ranking.find_named(query), *(name for name in _by_score(scores) if scores[name] >= least > 0)]
    by_name = {tool.name: tool for tool in tools}
    found: list[Tool] = []
    for name in [*dict.fromkeys(order)][:_MAX_FOUND]:
        for form in (by_name[name], shorten_tool(by_name[name]), Tool(name=name)):
            if counter.text(write_tools([*found, form])).upper <= max_tokens:
                found.append(form)
                break
    return found
