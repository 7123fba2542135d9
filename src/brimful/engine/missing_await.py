"""Explain a forgotten `await`: its result has no attributes and no items, and says why."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from brimful.errors import BrimfulError

T = TypeVar("T")
C = TypeVar("C", bound=type)


def explain_missing_await(cls: C) -> C:
    """Make the public coroutine functions of a class return coroutines that explain themselves if used as results."""
    for name, method in list(vars(cls).items()):
        if inspect.iscoroutinefunction(method) and not name.startswith("_"):
            setattr(cls, name, _wrap(method))
    return cls


def _wrap(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, T]:
        return _Pending(method(*args, **kwargs), method.__name__)

    mark = getattr(inspect, "markcoroutinefunction", None)  # since Python 3.12
    return call if mark is None else mark(call)


class _Pending(Coroutine[Any, Any, T]):
    """A coroutine that raises a helpful error if it is used without `await`."""

    __slots__ = ("_coroutine", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine = coroutine
        self._name = name

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, kind: Any, value: BaseException | object = None, trace: TracebackType | None = None) -> Any:
        return self._coroutine.throw(kind) if value is None else self._coroutine.throw(kind, value, trace)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "cr_", "gi_")):  # what asyncio and debuggers look at
            return getattr(self._coroutine, name)
        raise AttributeError(self._explain())

    def __iter__(self) -> NoReturn:
        raise BrimfulError(self._explain())

    def __getitem__(self, _: object) -> NoReturn:
        raise BrimfulError(self._explain())

    def __len__(self) -> NoReturn:
        raise BrimfulError(self._explain())

    def _explain(self) -> str:
        return (
            f"`{self._name}` of the engine must be awaited: write `await engine.{self._name}(…)`, or use `SyncEngine`"
        )
