"""Calls in a process of their own, with a time limit: a peer that hangs, panics or dies costs a row, not the run."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_START = multiprocessing.get_context("spawn")
START_SECONDS = 120.0  # some peers take many seconds to import


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result: `panics`, `dies`, `> 10 s`, `not installed`, or an error's name."""

    reason: str


class Isolated:
    """A child process that makes calls, one at a time, and is replaced whenever it is too slow or dies.

    `start` is called first in each new process and is not timed: imports belong there.
    """

    def __init__(self, start: Callable[[], object]) -> None:
        """Nothing is started yet."""
        self._start = start
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        """Return itself; the process begins with the first call."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._end()

    def call(self, function: Callable[..., T], *arguments: object, seconds: float) -> T | Failure:
        """Return the function's result, or why there is none."""
        if self._connection is None:
            failure = self._begin()
            if failure is not None:
                return failure
        return self._ask(function, arguments, seconds)

    def _begin(self) -> Failure | None:
        self._connection, theirs = _START.Pipe()
        self._process = _START.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        started = self._ask(self._start, (), START_SECONDS)
        return started if isinstance(started, Failure) else None

    def _ask(self, function: Callable[..., T], arguments: tuple[object, ...], seconds: float) -> T | Failure:
        if self._connection is None:
            return Failure("dies")
        self._connection.send((function, arguments))
        if not self._connection.poll(seconds):
            self._end()
            return Failure(f"> {seconds:.0f} s")
        try:
            answer: T | Failure = self._connection.recv()
        except EOFError:
            self._end()
            return Failure("dies")
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None


def _serve(connection: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # peers log and panic there; what matters comes back as an answer
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_answer(function, arguments))


def _answer(function: Callable[..., object], arguments: tuple[object, ...]) -> object:
    try:
        return function(*arguments)
    except ModuleNotFoundError:
        return Failure("not installed")
    except Exception as error:  # noqa: BLE001 - the edge of a process: the row says what happened
        return Failure(f"{type(error).__name__}: {str(error)[:80]}")
    except BaseException as error:
        # A panic in Rust arrives as pyo3's PanicException, which cannot be imported and is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        return Failure("panics")
