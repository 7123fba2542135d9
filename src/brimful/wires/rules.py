"""Request validation: a report of violations, and the rules that all providers share."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from brimful.wires.normalize import is_tool_name

Object = dict[str, Any]


class Report:
    """Collects violations. The `require_…` methods return a valid value, or add a violation.

    >>> report = Report()
    >>> report.require_string("messages[0].content", 7)
    >>> report.violations
    ['messages[0].content: must be a string, not a number']
    """

    def __init__(self) -> None:
        self.violations: list[str] = []

    def add(self, path: str, sentence: str) -> None:
        self.violations.append(f"{path}: {sentence}")

    def require_string(self, path: str, value: object) -> str | None:
        """Return a string, or add a violation."""
        if isinstance(value, str):
            return value
        self.add(path, f"must be a string, {_describe_type(value)}")
        return None

    def require_nonblank(self, path: str, value: object) -> str | None:
        """Return a string that is not blank, or add a violation."""
        text = self.require_string(path, value)
        if text is not None and not text.strip():
            self.add(path, "must not be empty")
            return None
        return text

    def require_object(self, path: str, value: object) -> Object | None:
        """Return an object, or add a violation."""
        if isinstance(value, dict):
            return value
        self.add(path, f"must be an object, {_describe_type(value)}")
        return None

    def require_list(self, path: str, value: object) -> list[Any]:
        """Return a list that is not empty, or add a violation and return an empty one."""
        if isinstance(value, list) and value:
            return value
        self.add(path, "must not be empty" if value == [] else f"must be a list, {_describe_type(value)}")
        return []

    def require_objects(self, path: str, value: object) -> Iterator[tuple[str, Object]]:
        """Yield the objects of a list with their paths."""
        for index, item in enumerate(self.require_list(path, value)):
            item_path = f"{path}[{index}]"
            found = self.require_object(item_path, item)
            if found is not None:
                yield item_path, found

    def require_positive(self, path: str, value: object) -> None:
        """Add a violation unless the value is a positive integer."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.add(path, "must be a positive integer" + (", but is missing" if value is None else ""))

    def require_one_of(self, path: str, value: object, allowed: tuple[str, ...]) -> str | None:
        """Return a string that is one of `allowed`, or add a violation."""
        if isinstance(value, str) and value in allowed:
            return value
        self.add(path, f"must be one of {', '.join(allowed)}, {describe_value(value)}")
        return None


def finds_violations(check: Callable[[Report, Object], None]) -> Callable[[object], list[str]]:
    """Return a function that returns what a check reports of a request, which must name a model."""

    @wraps(check)
    def find(request: object) -> list[str]:
        report = Report()
        body = report.require_object("request", request)
        if body is not None:
            report.require_nonblank("model", body.get("model"))
            check(report, body)
        return report.violations

    return find


class CallPairing:
    """Matches tool calls with their results: every call must have one result, before any other message.

    If a provider has no ids, calls and results are matched by the tool's name, which may occur twice.

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

    def call(self, path: str, id: str) -> None:
        if id in self._seen:
            self._report.add(path, f"tool call id {id!r} is used twice")
        self._seen.add(id)
        self._waiting.append((id, path))

    def call_by_name(self, path: str, name: str) -> None:
        """Add a call without an id."""
        self._waiting.append((name, path))

    def result(self, path: str, key: str) -> None:
        """Add a result with the id of its call, or the name of its tool."""
        index = next((index for index, (waiting, _) in enumerate(self._waiting) if waiting == key), None)
        if index is None:
            self._report.add(path, f"tool result for {key!r} without its call")
        else:
            del self._waiting[index]

    def close(self) -> None:
        """Report all calls that are still without a result."""
        for key, path in self._waiting:
            self._report.add(path, f"tool call {key!r} without its result")
        self._waiting.clear()


def check_tools(report: Report, tools: Iterator[tuple[str, Object]]) -> None:
    """Check the names and descriptions of tools, given the objects that have the `name`."""
    seen: set[str] = set()
    for path, tool in tools:
        name = tool.get("name")
        if not is_tool_name(name):
            report.add(f"{path}.name", f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {describe_value(name)}")
        elif name in seen:
            report.add(f"{path}.name", f"{name!r} is used twice")
        else:
            seen.add(str(name))
        if "description" in tool:
            report.require_string(f"{path}.description", tool["description"])


def describe_value(value: object) -> str:
    """Describe a wrong value; a string is shown, shortened to fit on a line.

    >>> describe_value("Ada"), describe_value(7), describe_value(None)
    ("not 'Ada'", 'not a number', 'but is missing')
    """
    return f"not {value[:80]!r}" if isinstance(value, str) else _describe_type(value)


def _describe_type(value: object) -> str:
    match value:
        case None:
            return "but is missing"
        case bool():
            return "not a boolean"
        case int() | float():
            return "not a number"
        case str():
            return "not a string"
        case list():
            return "not a list"
        case _:
            return "not an object"
