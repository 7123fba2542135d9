"""Smaller forms of a unit: an excerpt for the current message, a digest, or one line, each counted again.

History gets digests and stubs, which do not depend on the current message, so that its prefix stays the same from turn
to turn. Everything else gets excerpts.
"""

from collections.abc import Mapping, Sequence
from operator import gt
from types import MappingProxyType
from typing import Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import ContentPackage, Form, Media, Part, Text, ToolCall, ToolResult, with_content
from brimful.core.cost import REASONING_KEY, count_content, is_from_user, region_of
from brimful.core.decision import FormName
from brimful.core.frame import LeftOut, part_text
from brimful.core.handles import Handles
from brimful.core.labels import iso_date
from brimful.core.media import LOW_WORTH, MediaLine, as_form, as_line, describe_media, in_low_detail, is_media
from brimful.core.own_output import is_cut, without_mark
from brimful.core.policy import Forms
from brimful.core.prompt import TokenCounter
from brimful.core.tokens import Count, sum_counts
from brimful.core.units import ShrunkPackage, Unit, find_question, time_key
from brimful.shorten import Shortened, Shortener, TextStructure, add_json_note

_OPTION_SIZES: Final = (1_200, 400, 130)  # tokens of the excerpts from which a pool with the best set chooses
_OPTION_SHARE: Final = 0.7  # of the full cost: larger excerpts are not worth it
_MAX_QUERY_LENGTH: Final = 2_000  # characters
_STRUCTURE_SIZE: Final = 12  # times the size of a text, with its segments and an index of their words
_MARK_FACTOR: Final = 6  # times the tokens of the line that names the handle; a smaller excerpt has no such line
_JOIN_TOKENS: Final = 2  # joined texts may have a token or two more than their parts
_TITLE_LENGTH: Final = 60  # characters of an item's text in its stub
_SOURCES: Final = {
    "tool-result": "tool result",
    "tool-call": "tool call",
    "tool-definition": "tool definition",
    "message-older": "message",
    "memory-episodic": "memory",
    "memory-semantic": "memory",
    "memory-procedural": "memory",
    "lorebook": "lorebook entry",
    "system-prompt": "system prompt",
    "system-note": "note",
    "media-image": "image",
    "media-audio": "audio",
    "media-video": "video",
    "media-document": "document",
}
_NO_QUERIES: Final[Mapping[str, str]] = MappingProxyType({})

_Shrunk = tuple[ContentPackage, FormName, float]
"""A package in a smaller form, the name of the form, and the share of the whole that it is worth."""


class Menu(msgspec.Struct, frozen=True, gc=False):
    """What a pool with the best set chooses from for one unit: the unit in full, then its smaller forms.

    Each has a value, a cost, and the limit that gives it.
    """

    values: Sequence[float]
    costs: Sequence[int]
    limits: Sequence[int]

    def with_price(self, price: float) -> "Menu":
        """Return the same choices, each worth less by the price of its tokens."""
        values = [value - price * cost for value, cost in zip(self.values, self.costs, strict=True)]
        return Menu(values, self.costs, self.limits)

    def with_heading(self, cost: int) -> "Menu":
        """Return the same choices, if each of them also pays for a heading."""
        return Menu(self.values, [each + cost for each in self.costs], self.limits)


class _Mark(msgspec.Struct, frozen=True, gc=False):
    """What names the handle of a shortened text: a line at its end, or a note in JSON. Without a handle, nothing."""

    handle: str = ""
    tokens: int = 0

    @property
    def line(self) -> str:
        return f'\n[… recall "{self.handle}"]'

    @property
    def note(self) -> str:
        return add_json_note("{}", f"recall {self.handle}")

    def add_to(self, shorter: Shortened) -> str:
        if not self.handle:
            return shorter.text
        if shorter.kind == "json":
            return add_json_note(shorter.text, f"recall {self.handle}")
        return shorter.text + self.line


class Shaper:
    """Makes smaller forms of units for one context. Equal arguments give equal forms, and each is made once.

    `low_detail` says that the provider bills pictures by the detail that a request asks for, `bare` that the model's
    reasoning goes first, where the provider does not need it. `queries` are what results
    of tools were for: their excerpts do not depend on the current message, so that they stay the same.
    """

    def __init__(
        self,
        counter: TokenCounter,
        rules: Forms,
        query: str,
        handles: Handles,
        *,
        low_detail: bool = False,
        bare: bool = False,
        queries: Mapping[str, str] = _NO_QUERIES,
    ) -> None:
        self._counter = counter
        self._rules = rules
        self._query = query
        self._queries = queries
        self._handles = handles
        self._low_detail = low_detail
        self._bare = bare
        self._bare_units: dict[str, Unit | None] = {}
        self._known: dict[tuple[str, int], Unit | None] = {}
        self._own: dict[str, Sequence[Form]] = {}
        self._menus: dict[str, Menu] = {}
        self._shorteners: dict[str, Shortener] = {}

    def may_shrink(self, package: ContentPackage) -> bool:
        """Whether the package may be shortened: because it says so, or because the policy does."""
        return self._has_reasoning(package) or self._may_shorten(package)

    def _has_reasoning(self, package: ContentPackage) -> bool:
        return self._bare and REASONING_KEY in package.metadata

    def _may_shorten(self, package: ContentPackage) -> bool:
        return (package.forms != () and self._comes_smaller(package)) or self._floor(package) is not None

    def is_large(self, unit: Unit) -> bool:
        """Whether the unit is so large that it should not take the room of others."""
        return unit.cost > self._rules.over

    def shrink(self, unit: Unit, limit: int) -> Unit | None:
        """Return the largest form of the unit that costs at most `limit`; None if there is none."""
        whole = unit.whole or unit
        index = 0
        if whole.packages[0].forms:
            index, limit = self._find_own_form(whole, limit)
        key = (whole.key, limit)
        if key not in self._known:
            if index:
                self._known[key] = self._take_own_form(whole, index)
            else:
                self._known[key] = self._shrink_media(whole, limit) if whole.tie else self._shrink(whole, limit)
        return self._known[key]

    def without_reasoning(self, unit: Unit) -> Unit | None:
        """Return the unit without the model's reasoning; None if it has none that may go."""
        whole = unit.whole or unit
        if whole.key not in self._bare_units:
            self._bare_units[whole.key] = self._make_bare(whole)
        return self._bare_units[whole.key]

    def _make_bare(self, whole: Unit) -> Unit | None:
        packages, costs, forms = list(whole.packages), list(whole.costs), list[ShrunkPackage]()
        for index, package in enumerate(whole.packages):
            if not self._has_reasoning(package):
                continue
            gone = set(package.metadata[REASONING_KEY])
            parts = tuple(LeftOut() if number in gone else part for number, part in enumerate(package.parts))
            packages[index] = self._with_content(package, parts)
            is_empty = len(gone) == len(parts)
            costs[index] = 0 if is_empty else costs[index] - package.tokens.upper + packages[index].tokens.upper
            forms.append(ShrunkPackage(package.id, "bare", whole.costs[index], 0))
        if not forms:
            return None
        return msgspec.structs.replace(
            whole,
            packages=tuple(packages),
            shares=tuple(costs),
            cost=sum(costs),
            forms=tuple(forms),
            whole=whole,
            limit=sum(costs),
        )

    def smallest(self, unit: Unit) -> Unit | None:
        """Return the smallest form of the unit; None if it cannot be shortened."""
        whole = unit.whole or unit
        if whole.tie is not None:
            return self.shrink(whole, 0)
        base = self.without_reasoning(whole) or whole
        costs = [
            cost - package.tokens.upper + self._smallest_tokens(package) if self._may_shorten(package) else cost
            for package, cost in zip(base.packages, base.costs, strict=True)
        ]
        return self.shrink(whole, sum(costs)) if sum(costs) < whole.cost else None

    def own_menu(self, unit: Unit) -> Menu:
        """Return the unit, and the forms that come with it if it is one package. They cost nothing to make."""
        menu = self._menus.get(unit.key)
        if menu is None:
            menu = self._menus[unit.key] = self._make_own_menu(unit)
        return menu

    def _make_own_menu(self, unit: Unit) -> Menu:
        package, value = unit.packages[0], unit.value
        if not package.forms or len(unit.packages) > 1:
            return Menu((value,), (unit.cost,), (unit.cost,))
        own: Sequence[Form] = package.forms
        around = unit.cost - package.tokens.upper
        costs = (unit.cost, *[around + _form_tokens(form) for form in own])
        if unit.may_shrink and isinstance(package.content, str) and all(map(gt, costs, costs[1:])):
            self._own[package.id] = own  # they are in order, as in most candidates
        else:
            own = self._own_forms(package)
            costs = (unit.cost, *[around + _form_tokens(form) for form in own])
        return Menu((value, *[value * form.worth for form in own]), costs, costs)

    def menu(self, unit: Unit) -> Menu:
        """Return the unit, and forms of several sizes that are made of it."""
        sizes = (size for size in _OPTION_SIZES if size < _OPTION_SHARE * unit.cost)
        made = {each.cost: each for each in (self.shrink(unit, size) for size in sizes) if each}.values()
        every = (unit, *made)
        return Menu([each.value for each in every], [each.cost for each in every], [each.limit for each in every])

    def _find_own_form(self, whole: Unit, limit: int) -> tuple[int, int]:
        """Return the largest of the unit's own forms within a limit, and its cost; (0, limit) if there is none."""
        for index, cost in enumerate(self.own_menu(whole).costs):
            if cost <= limit and index:
                return index, cost
        return 0, limit

    def _floor(self, package: ContentPackage) -> int | None:
        """Return how many tokens an excerpt of the package has at least; None if it may not be shortened."""
        flex = package.flex
        if flex.min_tokens is not None:
            return flex.min_tokens if flex.can_shrink else None
        if not flex.can_shrink or not self._rules.allow(package.kind, package.tokens.upper):
            return None
        if is_media(package):
            return package.tokens.upper
        return self._rules.min_tokens if len(_longest_text(package)) > self._rules.over else None

    def _comes_smaller(self, package: ContentPackage) -> bool:
        """Whether the package comes with a form that is smaller than it."""
        if isinstance(package.content, str):
            return package.flex.can_shrink and min(map(_form_tokens, package.forms)) < package.tokens.upper
        return len(self._own_forms(package)) > 0

    def _own_forms(self, package: ContentPackage) -> Sequence[Form]:
        """Return the forms that come with the package and are smaller than it, largest first, no two of one size.

        Each count is for the whole package in this form.
        """
        if not package.forms or not package.flex.can_shrink:
            return ()
        own = self._own.get(package.id)
        if own is None:
            forms = package.forms if isinstance(package.content, str) else self._count_with_rest(package)
            smaller = [form for form in forms if _form_tokens(form) < package.tokens.upper]
            by_size = {_form_tokens(form): form for form in sorted(smaller, key=lambda form: (form.worth, form.text))}
            own = self._own[package.id] = [by_size[size] for size in sorted(by_size, reverse=True)]
        return own

    def _count_with_rest(self, package: ContentPackage) -> list[Form]:
        """Return the forms of a package of several parts, each with the count of all parts."""
        rest = self._count_besides(package.parts, _longest_text(package))
        counts = ((form, sum_counts([rest, form.tokens], rest.tokenizer)) for form in package.forms if form.tokens)
        return [Form(form.text, form.worth, count) for form, count in counts]

    def _smallest_tokens(self, package: ContentPackage) -> int:
        own = [_form_tokens(form) for form in self._own_forms(package)[-1:]]
        return min([*own, *([self._smallest_made(package)] if self._floor(package) is not None else [])])

    def _smallest_made(self, package: ContentPackage) -> int:
        if package.flex.min_tokens is not None:
            # A cut at the end of a sentence is below its limit, so the limit is twice the minimum.
            return min(package.tokens.upper, 2 * package.flex.min_tokens)
        stub = self._stub(package)
        return self._rules.min_tokens if stub is None else stub.tokens.upper

    def _next_smaller(self, package: ContentPackage, tokens: int) -> int:
        """Return the tokens of the next smaller form of a package that was shortened to this many; 0 if none."""
        for form in self._own_forms(package):
            if (own := _form_tokens(form)) < tokens:
                return own
        stub = self._stub(package)
        if stub is None or stub.tokens.upper >= tokens or self._floor(package) is None:
            return 0
        return stub.tokens.upper

    def _next_larger(self, package: ContentPackage, tokens: int) -> int:
        larger = [own for form in self._own_forms(package) if (own := _form_tokens(form)) > tokens]
        return min(larger, default=package.tokens.upper)

    def _shrink_media(self, whole: Unit, limit: int) -> Unit | None:
        """Return a media item of a message in low detail or as its line, whichever the limit allows."""
        line = whole.tie.line if whole.tie else 0
        low = in_low_detail(whole.packages[0], self._counter) if self._low_detail else None
        cost = 0 if low is None else low.tokens.upper - line
        if low is not None and 0 < cost <= limit:
            return as_form(whole, low, ShrunkPackage(whole.key, "low", whole.cost, 0), cost=cost, worth=LOW_WORTH)
        return as_line(whole, larger=cost if cost > 0 else whole.cost) if limit >= 0 else None

    def _take_own_form(self, whole: Unit, index: int) -> Unit:
        """Return a unit of one package in one of its own forms."""
        package, costs = whole.packages[0], self.own_menu(whole).costs
        form = self._own_forms(package)[index - 1]
        if index + 1 < len(costs):
            smaller = costs[index + 1]
        else:
            below = self._next_smaller(package, _form_tokens(form))
            smaller = costs[index] - _form_tokens(form) + below if below else 0
        return msgspec.structs.replace(
            whole,
            packages=(_with_form(package, form),),
            cost=costs[index],
            forms=(ShrunkPackage(package.id, "digest", costs[index - 1], smaller),),
            whole=whole,
            limit=costs[index],
            worth=form.worth,
        )

    def _shrink(self, whole: Unit, limit: int) -> Unit | None:
        base = self.without_reasoning(whole) or whole
        if base is not whole and base.cost <= limit:
            return base
        packages, costs = list(base.packages), list(base.costs)
        forms = {form.id: form for form in base.forms}
        worth = 1.0
        # The largest package first: one long result is shortened before a second one loses anything.
        for index in sorted(range(len(packages)), key=lambda i: (-costs[i], i)):
            package, over = packages[index], sum(costs) - limit
            form = self._shrink_package(package, package.tokens.upper - over) if over > 0 else None
            if form is not None:
                smaller, name, share = form
                tokens, around = smaller.tokens.upper, costs[index] - package.tokens.upper
                larger, below = self._next_larger(package, tokens), self._next_smaller(package, tokens)
                smaller_cost = around + below if below else 0
                forms[package.id] = ShrunkPackage(package.id, name, around + larger, smaller_cost)
                packages[index], costs[index] = smaller, around + tokens
                worth *= 1 - (1 - share) * whole.costs[index] / whole.cost
        if not forms or sum(costs) > limit:
            return None
        return msgspec.structs.replace(
            whole,
            packages=tuple(packages),
            shares=tuple(costs),
            cost=sum(costs),
            forms=tuple(forms.values()),
            whole=whole,
            limit=limit,
            worth=worth,
        )

    def _shrink_package(self, package: ContentPackage, limit: int) -> _Shrunk | None:
        """Return the largest form of its own that fits, or else one that is made for the limit.

        If the limit is below all of them, return the smallest form.
        """
        own = self._own_forms(package)
        if not any(_form_tokens(form) <= limit for form in own):
            made = self._make_form(package, limit)
            if not own or (made is not None and made[0].tokens.upper <= limit):
                return made
        form = next((form for form in own if _form_tokens(form) <= limit), own[-1])
        return _with_form(package, form), "digest", form.worth

    def _make_form(self, package: ContentPackage, limit: int) -> _Shrunk | None:
        """Shorten the package's longest text to the limit, or to its smallest form if the limit is below that."""
        floor = self._floor(package)
        if floor is None:
            return None
        own = package.flex.min_tokens is not None
        if is_media(package):
            low = in_low_detail(package, self._counter) if self._low_detail else None
            if low is not None and low.tokens.upper <= limit:
                return low, "low", LOW_WORTH
        # A package with a minimum of its own never becomes a line. A cut ends below its limit, so its limit is doubled.
        elif limit >= floor or own:
            form = self._excerpt(package, limit if limit >= floor else 2 * floor, floor if own else 1)
            if form is not None:
                return form
        stub = None if own else self._stub(package)
        return None if stub is None else (stub, "stub", 0.0)

    def _excerpt(self, package: ContentPackage, limit: int, least: int) -> _Shrunk | None:
        text = _longest_text(package)
        rest = 0 if isinstance(package.content, str) else self._count_besides(package.content, text).upper
        query = self._queries.get(package.id)
        in_history = region_of(package) == "history" and package.flex.can_drop and query is None
        mark = self._mark(package, limit)
        room = limit - rest - mark.tokens
        source = without_mark(text) if is_cut(package) else text
        # History is shortened by what it says itself: the current message would change its form, and so the prefix.
        if in_history or (query is not None and not package.matches):
            shorter = _shorten_cached(source, room, self._counter, query or "")
        else:
            shorter = self._shortener(package, source).shorten(room)
        if shorter is None or shorter.text == source or self._counter.text(shorter.text).upper < least:
            return None
        form: FormName = "digest" if in_history else "excerpt"
        return self._with_text(package, text, mark.add_to(shorter)), form, shorter.worth

    def _mark(self, package: ContentPackage, limit: int) -> "_Mark":
        """Return the line at the end of an excerpt that says how to recall the rest; empty if it costs too much."""
        mark = _Mark(self._handles[package.id])
        tokens = max(self._counter.text(text).upper for text in (mark.line, mark.note)) + _JOIN_TOKENS
        costs_much = _MARK_FACTOR * tokens > limit
        return _Mark() if costs_much or package.flex.min_tokens is not None else _Mark(mark.handle, tokens)

    def _shortener(self, package: ContentPackage, text: str) -> Shortener:
        """Return what shortens the text for the current message, around the passages that search found."""
        if package.id not in self._shorteners:
            self._shorteners[package.id] = _make_shortener(
                text, self._counter, self._queries.get(package.id, self._query), package.matches
            )
        return self._shorteners[package.id]

    def _count_besides(self, parts: tuple[Part, ...], text: str) -> Count:
        """Count everything but one text."""
        return count_content(_replace_text(parts, text, ""), self._counter)

    def _stub(self, package: ContentPackage) -> ContentPackage | None:
        """Return the package as one line. Only turns have stubs: a search result is better left out."""
        if region_of(package) not in ("history", "current") or package.flex.min_tokens is not None:
            return None
        if is_media(package):
            return self._with_content(package, tuple(self._line_of(package.id, part) for part in package.parts))
        return self._with_text(package, _longest_text(package), describe(package, self._handles[package.id]))

    def _line_of(self, id: str, part: Part) -> Part:
        return MediaLine(text=describe_media(part, self._handles[id])) if isinstance(part, Media) else part

    def _with_text(self, package: ContentPackage, old: str, new: str) -> ContentPackage:
        """Return the package with its longest text replaced. Duplicates of the whole stay duplicates by its hashes."""
        content = new if isinstance(package.content, str) else _replace_text(package.content, old, new)
        return self._with_content(package, content)

    def _with_content(self, package: ContentPackage, content: str | tuple[Part, ...]) -> ContentPackage:
        return with_content(package, content, count_content(content, self._counter))


def _make_shortener(
    text: str, counter: TokenCounter, query: str = "", focus: Sequence[tuple[int, int]] = ()
) -> Shortener:
    any_query = ""  # the structure is cached for all of them
    return Shortener(_analyze(text, any_query, None), lambda part: counter.text(part).upper, query, focus)


_analyze: Final = memoize(TextStructure, name="forms", size=lambda args, _: _STRUCTURE_SIZE * content_bytes(args[0]))
"""Cached, because long texts are shortened again every turn, each time for another message."""


def _shorten(text: str, limit: int, counter: TokenCounter, query: str) -> Shortened | None:
    return _make_shortener(text, counter, query).shorten(limit)


_shorten_cached: Final = memoize(
    _shorten, name="forms", size=lambda args, _: content_bytes(args[0]) + content_bytes(args[3])
)
"""Cached, because a digest does not depend on the current message, nor does an excerpt of a tool's result."""


def find_query(packages: Sequence[ContentPackage]) -> str:
    """Return what the excerpts are for: the current message, or else the last words of the user."""
    question = find_question(packages)
    return question.text[:_MAX_QUERY_LENGTH] if question else ""


def find_step_queries(packages: Sequence[ContentPackage]) -> dict[str, str]:
    """Return what each result of a tool is for: what the user said last before it, and the arguments of its call."""
    asked, arguments, queries = "", dict[str, str](), dict[str, str]()
    for package in sorted(packages, key=time_key):
        if is_from_user(package) and package.text:
            asked = package.text[:_MAX_QUERY_LENGTH]
        for part in package.parts:
            if isinstance(part, ToolCall):
                arguments[part.id] = part.arguments[:_MAX_QUERY_LENGTH]
            elif isinstance(part, ToolResult):
                queries[package.id] = f"{asked} {arguments.get(part.id, '')}"
    return queries


def describe(package: ContentPackage, handle: str) -> str:
    """Return one line that says what a package was: its kind, from whom and when, its size, beginning and handle."""
    title = " ".join(_longest_text(package)[: 4 * _TITLE_LENGTH].split())[:_TITLE_LENGTH].rstrip()
    return f'[{describe_source(package)}, left out: {title} … · recall "{handle}"]'


def describe_source(package: ContentPackage) -> str:
    """Return what a package is, from whom and when, and its size.

    >>> from brimful.core.tokens import Count
    >>> tokens = Count(tokens=8005, basis="exact")
    >>> describe_source(ContentPackage(id="m", kind="message-recent", content="…", name="Ada", tokens=tokens))
    'message from Ada, 8,005 tokens'
    """
    kind = package.kind if region_of(package) in ("pinned", "related") else "message"
    who = f" from {package.name}" if package.name else ""
    day = f", {date}" if (date := iso_date(package.timestamp)) else ""
    return f"{_SOURCES.get(package.kind, kind)}{who}{day}, {package.tokens.tokens:,} tokens"


def _longest_text(package: ContentPackage) -> str:
    if isinstance(package.content, str):
        return package.content
    texts = (
        part_text(part)
        for part in package.content
        if isinstance(part, Text | ToolResult) and not isinstance(part, MediaLine)
    )
    return max(texts, key=len, default="")


def _form_tokens(form: Form) -> int:
    count = form.tokens
    return count.tokens + count.margin if count else 0


def _with_form(package: ContentPackage, form: Form) -> ContentPackage:
    """Return the package in one of its own forms. Duplicates of the whole stay duplicates by its hashes."""
    parts = package.content
    content = form.text if isinstance(parts, str) else _replace_text(parts, _longest_text(package), form.text)
    return with_content(package, content, form.tokens or package.tokens)


def _replace_text(parts: tuple[Part, ...], old: str, new: str) -> tuple[Part, ...]:
    replaced: list[Part] = []
    found = False
    for part in parts:
        if not found and isinstance(part, Text) and part.text == old:
            part, found = Text(text=new), True  # noqa: PLW2901 - the part with another text
        elif not found and isinstance(part, ToolResult) and part.content == old:
            part, found = msgspec.structs.replace(part, content=new), True  # noqa: PLW2901
        replaced.append(part)
    return tuple(replaced)
