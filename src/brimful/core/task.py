"""The task of a context: the user's message that the model works on, in as many requests as it calls tools."""

from collections.abc import Sequence
from itertools import dropwhile, takewhile

import msgspec

from brimful.core.content import ContentPackage, Text, ToolCall
from brimful.core.cost import is_own, region_of, role_of
from brimful.core.labels import without_reminders


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a model works on. All numbers are indexes of packages.

    `question` is the message that states the task, and `opening` the first message of the user; both are None if they
    are not among the packages. `goes_on` says that the model has worked on it before, and `calls` are the calls of
    tools that it made last.
    """

    question: int | None = None
    opening: int | None = None
    goes_on: bool = False
    calls: tuple[int, ...] = ()


def find_task(packages: Sequence[ContentPackage]) -> Task:
    """Return the task of a context.

    It lasts until the model answers without a call. What the user says while tools run belongs to it, as do reminders
    that programs add to results. A message of reminders alone states none.
    """
    turns = [
        index
        for index, package in enumerate(packages)
        if region_of(package) in ("history", "current") and role_of(package) != "system" and not is_own(package)
    ]
    turns.sort(key=lambda index: _order(packages[index]))
    question = opening = None
    is_working = False
    for index in turns:
        package = packages[index]
        if role_of(package) != "user":
            is_working = role_of(package) == "tool" or has_calls(package)
        elif not is_working and not _is_reminder(package):
            question = index
            opening = index if opening is None else opening
    after = turns[turns.index(question) + 1 :] if question is not None else turns
    said = dropwhile(lambda index: role_of(packages[index]) in ("tool", "user"), reversed(after))
    calls = tuple(takewhile(lambda index: has_calls(packages[index]), said))[::-1]
    goes_on = any(role_of(packages[index]) != "user" for index in after)
    return Task(question=question, opening=opening, goes_on=goes_on, calls=calls)


def _order(package: ContentPackage) -> tuple[bool, float, int]:
    """Return the sort key of a turn: the current message is the last one, whatever its time."""
    return region_of(package) == "current", package.timestamp, package.position


def _is_reminder(package: ContentPackage) -> bool:
    parts = (Text(text=package.content),) if isinstance(package.content, str) else package.content
    return all(isinstance(part, Text) and not without_reminders(part.text).strip() for part in parts)


def has_calls(package: ContentPackage) -> bool:
    """Whether the model called tools in a message."""
    return not isinstance(package.content, str) and any(isinstance(part, ToolCall) for part in package.content)
