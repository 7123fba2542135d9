"""Edits of configuration files as text: comments, order and indentation of everything else stay as they are.

An edit sets a key or adds an item to a list. Each format has a class that parses a text, and inserts, replaces and
removes single values: JSON (with the comments and trailing commas that programs accept), YAML and TOML. The result is
parsed again, and everything besides the edits must be as it was.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol

import msgspec

from brimful.errors import MissingExtra

Path = tuple[str, ...]


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A value at a path of keys, or an item of the list there.

    With `keep`, a value that somebody else has set counts as well. An item is ours if all its commands begin with
    `mark`; without a mark, if it is equal.
    """

    path: Path
    value: Any
    item: bool = False
    keep: bool = False
    mark: str = ""

    def is_ours(self, item: object) -> bool:
        """Return whether an item of the list was added by this edit, now or by another version."""
        if not self.mark:
            return bool(item == self.value)
        hooks = item.get("hooks") if isinstance(item, dict) else None
        hooks = hooks if isinstance(hooks, list) else []
        commands = [each.get("command") if isinstance(each, dict) else None for each in hooks]
        return bool(commands) and all(isinstance(each, str) and each.startswith(self.mark) for each in commands)

    def is_in(self, data: object) -> bool:
        """Return whether there is nothing to do."""
        found = find(data, self.path)
        if self.item:
            return isinstance(found, list) and any(map(self.is_ours, found))
        return found is not None if self.keep else found == self.value


class Unreadable(ValueError):
    """A text that cannot be parsed or edited. The message names the line."""


class Format(Protocol):
    """How the texts of one format are parsed and edited."""

    def parse(self, text: str) -> Any:
        """Return the data of a text; an empty text is an empty object."""

    def insert(self, text: str, path: Path, value: object, *, item: bool) -> str:
        """Return the text with a value at the path, or as the last item of the list there."""

    def remove(self, text: str, path: Path, index: int | None) -> str:
        """Return the text without the value at the path, or without an item of the list there."""

    def raw(self, text: str, path: Path) -> str:
        """Return the value at the path as it is written."""

    def replace(self, text: str, path: Path, raw: str) -> str:
        """Return the text with the value at the path written like this."""


def apply(text: str, edits: Sequence[Edit], form: Format) -> str:
    """Return the text with the edits. What is there already stays."""
    data = _parse_object(text, form)
    try:
        changed = _insert_all(text, edits, form)
        found = form.parse(changed)
        is_right = all(edit.is_in(found) for edit in edits)
        return _checked(changed, is_right and without(found, edits), without(data, edits))
    except Unreadable as error:
        wanted = "; ".join(f"{'.'.join(edit.path)}: {json.dumps(edit.value)}" for edit in edits)
        raise Unreadable(f"cannot be edited ({error}). Add these entries by hand: {wanted}") from None


def _insert_all(text: str, edits: Sequence[Edit], form: Format) -> str:
    for edit in edits:
        if not edit.is_in(form.parse(text)):
            text = form.insert(text, edit.path, edit.value, item=edit.item)
    return text


def revert(text: str, edits: Sequence[Edit], form: Format, before: str) -> str:
    """Return the text without the edits, and with what they replaced in the text `before` them."""
    data, old, changed = _parse_object(text, form), form.parse(before), text
    for edit in edits:
        changed = _revert_item(changed, edit, form, old) if edit.item else _revert_value(changed, edit, form, before)
    return _checked(changed, without(form.parse(changed), edits), without(data, edits))


def _checked(text: str, found: object, expected: object) -> str:
    """Return the text if all other data are as they were, in their order. Numbers may be NaN, which equals nothing."""
    if repr(found) != repr(expected):
        raise Unreadable("other values would change")
    return text


def _revert_item(text: str, edit: Edit, form: Format, old: object) -> str:
    if edit.is_in(old):
        return text
    while isinstance(items := find(form.parse(text), edit.path), list):
        index = next((i for i, each in enumerate(items) if edit.is_ours(each)), None)
        if index is None:
            break
        text = form.remove(text, edit.path, index)
    return text


def _revert_value(text: str, edit: Edit, form: Format, before: str) -> str:
    data = form.parse(text)
    found, old = find(data, edit.path), find(form.parse(before), edit.path)
    if found != edit.value or found == old:
        return text  # somebody else has set it, now or before
    if old is None:
        return form.remove(text, edit.path, None)
    return form.replace(text, edit.path, form.raw(before, edit.path))


def find(data: object, path: Path) -> Any:
    """Return the value at a path, or None.

    >>> find({"plugins": {"enabled": ["a"]}}, ("plugins", "enabled"))
    ['a']
    """
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _parse_object(text: str, form: Format) -> dict[str, Any]:
    data = form.parse(text)
    if not isinstance(data, dict):
        raise Unreadable("line 1: is not an object with keys and values")
    return data


def without(data: Any, edits: Sequence[Edit]) -> Any:
    """Return a copy of the data without what the edits are about, and without objects and lists that are empty then."""
    for edit in edits:
        data = _prune(data, edit, edit.path)
    return data


def _prune(data: Any, edit: Edit, path: Path) -> Any:
    if not path:
        return [each for each in data if not edit.is_ours(each)] if edit.item and isinstance(data, list) else None
    if not isinstance(data, dict) or path[0] not in data:
        return data
    value = _prune(data[path[0]], edit, path[1:])
    rest = {key: each for key, each in data.items() if key != path[0]}
    return rest if value in (None, {}, []) else {**data, path[0]: value}


# -- texts with braces, brackets or indentation ------------------------------------------------------------------------


class Node(msgspec.Struct, kw_only=True):
    """A value in a text. `keys` has the keys of an object, each with the position where it begins and ends."""

    start: int
    end: int
    kind: str = "scalar"  # or "map" or "list"
    inline: bool = True  # in braces or brackets, not by indentation
    data: Any = None  # of a scalar
    keys: list[tuple[str, int, int]] = []
    children: list["Node"] = []

    def index(self, key: str) -> int | None:
        """Return the index of a key."""
        found = [i for i, (name, _, _) in enumerate(self.keys) if name == key]
        if len(found) > 1:
            raise Unreadable(f"has the key {key!r} twice")
        return found[0] if found else None

    def first(self, index: int) -> int:
        """Return where a child begins, with its key."""
        return self.keys[index][1] if self.keys else self.children[index].start


Step = tuple[Node, int]
"""A container, and the index of one of its children."""


class Tree:
    """What JSON and YAML have in common: values are inserted into and removed from containers."""

    empty: ClassVar[str]
    space: ClassVar[re.Pattern[str]]
    comment: ClassVar[re.Pattern[str]]
    """A comment that ends on the line on which it begins, with the space before it."""

    def read(self, text: str) -> Node | None:
        raise NotImplementedError

    def write(self, value: object, lead: str, unit: str) -> str:
        """Return a value as text. `lead` is what stands before it: a line break and an indentation, or a space."""
        raise NotImplementedError

    def write_key(self, key: str) -> str:
        raise NotImplementedError

    def insert(self, text: str, path: Path, value: object, *, item: bool) -> str:
        """Return the text with a value at the path, or as the last item of the list there."""
        root = self.read(text)
        if root is None:
            text = f"{text}{_line_break(text) if text.strip() and not text.endswith(_BREAKS) else ''}{self.empty}"
            root = self.read(text)
        assert root is not None  # noqa: S101 - it has the empty object
        steps, rest = self._walk(root, path)
        node = steps[-1][0].children[steps[-1][1]] if steps else root
        if rest or item:
            value = [value] if item and rest else value
            for key in reversed(rest[1:]):
                value = {key: value}
            wanted = "map" if rest else "list"
            if node.kind == wanted:
                return self._add(text, steps, node, rest[0] if rest else None, value)
            value = {rest[0]: value} if rest else [value]
            if not steps or node.kind != "scalar" or node.data is not None:
                names = ".".join(path[: len(path) - len(rest)])
                raise Unreadable(f"line {_line(text, node.start)}: {names} is not {_KINDS[wanted]}")
        lead, unit = self._style(text, steps[-1][0], steps[-1][1])
        return self._put(text, node, self.write(value, lead, unit))

    def remove(self, text: str, path: Path, index: int | None) -> str:
        """Return the text without a value, and without containers that are empty then and have no comments."""
        root = self.read(text)
        assert root is not None  # noqa: S101 - the value is in it
        steps, _ = self._walk(root, path)
        if index is not None:
            steps.append((steps[-1][0].children[steps[-1][1]], index))
        while len(steps) > 1 and self._is_alone(text, *steps[-1]):
            steps.pop()
        return self._cut(text, *steps[-1])

    def raw(self, text: str, path: Path) -> str:
        """Return the value at the path as it is written."""
        node = self._get(text, path)
        return text[node.start : node.end]

    def replace(self, text: str, path: Path, raw: str) -> str:
        """Return the text with the value at the path written like this."""
        return self._put(text, self._get(text, path), raw)

    def _get(self, text: str, path: Path) -> Node:
        root = self.read(text)
        assert root is not None  # noqa: S101 - the value is in it
        container, index = self._walk(root, path)[0][-1]
        return container.children[index]

    @staticmethod
    def _walk(root: Node, path: Path) -> tuple[list[Step], Path]:
        """Follow a path as far as it goes. Return the steps, and the keys that are left."""
        steps: list[Step] = []
        node = root
        for depth, key in enumerate(path):
            index = node.index(key)
            if index is None:
                return steps, path[depth:]
            steps.append((node, index))
            node = node.children[index]
        return steps, ()

    def _put(self, text: str, node: Node, raw: str) -> str:
        space = "" if node.end > node.start or text[node.start - 1 : node.start].isspace() else " "
        return f"{text[: node.start]}{space}{raw}{text[node.end :]}"

    def _style(self, text: str, box: Node, index: int) -> tuple[str, str]:
        """Return what stands before a child, and the unit of indentation.

        That is a line break and an indentation, or a space if it is on the line of what comes before it.
        """
        lead = re.search(r"\r?\n[ \t]*$", text[box.start + 1 : box.first(index)] if box.children else "")
        return (lead[0] if lead else " "), _unit(text)

    def _add(self, text: str, steps: list[Step], box: Node, key: str | None, value: object) -> str:
        if not box.inline:
            return self._add_line(text, steps, box, key, value)
        if not box.children:
            return self._add_first(text, box, key, value)
        lead, unit = self._style(text, box, 0)
        entry = lead + self._entry(key, value, lead, unit)
        last = box.children[-1].end
        comma = self._skip(text, last)
        has_comma = text[comma] == ","
        after = comma + 1 if has_comma else last
        position = after
        if "\n" in lead and (comment := self.comment.match(text, after)):
            position = comment.end()  # it belongs to the line before ours
        return f"{text[:after]}{'' if has_comma else ','}{text[after:position]}{entry}{text[position:]}"

    def _add_first(self, text: str, box: Node, key: str | None, value: object) -> str:
        unit, rest = _unit(text), text[box.start + 1 : box.end - 1]
        close = f"{_line_break(text)}{_indentation(text, box.start)}"
        entry = f"{close}{unit}{self._entry(key, value, f'{close}{unit}', unit)}"
        return f"{text[: box.start + 1]}{entry}{rest if rest.strip() else close}{text[box.end - 1 :]}"

    def _add_line(self, text: str, steps: list[Step], box: Node, key: str | None, value: object) -> str:
        raise NotImplementedError

    def _entry(self, key: str | None, value: object, lead: str, unit: str) -> str:
        written = self.write(value, lead, unit)
        return written if key is None else f"{self.write_key(key)}: {written}"

    def _skip(self, text: str, position: int) -> int:
        """Return the position of the next character that is neither space nor in a comment."""
        found = self.space.match(text, position)
        return found.end() if found else position

    def _is_alone(self, text: str, box: Node, index: int) -> bool:
        if len(box.children) > 1:
            return False
        around = text[box.start : box.first(index)] + text[box.children[index].end : box.end]
        return not self.comment.search(around)

    def _cut(self, text: str, box: Node, index: int) -> str:
        if not box.inline:
            return self._cut_lines(text, box, index)
        start, end = box.first(index), box.children[index].end
        comma, before = self._skip(text, end), None
        if text[comma] == ",":
            end = comma + 1
        elif index > 0:
            before = self._skip(text, box.children[index - 1].end)
        is_last = not text[end : _line_end(text, end)].strip()  # of its line
        start = len(text[:start].rstrip(None if is_last else " \t"))
        if before is not None:
            text, start, end = text[:before] + text[before + 1 :], start - 1, end - 1
        rest = text[:start], text[end:]
        if text[start - 1] in "{[" and (close := rest[1].lstrip())[:1] in ("}", "]"):
            return rest[0] + close
        return "".join(rest)

    def _cut_lines(self, text: str, box: Node, index: int) -> str:
        raise NotImplementedError


_BREAKS: Final = ("\n", "\r")
_KINDS: Final = {"map": "an object", "list": "a list"}


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _indentation(text: str, position: int) -> str:
    """Return the white space that the line begins with."""
    line = text[_line_start(text, position) :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    r"""Return the first indentation of a text.

    >>> _unit("a:\n    b: 1"), _unit("{}")
    ('    ', '  ')
    """
    found = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return found[0] if found else "  "


# -- JSON --------------------------------------------------------------------------------------------------------------


_SPACE: Final = r"(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*"
_TOKEN: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[-+.\w]+|[{}\[\],:]')
_MAX_DEPTH: Final = 200  # of containers in each other


class _Json(Tree):
    """JSON, with comments and trailing commas."""

    empty = "{}\n"
    space = re.compile(_SPACE)
    comment = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:[^*\n]|\*(?!/))*\*/)")

    def parse(self, text: str) -> Any:
        """Return the data of a text; an empty text is an empty object."""
        root = self.read(text)
        return {} if root is None else _plain(root)

    def read(self, text: str) -> Node | None:
        if self._skip(text, 0) == len(text):
            return None
        root = self._read_value(text, 0, 0)
        if (end := self._skip(text, root.end)) < len(text):
            raise Unreadable(f"line {_line(text, end)}: expected the end of the file, not {text[end]!r}")
        return root

    def write(self, value: object, lead: str, unit: str) -> str:
        if "\n" not in lead:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", lead)

    def write_key(self, key: str) -> str:
        return json.dumps(key, ensure_ascii=False)

    def _next(self, text: str, position: int, wanted: str) -> tuple[str, int]:
        position = self._skip(text, position)
        found = _TOKEN.match(text, position)
        if found is None:
            got = repr(text[position]) if position < len(text) else "the end of the file"
            raise Unreadable(f"line {_line(text, position)}: expected {wanted}, not {got}")
        return found[0], position

    def _read_value(self, text: str, position: int, depth: int) -> Node:
        symbol, start = self._next(text, position, "a value")
        if depth > _MAX_DEPTH:
            raise Unreadable(f"line {_line(text, start)}: has more than {_MAX_DEPTH} containers in each other")
        if symbol == "{":
            return self._read_map(text, start, depth)
        if symbol == "[":
            return self._read_list(text, start, depth)
        try:
            return Node(start=start, end=start + len(symbol), data=msgspec.json.decode(symbol))
        except msgspec.DecodeError:
            raise Unreadable(f"line {_line(text, start)}: expected a value, not {symbol!r}") from None

    def _read_map(self, text: str, start: int, depth: int) -> Node:
        node, position = Node(start=start, end=start, kind="map"), start + 1
        while True:
            symbol, key = self._next(text, position, "a key or '}'")
            if symbol == "}":
                node.end = key + 1
                return node
            if not symbol.startswith('"'):
                raise Unreadable(f"line {_line(text, key)}: expected a key in double quotes, not {symbol!r}")
            end = key + len(symbol)
            colon, position = self._next(text, end, "':'")
            if colon != ":":
                raise Unreadable(f"line {_line(text, position)}: expected ':', not {colon!r}")
            child = self._read_value(text, position + 1, depth + 1)
            node.keys.append((_decode_key(text, key, symbol), key, end))
            node.children.append(child)
            position = self._read_comma(text, child.end, "}")

    def _read_list(self, text: str, start: int, depth: int) -> Node:
        node, position = Node(start=start, end=start, kind="list"), start + 1
        while True:
            symbol, close = self._next(text, position, "a value or ']'")
            if symbol == "]":
                node.end = close + 1
                return node
            child = self._read_value(text, position, depth + 1)
            node.children.append(child)
            position = self._read_comma(text, child.end, "]")

    def _read_comma(self, text: str, position: int, close: str) -> int:
        symbol, start = self._next(text, position, f"',' or '{close}'")
        if symbol not in (",", close):
            raise Unreadable(f"line {_line(text, start)}: expected ',' or '{close}', not {symbol!r}")
        return start + (symbol == ",")


def _decode_key(text: str, position: int, symbol: str) -> str:
    try:
        return msgspec.json.decode(symbol, type=str)
    except msgspec.DecodeError as error:
        raise Unreadable(f"line {_line(text, position)}: {error}") from None


def _plain(node: Node) -> Any:
    if node.kind == "map":
        return {key: _plain(child) for (key, _, _), child in zip(node.keys, node.children, strict=True)}
    return [_plain(child) for child in node.children] if node.kind == "list" else node.data


# -- YAML --------------------------------------------------------------------------------------------------------------


class _Yaml(Tree):
    """YAML. What is inserted is in braces, on a line of its own, or in the braces that are there."""

    empty = ""
    space = re.compile(r"(?:\s|#[^\n]*)*")
    comment = re.compile(r"[ \t]*#[^\r\n]*")

    def parse(self, text: str) -> Any:
        """Return the data of a text; an empty text is an empty object."""
        yaml = _import_yaml()
        self.read(text)
        data = yaml.safe_load(text)
        return {} if data is None else data

    def read(self, text: str) -> Node | None:
        yaml = _import_yaml()
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise Unreadable(f"line {mark.line + 1 if mark else 1}: {error.problem or error.context}") from None
        except yaml.reader.ReaderError as error:
            raise Unreadable(f"line {_line(text, error.position)}: {error.reason}") from None
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"line 1: {error}") from None
        is_empty = root is None or root.start_mark.index == root.end_mark.index
        return None if is_empty else _from_yaml(root, yaml)

    def write(self, value: object, lead: str, unit: str) -> str:
        del lead, unit
        return json.dumps(value, ensure_ascii=False) if not _is_plain(value) else _flow(value)

    def write_key(self, key: str) -> str:
        return key

    def insert(self, text: str, path: Path, value: object, *, item: bool) -> str:
        """Return the text with a value at the path, or as the last item of the list there."""
        root = self.read(text)
        if root is not None:
            return super().insert(text, path, value, item=item)
        value = [value] if item else value
        for key in reversed(path[1:]):
            value = {key: value}
        return self._append(text, f"{path[0]}: {self.write(value, '', '')}")

    def _add_first(self, text: str, box: Node, key: str | None, value: object) -> str:
        return f"{text[: box.start + 1]}{self._entry(key, value, ' ', '')}{text[box.start + 1 :]}"

    def _add_line(self, text: str, steps: list[Step], box: Node, key: str | None, value: object) -> str:
        entry = self._entry(key, value, "", "")
        if not steps:
            return self._append(text, entry)
        parent, index = steps[-1]
        start = _line_end(text, parent.keys[index][2]) + 1
        dash = "- " if key is None else ""
        return f"{text[:start]}{_indentation(text, box.first(0))}{dash}{entry}{_line_break(text)}{text[start:]}"

    @staticmethod
    def _append(text: str, entry: str) -> str:
        end = _line_break(text)
        return f"{text}{end if text and not text.endswith(end) else ''}{entry}{end}"

    def _cut_lines(self, text: str, box: Node, index: int) -> str:
        start, end = box.first(index), box.children[index].end
        return text[: _line_start(text, start)] + text[_line_end(text, max(start, end - 1)) + 1 :]


def _import_yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("hermes", "a configuration in YAML") from error
    return yaml


def _from_yaml(node: Any, yaml: Any) -> Node:
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.ScalarNode):
        is_null = node.tag == "tag:yaml.org,2002:null"
        return Node(start=start, end=end, data=None if is_null else node.value)
    inline = bool(node.flow_style)
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(None, each) for each in node.value]
    children = [_from_yaml(value, yaml) for _, value in pairs]
    keys = [(str(key.value), key.start_mark.index, key.end_mark.index) for key, _ in pairs if key is not None]
    # An indented block ends where the next token begins, after comments that are not its own.
    end = end if inline or not children else children[-1].end
    kind = "map" if isinstance(node, yaml.MappingNode) else "list"
    return Node(start=start, end=end, kind=kind, inline=inline, keys=keys, children=children)


def _is_plain(value: object) -> bool:
    """Return whether YAML reads all strings of a value as strings without quotes."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str) and re.fullmatch(r"[a-z]+[a-z_-]*", value) is not None


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in value.items())}}}"
    return f"[{', '.join(map(_flow, value))}]" if isinstance(value, list) else str(value)


# -- TOML --------------------------------------------------------------------------------------------------------------


class _Toml:
    """TOML, as far as we need it: a value is a table of strings, at the end of the file."""

    def parse(self, text: str) -> Any:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            number = line[1] if line else text.count("\n") + 1
            raise Unreadable(f"line {number}: {str(error).partition(' (')[0]}") from None
        except RecursionError:
            raise Unreadable("line 1: has too many containers in each other") from None

    def insert(self, text: str, path: Path, value: Any, *, item: bool) -> str:
        del item
        end = _line_break(text)
        lines = [f"[{'.'.join(path)}]", *(f"{key} = {json.dumps(each)}" for key, each in value.items()), ""]
        first = "" if not text else end if text.endswith(end) else end * 2
        return f"{text}{first}{end.join(lines)}"

    def remove(self, text: str, path: Path, index: int | None) -> str:
        del index
        start, stop = self._block(text, path)
        end, before, rest = _line_break(text), text[:start].rstrip("\r\n"), text[stop:].lstrip("\r\n")
        between = "" if not before else end * 2 if rest else end
        return f"{before}{between}{rest}"

    def raw(self, text: str, path: Path) -> str:
        start, stop = self._block(text, path)
        return text[start:stop]

    def replace(self, text: str, path: Path, raw: str) -> str:
        start, stop = self._block(text, path)
        return text[:start] + raw + text[stop:]

    def _block(self, text: str, path: Path) -> tuple[int, int]:
        """Return where a table begins and ends, with the tables below it."""
        name = r"\s*\.\s*".join(rf"""["']?{re.escape(key)}["']?""" for key in path)
        lines = re.compile(r"^[ \t]*\[.*", re.MULTILINE)
        own = re.compile(rf"[ \t]*\[\s*{name}\s*[\].]")
        heads = [(found.start(), own.match(found[0]) is not None) for found in lines.finditer(text)]
        start = next((position for position, is_own in heads if is_own), None)
        if start is None:
            raise Unreadable(f"{'.'.join(path)} is not a table of its own: remove it by hand")
        stop = next((position for position, is_own in heads if position > start and not is_own), len(text))
        lines_before = re.search(r"(?:^[ \t]*(?:#[^\n]*)?\n?)*\Z", text[start:stop], re.MULTILINE)  # of the next table
        return start, start + (lines_before.start() if lines_before else stop - start)


JSON: Final[Format] = _Json()
YAML: Final[Format] = _Yaml()
TOML: Final[Format] = _Toml()
