"""Stable ids for records that have none, derived from their content: the same file always gives the same ids.

A tree of messages is split into branches in such a way that a later export of the same tree only adds to them.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

MAX_ID_CHARS = 200  # databases cannot index more than 2,700 bytes


class IdChain:
    """Ids for the messages of one conversation. Each depends on all messages before it.

    Two conversations in one room share no id after their first difference, and a file that has grown gives the same
    ids as before, followed by new ones.

    >>> IdChain("room").next("Hi") == IdChain("room").next("Hi")
    True
    >>> IdChain("room").next("Hi") == IdChain("hall").next("Hi")
    False
    """

    def __init__(self, *seed: object) -> None:
        self._state = _digest(b"", seed)

    def next(self, *content: object) -> str:
        self._state = _digest(self._state, content)
        return f"msg-{self._state.hex()}"


class OccurrenceIds:
    """Ids for the messages of one room. Each depends only on its own content, and on how often that occurred before.

    A file in which a message was changed gives the same ids as before for all other messages.

    >>> ids = OccurrenceIds("room")
    >>> first, again = ids.next("Ada", "noon"), ids.next("Ada", "noon")
    >>> first == OccurrenceIds("room").next("Ada", "noon"), first == again
    (True, False)
    """

    def __init__(self, *seed: object) -> None:
        self._seed = _digest(b"", seed)
        self._seen: dict[bytes, int] = {}

    def next(self, *content: object) -> str:
        """Return the id of the next message."""
        mark = _digest(self._seed, content)
        number = self._seen[mark] = self._seen.get(mark, 0) + 1
        return f"msg-{_digest(mark, number).hex()}"


def join_id(*parts: object) -> str:
    """Join the parts of an id by slashes. One that is too long is shortened and gets a hash.

    >>> join_id("chatgpt", 7), len(join_id("chatgpt", "x" * 9999))
    ('chatgpt/7', 200)
    """
    id = "/".join(map(str, parts))
    if len(id) <= MAX_ID_CHARS:
        return id
    mark = _digest(b"", [id]).hex()
    return f"{id[: MAX_ID_CHARS - len(mark) - 1]}~{mark}"


def content_key(*content: object) -> str:
    """Return 32 characters that are the same for the same content.

    >>> len(content_key("a", 1)), content_key("a") == content_key("b")
    (32, False)
    """
    return _digest(b"", content).hex()


def _digest(before: bytes, values: object) -> bytes:
    return hashlib.blake2b(before + msgspec.json.encode(values), digest_size=16).digest()


class Branch(msgspec.Struct, frozen=True):
    """A path of nodes. `start` is its first own node, which follows `after`, a node of another branch.

    A branch that is `shown` also contains the nodes before `start`.
    """

    nodes: tuple[str, ...]
    start: str | None = None
    after: str | None = None
    shown: bool = False

    def room(self, main: str) -> str:
        """Return the room of the branch; `main` is the room of the first one."""
        if self.start is None:
            return main
        return join_id(main, "shown", self.start) if self.shown else join_id(main, self.start)

    def id(self, main: str, node: str) -> str:
        """Return the id of a message. In the branch that is shown, ids are prefixed by its own room."""
        return join_id(self.room(main) if self.shown else main, node)


def split_branches(parents: Mapping[str, str | None], current: str | None = None) -> list[Branch]:
    """Split a tree, which is given as the parent of each node, in the order in which nodes were created.

    The first branch starts at the root and follows the oldest child of each node. Every other child starts a branch
    with only its own nodes. If the path that was shown last (to `current`, or to the last node) is not the first
    branch, it becomes a branch as a whole. Damaged trees, with cycles or without a root, are split as well.

    >>> [branch.nodes for branch in split_branches({"a": None, "b": "a", "c": "a", "d": "c", "e": "a"}, "d")]
    [('a', 'b'), ('a', 'c', 'd'), ('e',)]
    """
    parts = _partition(parents)
    path = _ancestors(parents, current if current in parents else next(reversed(list(parents)), None))
    starts = {part.start for part in parts[1:]}
    start = next((node for node in path if node in starts), None)
    if start is None:
        return parts
    shown = Branch(tuple(reversed(path)), start, parents[start] if parents[start] in parents else None, shown=True)
    on_path = set(path)
    return [parts[0], shown, *(part for part in parts[1:] if not on_path.issuperset(part.nodes))]


def find_message_ids(branches: Iterable[Branch], main: str) -> dict[str, str]:
    """Return the ids of messages by their nodes; for a node in two branches, the id in its original branch."""
    shown_first = sorted(branches, key=lambda branch: not branch.shown)
    return {node: branch.id(main, node) for branch in shown_first for node in branch.nodes}


def _partition(parents: Mapping[str, str | None]) -> list[Branch]:
    """Return branches such that every node is in exactly one of them."""
    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent in parents:
            children.setdefault(str(parent), []).append(node)
    taken: set[str] = set()
    branches: list[Branch] = []
    for node in parents:
        if node not in taken:
            start = _topmost_unassigned(node, parents, taken)
            after = parents[start] if parents[start] in taken else None
            nodes = tuple(_first_child_path(start, children, taken))
            branches.append(Branch(nodes, start, after) if branches else Branch(nodes))
    return branches


def _ancestors(parents: Mapping[str, str | None], node: str | None) -> list[str]:
    path: dict[str, None] = {}
    while node is not None and node in parents and node not in path:
        path[node] = None
        node = parents[node]
    return list(path)


def _topmost_unassigned(node: str, parents: Mapping[str, str | None], taken: set[str]) -> str:
    """Return the topmost ancestor that is in no branch yet: a file may list a child before its parent."""
    for ancestor in _ancestors(parents, node):
        if ancestor in taken:
            break
        node = ancestor
    return node


def _first_child_path(node: str, children: Mapping[str, list[str]], taken: set[str]) -> list[str]:
    path = []
    following: str | None = node
    while following is not None:
        path.append(following)
        taken.add(following)
        following = next((child for child in children.get(following, ()) if child not in taken), None)
    return path
