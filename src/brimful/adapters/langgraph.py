"""LangGraph: a store for long-term memory, over an engine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import ge, gt, le, lt
from typing import Any, Final, cast
from urllib.parse import quote, unquote

import msgspec

from brimful.adapters.fitter import arun, require_engine, run
from brimful.core.validation import preview
from brimful.engine import Engine, SyncEngine
from brimful.errors import InvalidValue, MissingExtra
from brimful.records import Memory

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise MissingExtra("langgraph", "brimful.adapters.langgraph") from error

Namespace = tuple[str, ...]

_ROOT: Final = "langgraph."  # starts the users of all items; LangGraph allows no namespace of this name
_UNSEARCHED: Final = "langgraph"  # the persona of items without an index; no search is on behalf of it
_WHOLE: Final = "$"  # the path of a whole value
_MAX_RANKED: Final = 1_000  # items that are compared with a filter after the ranking
_ORDERS: Final = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_PAGE: Final = 200  # items or namespaces that are read at once


class BrimfulStore(BaseStore):
    """LangGraph's long-term memory in the store of an engine. Calls without `await` need a `SyncEngine`.

    An item is a memory whose metadata is its value. Search is the engine's: by words and by meaning, with the engine's
    relevance as score. `fields` are the paths of what is searched, such as `("text", "tags[*]")`; by default all texts
    in a value. `index` of an item takes precedence.

    Items do not expire: LangGraph refuses a `ttl` for stores like this.
    """

    def __init__(self, engine: Engine | SyncEngine, *, fields: Sequence[str] = (_WHOLE,)) -> None:
        if isinstance(fields, str) or not all(isinstance(path, str) for path in fields):
            raise InvalidValue("fields", f"must be a list of paths, not {preview(fields)}")
        self._engine = require_engine(engine)
        self._fields = tuple(fields)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations one after the other."""
        return run(self._engine, lambda engine: self._run(engine, ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations one after the other."""
        return await arun(self._engine, lambda engine: self._run(engine, ops))

    async def _run(self, engine: Engine, ops: Iterable[Op]) -> list[Result]:
        results = []
        for op in ops:
            validate_op_namespace(op)
            results.append(await self._run_one(engine, op))
        return results

    async def _run_one(self, engine: Engine, op: Op) -> Result:
        match op:
            case GetOp():
                memory = await _find(engine, op.namespace, op.key)
                return None if memory is None else Item(**_fields_of(memory))
            case PutOp():
                await self._put(engine, op)
                return None
            case SearchOp():
                return await _search(engine, op)
            case ListNamespacesOp():
                return await _list_namespaces(engine, op)
            case _:
                raise InvalidValue("ops", f"must be operations of langgraph.store.base, not {preview(op)}")

    async def _put(self, engine: Engine, op: PutOp) -> None:
        if op.ttl is not None:
            raise NotImplementedError("items of a BrimfulStore do not expire: leave out `ttl`")
        known = await _find(engine, op.namespace, op.key)
        if op.value is None:
            if known is not None:
                await engine.forget(known.id, erase=True)
            return
        value = _plain(op.value)
        text = "\n".join(_texts(value, self._fields if op.index is None else op.index or ()))
        persona = None if text.strip() else _UNSEARCHED
        text = text if persona is None else f"item {op.key}"
        if known is not None:
            await engine.update_memory(known.id, text, persona=persona, metadata=value)
        else:
            id, user = _id(op.namespace, op.key), _user(op.namespace)
            await engine.remember(text, id=id, user=user, persona=persona, source="langgraph", metadata=value)


# -- names -------------------------------------------------------------------------------------------------------------


def _user(namespace: Namespace) -> str:
    """Return the user that the items of a namespace belong to. Those of namespaces below it start with the same.

    >>> _user(("memories", "ada/lee"))
    'langgraph.memories.ada%2Flee.'
    """
    return _ROOT + "".join(f"{quote(label, safe='')}." for label in namespace)


def _namespace(user: str) -> Namespace:
    return tuple(map(unquote, user.removeprefix(_ROOT).split(".")[:-1]))


def _id(namespace: Namespace, key: str) -> str:
    return f"{_user(namespace)}/{key}"


# -- reading -----------------------------------------------------------------------------------------------------------


async def _find(engine: Engine, namespace: Namespace, key: str) -> Memory | None:
    return next(iter(await engine.store.memories(ids=[_id(namespace, key)])), None)


async def _search(engine: Engine, op: SearchOp) -> list[SearchItem]:
    """Return the items below a namespace that match: by relevance if there is a query, else the newest first."""
    equal, compared = _split_filter(op.filter or {})
    user, end = _user(op.namespace_prefix), op.offset + op.limit
    if op.query:
        limit = max(_MAX_RANKED, end) if compared else end
        result = await engine.search(op.query, user_prefix=user, metadata=equal, min_relevance=0.0, limit=limit)
        scored = [(hit.record, hit.relevance) for hit in result if isinstance(hit.record, Memory)]
        found = [
            SearchItem(**_fields_of(memory), score=score) for memory, score in scored if _matches(memory, compared)
        ]
        return found[op.offset : end]
    items: list[SearchItem] = []
    cursor: str | None = ""
    while cursor is not None and len(items) < end:
        page = await engine.list_memories(user_prefix=user, metadata=equal, cursor=cursor, limit=_PAGE)
        items += (SearchItem(**_fields_of(memory)) for memory in page.memories if _matches(memory, compared))
        cursor = page.next
    return items[op.offset : end]


async def _list_namespaces(engine: Engine, op: ListNamespacesOp) -> list[Namespace]:
    conditions = op.match_conditions or ()
    found: dict[Namespace, None] = {}
    after = ""
    while users := await engine.store.memory_users(prefix=_ROOT, after=after, limit=_PAGE):
        for namespace in map(_namespace, users):
            if all(_is_match(condition, namespace) for condition in conditions):
                found[namespace if op.max_depth is None else namespace[: op.max_depth]] = None
        after = users[-1]
    return sorted(found)[op.offset : op.offset + op.limit]


def _is_match(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(labels) == len(path) and all(
        pattern in ("*", label) for label, pattern in zip(labels, path, strict=True)
    )


def _fields_of(memory: Memory) -> dict[str, Any]:
    """Return the fields of an item."""
    user = memory.user or ""
    return {
        "namespace": _namespace(user),
        "key": memory.id.removeprefix(f"{user}/"),
        "value": memory.metadata,
        "created_at": datetime.fromtimestamp(memory.at, UTC),
        "updated_at": datetime.fromtimestamp(memory.edited or memory.at, UTC),
    }


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value as plain JSON data. LangChain's `message.text` is a string of its own type."""
    try:
        return cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(dict(value), enc_hook=_plain_string)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue("value", f"must be a dict of plain JSON data ({error})") from None


def _plain_string(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")


def _texts(value: Mapping[str, Any], paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        yield from _all_texts(value) if path == _WHOLE else get_text_at_path(value, path)


def _all_texts(value: object) -> Iterator[str]:
    """Yield all texts in a value, and its numbers."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _all_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _all_texts(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


# -- filters -----------------------------------------------------------------------------------------------------------


def _split_filter(conditions: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that must be equal, which the store compares, and the other conditions."""
    equal = {key: value for key, value in conditions.items() if not isinstance(value, dict) and value is not None}
    return equal, {key: value for key, value in conditions.items() if key not in equal}


def _matches(memory: Memory, conditions: Mapping[str, Any]) -> bool:
    return all(_is_equal(memory.metadata.get(key), condition) for key, condition in conditions.items())


def _is_equal(value: object, condition: object) -> bool:
    """Compare a value as LangGraph's stores do: with operators, or with the fields that a condition has."""
    if not isinstance(condition, dict):
        return value == condition
    if any(isinstance(key, str) and key.startswith("$") for key in condition):
        return all(_compare(value, operator, operand) for operator, operand in condition.items())
    return isinstance(value, dict) and all(_is_equal(value.get(key), each) for key, each in condition.items())


def _compare(value: Any, operator: str, operand: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == operand)
        case "$ne":
            return bool(value != operand)
        case _ if operator in _ORDERS:
            return _compare_order(value, operator, operand)
        case _:
            known = ", ".join(("$eq", "$ne", *_ORDERS))
            raise InvalidValue("filter", f"has an unknown operator {operator!r}; there are {known}")


def _compare_order(value: Any, operator: str, operand: Any) -> bool:
    """Compare two numbers or two strings. Other values have no order, so they do not match."""
    numbers = isinstance(value, int | float) and isinstance(operand, int | float)
    if not numbers and not (isinstance(value, str) and isinstance(operand, str)):
        return False
    return bool(_ORDERS[operator](value, operand))
