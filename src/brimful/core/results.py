"""What tools answered: results, each with what the tool showed beside its words."""

from collections.abc import Iterable

from brimful.core.content import Part, ToolResult


def results_of(parts: Iterable[Part]) -> list[tuple[ToolResult, tuple[Part, ...]]]:
    """Return the results in a tool's message, each with the parts that belong to it: itself, and what follows it.

    >>> from brimful.core.content import Text
    >>> one, two = ToolResult(id="a", content="1"), ToolResult(id="b", content="2")
    >>> [(result.id, len(parts)) for result, parts in results_of((one, Text(text="[image]"), two))]
    [('a', 2), ('b', 1)]
    """
    answers: list[tuple[ToolResult, list[Part]]] = []
    for part in parts:
        if isinstance(part, ToolResult):
            answers.append((part, [part]))
        elif answers:
            answers[-1][1].append(part)
    return [(result, tuple(own)) for result, own in answers]
