"""What the checkers share: a list of findings with places, and the rules that all providers have."""

from collections.abc import Iterator
from typing import Any

from brimful.render.normalize import is_tool_name

Object = dict[str, Any]


class Report:
    """Collects violations. The `want_…` methods return a value that has the right form, or note that it has not.

    >>> report = Report()
    >>> report.want_text("messages[0].content", 7)
    >>> report.violations
    ['messages[0].content: must be a text, not a number']
    """

    def __init__(self) -> None:
        self.violations: list[str] = []

    def add(self, place: str, sentence: str) -> None:
        """Note a violation at a place."""
        self.violations.append(f"{place}: {sentence}")

    def want_text(self, place: str, value: object) -> str | None:
        """Return a text, or note that it is none."""
        if isinstance(value, str):
            return value
        self.add(place, f"must be a text, {_describe_type(value)}")
        return None

    def want_filled(self, place: str, value: object) -> str | None:
        """Return a text with more than white space in it, or note that it is none."""
        text = self.want_text(place, value)
        if text is not None and not text.strip():
            self.add(place, "must not be empty")
            return None
        return text

    def want_object(self, place: str, value: object) -> Object | None:
        """Return an object, or note that it is none."""
        if isinstance(value, dict):
            return value
        self.add(place, f"must be an object, {_describe_type(value)}")
        return None

    def want_list(self, place: str, value: object) -> list[Any]:
        """Return a list with something in it, or note that it is none and return an empty one."""
        if isinstance(value, list) and value:
            return value
        self.add(place, "must not be empty" if value == [] else f"must be a list, {_describe_type(value)}")
        return []

    def want_objects(self, place: str, value: object) -> Iterator[tuple[str, Object]]:
        """Go through a list of objects, each with its place."""
        for index, item in enumerate(self.want_list(place, value)):
            at = f"{place}[{index}]"
            found = self.want_object(at, item)
            if found is not None:
                yield at, found

    def want_positive(self, place: str, value: object) -> None:
        """Note a number that is no positive whole number."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.add(place, "must be a whole number above 0" + (", and is missing" if value is None else ""))

    def want_one_of(self, place: str, value: object, allowed: tuple[str, ...]) -> str | None:
        """Return a text that is one of a few, or note that it is none of them."""
        if isinstance(value, str) and value in allowed:
            return value
        self.add(place, f"must be one of {', '.join(allowed)}, {describe_value(value)}")
        return None


class CallPairing:
    """Follows tool calls to their results: every call is answered once, before anybody else speaks.

    Where a provider has no ids, calls and results go by the tool's name, which may be called twice.

    >>> report = Report()
    >>> pairing = CallPairing(report)
    >>> pairing.call("messages[1]", "c1")
    >>> pairing.result("messages[2]", "c2")
    >>> pairing.close()
    >>> report.violations
    ["messages[2]: tool result for 'c2' without its call", "messages[1]: tool call 'c1' without its result"]
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._seen: set[str] = set()
        self._waiting: list[tuple[str, str]] = []

    def call(self, place: str, id: str) -> None:
        """Note a call by its id."""
        if id in self._seen:
            self._report.add(place, f"tool call id {id!r} is used twice")
        self._seen.add(id)
        self._waiting.append((id, place))

    def call_by_name(self, place: str, name: str) -> None:
        """Note a call that has no id."""
        self._waiting.append((name, place))

    def result(self, place: str, key: str) -> None:
        """Note a result by the id of its call, or by the name of its tool."""
        index = next((index for index, (waiting, _) in enumerate(self._waiting) if waiting == key), None)
        if index is None:
            self._report.add(place, f"tool result for {key!r} without its call")
        else:
            del self._waiting[index]

    def close(self) -> None:
        """Note that no more results can come."""
        for key, place in self._waiting:
            self._report.add(place, f"tool call {key!r} without its result")
        self._waiting.clear()


def check_tools(report: Report, tools: Iterator[tuple[str, Object]]) -> None:
    """Check names and descriptions of the tools on offer; the objects are those that hold `name`."""
    seen: set[str] = set()
    for place, tool in tools:
        name = tool.get("name")
        if not is_tool_name(name):
            report.add(f"{place}.name", f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {describe_value(name)}")
        elif name in seen:
            report.add(f"{place}.name", f"{name!r} is used twice")
        else:
            seen.add(str(name))
        if "description" in tool:
            report.want_text(f"{place}.description", tool["description"])


def describe_value(value: object) -> str:
    """Say what stands there instead; of a text, as much as a line can hold.

    >>> describe_value("Ada"), describe_value(7), describe_value(None)
    ("not 'Ada'", 'not a number', 'and is missing')
    """
    return f"not {value[:80]!r}" if isinstance(value, str) else _describe_type(value)


def _describe_type(value: object) -> str:
    match value:
        case None:
            return "and is missing"
        case bool():
            return "not true or false"
        case int() | float():
            return "not a number"
        case str():
            return "not a text"
        case list():
            return "not a list"
        case _:
            return "not an object"
