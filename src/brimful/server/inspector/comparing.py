"""What differs between two contexts, as it is shown."""

from collections.abc import Iterable, Iterator

from brimful.answers import Build
from brimful.core.context import Context
from brimful.core.explain import Change, diff
from brimful.server.inspector.names import Names
from brimful.server.inspector.showing import excerpt, packages_of, parsed, row_of, told
from brimful.server.inspector.views import ChangeView, ComparedPart, DiffView


class Changes:
    """Shows changes between two contexts: each with its kind, and the beginning of its text."""

    def __init__(self, before: Context, after: Context) -> None:
        """Compare two contexts."""
        self.difference = diff(before, after)
        self._before, self._after = before.fates, after.fates
        self._packages = packages_of(before) | packages_of(after)

    def shown(self, changes: Iterable[Change]) -> tuple[ChangeView, ...]:
        """Return changes as they are shown."""
        return tuple(
            ChangeView(
                id=change.id,
                kind=(self._after.get(change.id) or self._before[change.id]).kind,
                before=change.before,
                after=change.after,
                before_reason=change.before_reason,
                after_reason=change.after_reason,
                tokens=change.tokens,
                excerpt=excerpt(told(self._packages[change.id].content)),
            )
            for change in changes
        )


def compared(before: tuple[Build, Context], after: tuple[Build, Context], names: Names) -> DiffView:
    """Return two contexts side by side."""
    changes = Changes(before[1], after[1])
    difference = changes.difference
    return DiffView(
        before=row_of(before[0], names),
        after=row_of(after[0], names),
        entered=changes.shown(difference.entered),
        left=changes.shown(difference.left),
        changed=changes.shown(difference.changed),
        common_prefix=difference.common_prefix,
        prefix_share=difference.prefix_share,
        messages=tuple(_messages(before[1], after[1])),
    )


def _messages(before: Context, after: Context) -> Iterator[ComparedPart]:
    """Yield the messages of the later request; the first that differs ends what is the same."""
    earlier = [(message.role, message.name, message.parts) for message in parsed(before).messages]
    same = True
    for at, message in enumerate(parsed(after).messages):
        same = same and at < len(earlier) and earlier[at] == (message.role, message.name, message.parts)
        text = told(message.parts)
        yield ComparedPart(role=message.role, excerpt=excerpt(text), characters=len(text), same=same)
