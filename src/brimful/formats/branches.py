"""Split a tree of messages into branches, so that a later export of the same tree only adds to them."""

from collections.abc import Iterable, Mapping

import msgspec

from brimful.formats.ids import join_id


class Branch(msgspec.Struct, frozen=True):
    """Nodes one after the other. `start` is the node that parts it from another branch: it was said `after` that one.

    The `shown` one repeats what was said before it parted.
    """

    nodes: tuple[str, ...]
    start: str | None = None
    after: str | None = None
    shown: bool = False

    def room(self, main: str) -> str:
        """Return the room of a branch, after that of the first one."""
        if self.start is None:
            return main
        return join_id(main, "shown", self.start) if self.shown else join_id(main, self.start)

    def id(self, main: str, node: str) -> str:
        """Return the id of a message in it: only in the branch that repeats others, it is one of its room's own."""
        return join_id(self.room(main) if self.shown else main, node)


def split_branches(parents: Mapping[str, str | None], current: str | None = None) -> list[Branch]:
    """Part a tree, given as each node's parent in the order in which nodes were made.

    The first branch begins at the root and goes on with what was said first. Every other answer or question begins a
    branch of what was said only there. If what was shown last, up to `current` or to the last node, is not in the first
    branch, then it is one as a whole. Damaged trees, with circles or without a root, are parted as well.

    >>> [branch.nodes for branch in split_branches({"a": None, "b": "a", "c": "a", "d": "c", "e": "a"}, "d")]
    [('a', 'b'), ('a', 'c', 'd'), ('e',)]
    """
    parts = _partition(parents)
    line = _ancestors(parents, current if current in parents else next(reversed(list(parents)), None))
    starts = {part.start for part in parts[1:]}
    start = next((node for node in line if node in starts), None)
    if start is None:
        return parts
    whole = Branch(tuple(reversed(line)), start, parents[start] if parents[start] in parents else None, shown=True)
    told = set(line)
    return [parts[0], whole, *(part for part in parts[1:] if not told.issuperset(part.nodes))]


def find_message_ids(found: Iterable[Branch], main: str) -> dict[str, str]:
    """Return the ids of messages by their nodes; of one that is repeated, that of where it was said."""
    shown_first = sorted(found, key=lambda branch: not branch.shown)
    return {node: branch.id(main, node) for branch in shown_first for node in branch.nodes}


def _partition(parents: Mapping[str, str | None]) -> list[Branch]:
    """Return branches of which every node is in exactly one. What is shown does not matter."""
    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent in parents:
            children.setdefault(str(parent), []).append(node)
    taken: set[str] = set()
    found: list[Branch] = []
    for node in parents:
        if node not in taken:
            start = _topmost_unassigned(node, parents, taken)
            after = parents[start] if parents[start] in taken else None
            nodes = tuple(_first_child_path(start, children, taken))
            found.append(Branch(nodes, start, after) if found else Branch(nodes))
    return found


def _ancestors(parents: Mapping[str, str | None], node: str | None) -> list[str]:
    way: dict[str, None] = {}
    while node is not None and node in parents and node not in way:
        way[node] = None
        node = parents[node]
    return list(way)


def _topmost_unassigned(node: str, parents: Mapping[str, str | None], taken: set[str]) -> str:
    """Return the first node above that is in no branch yet: a file may name a child before its parent."""
    for above in _ancestors(parents, node):
        if above in taken:
            break
        node = above
    return node


def _first_child_path(node: str, children: Mapping[str, list[str]], taken: set[str]) -> list[str]:
    way = []
    following: str | None = node
    while following is not None:
        way.append(following)
        taken.add(following)
        following = next((child for child in children.get(following, ()) if child not in taken), None)
    return way
