"""A tree of messages → branches that share none: the one that was shown last, and what was said beside it."""

from collections.abc import Mapping

import msgspec


class Branch(msgspec.Struct, frozen=True):
    """Nodes one after the other, and the node of another branch after which they begin."""

    nodes: tuple[str, ...]
    after: str | None = None


def branches(parents: Mapping[str, str | None], current: str | None = None) -> list[Branch]:
    """Part a tree, given as each node's parent in the order of the file.

    The branch that ends in `current` is the first; without it, the one that ends in the last node of the file. Damaged
    trees, with circles or without a root, are parted as well: every node is in exactly one branch.

    >>> [branch.nodes for branch in branches({"a": None, "b": "a", "c": "a", "d": "c"}, "b")]
    [('a', 'b'), ('c', 'd')]
    """
    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent in parents:
            children.setdefault(str(parent), []).append(node)
    taken: set[str] = set()
    first = _way_up(parents, current if current in parents else next(reversed(list(parents)), None))
    found = [Branch(tuple(reversed(first)))] if first else []
    taken.update(first)
    for node in parents:
        if node not in taken:
            start = _highest(node, parents, taken)
            nodes = _way_down(start, children, taken)
            parent = parents[start]
            found.append(Branch(tuple(nodes), parent if parent in taken and parent not in nodes else None))
    return found


def _way_up(parents: Mapping[str, str | None], node: str | None) -> list[str]:
    way: dict[str, None] = {}
    while node is not None and node in parents and node not in way:
        way[node] = None
        node = parents[node]
    return list(way)


def _highest(node: str, parents: Mapping[str, str | None], taken: set[str]) -> str:
    """Return the first node above that is in no branch yet: a file may name a child before its parent."""
    for above in _way_up(parents, node):
        if above in taken:
            break
        node = above
    return node


def _way_down(node: str, children: Mapping[str, list[str]], taken: set[str]) -> list[str]:
    way = []
    following: str | None = node
    while following is not None:
        way.append(following)
        taken.add(following)
        following = next((child for child in children.get(following, ()) if child not in taken), None)
    return way
