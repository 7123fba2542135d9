"""The engine for code without an event loop."""

import asyncio
import atexit
import functools
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from brimful.core.context import Context
from brimful.engine.engine import Engine
from brimful.engine.options import MessageInput, RespondOptions
from brimful.engine.responder import Answer, AnswerStream
from brimful.errors import BrimfulError
from brimful.records.reply import ReplyChunk
from brimful.stores import Store

P = ParamSpec("P")
T = TypeVar("T")

_register_at_exit: Final[Callable[..., object]] = getattr(threading, "_register_atexit", atexit.register)
"""Registers a function to call at exit, before thread pools stop: closing a store needs one."""


def _blocking(
    method: Callable[Concatenate[Engine, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncEngine", P], T]:
    """Return a method of `SyncEngine` that waits for one of `Engine`."""

    def call(self: "SyncEngine", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.engine, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def _same_arguments(
    _: Callable[Concatenate[Engine, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate["SyncEngine", P], None]]:
    return functools.wraps(Engine.__init__)


class SyncEngine:
    """An engine whose methods wait for their results: `Engine` for code without `async` and `await`.

    All arguments and methods are those of `Engine`, which documents them. The engine runs on an event loop in a thread
    of its own, so it may be used from any thread, and from several event loops. Use it with `with`, or call `open` and
    `close`; an engine that is still open when the program ends is closed.

    >>> with SyncEngine("sqlite:///:memory:") as engine:
    ...     memory = engine.remember("Mia likes tea.")
    ...     [hit.record.content for hit in engine.search("What does Mia like?").hits]
    ['Mia likes tea.']
    """

    @_same_arguments(Engine.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare an engine. `open` or `with` opens it."""
        self.engine = Engine(*args, **kwargs)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()

    @property
    def store(self) -> Store:
        """The tenant's store. Its methods are asynchronous: `engine.run(engine.store.history("lounge"))`."""
        return self.engine.store

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Open the store, migrate its tables, and start to embed new records in the background."""
        with self._changing:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="brimful-engine", daemon=True)
                thread.start()
                try:
                    _wait(loop, self.engine.open())
                except BaseException:
                    _stop(loop, thread)
                    raise
                self._loop, self._thread = loop, thread
                _register_at_exit(_close, weakref.ref(self))
        return self

    def close(self) -> None:
        """Stop embedding, close the store, and end the thread."""
        with self._changing:
            loop, self._loop = self._loop, None
            if loop is not None and self._thread is not None:
                try:
                    _wait(loop, self.engine.close())
                finally:
                    _stop(loop, self._thread)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- running coroutines ------------------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's event loop and return its result, such as one of the store or the engine."""
        return _wait(self._running(coroutine), coroutine)

    async def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's event loop and wait for it in another one."""
        loop = self._running(coroutine)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def _running(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            coroutine.close()
            raise BrimfulError("the engine is not open: use `with brimful.SyncEngine(…) as engine`")
        return self._loop

    # -- methods of the engine ---------------------------------------------------------------------------------------

    put = _blocking(Engine.put)
    remove = _blocking(Engine.remove)
    post = _blocking(Engine.post)
    post_many = _blocking(Engine.post_many)
    edit = _blocking(Engine.edit)
    delete = _blocking(Engine.delete)
    supersede = _blocking(Engine.supersede)
    rate = _blocking(Engine.rate)
    remember = _blocking(Engine.remember)
    remember_many = _blocking(Engine.remember_many)
    propose = _blocking(Engine.propose)
    confirm_memories = _blocking(Engine.confirm_memories)
    reject_memories = _blocking(Engine.reject_memories)
    pin = _blocking(Engine.pin)
    forget = _blocking(Engine.forget)
    update_memory = _blocking(Engine.update_memory)
    list_memories = _blocking(Engine.list_memories)
    learn = _blocking(Engine.learn)
    undo_learning = _blocking(Engine.undo_learning)
    statistics = _blocking(Engine.statistics)
    usage = _blocking(Engine.usage)
    own_spending = _blocking(Engine.own_spending)
    count_memories = _blocking(Engine.count_memories)
    forget_memories = _blocking(Engine.forget_memories)
    write_lore = _blocking(Engine.write_lore)
    write_summaries = _blocking(Engine.write_summaries)
    load = _blocking(Engine.load)
    wait_indexed = _blocking(Engine.wait_indexed)
    index_deferred = _blocking(Engine.index_deferred)
    index = _blocking(Engine.index)
    search = _blocking(Engine.search)
    assemble = _blocking(Engine.assemble)
    brief = _blocking(Engine.brief)
    recall = _blocking(Engine.recall)
    respond = _blocking(Engine.respond)
    greet = _blocking(Engine.greet)
    record_response = _blocking(Engine.record_response)
    fit = _blocking(Engine.fit)
    observe = _blocking(Engine.observe)
    observe_overflow = _blocking(Engine.observe_overflow)
    run_janitor = _blocking(Engine.run_janitor)
    audit_memories = _blocking(Engine.audit_memories)
    archive_memories = _blocking(Engine.archive_memories)
    undo_janitor = _blocking(Engine.undo_janitor)
    list_janitor_runs = _blocking(Engine.list_janitor_runs)
    count_archived = _blocking(Engine.count_archived)

    def stream(
        self,
        room: str,
        message: MessageInput | None = None,
        *,
        persona: str | None = None,
        **options: Unpack[RespondOptions],
    ) -> "SyncAnswerStream":
        """Like `respond`, but return the answer chunk by chunk."""
        return SyncAnswerStream(self, self.engine.stream(room, message, persona=persona, **options))


class SyncAnswerStream:
    """An answer while it is streamed: iterate over its chunks, then read `answer`.

    It is a context manager. Leaving it early closes the connection and records what was received so far.
    """

    def __init__(self, engine: SyncEngine, stream: AnswerStream) -> None:
        self._engine = engine
        self._stream = stream
        self._chunks = aiter(stream)

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream has ended."""
        return self._stream.answer

    @property
    def speaker(self) -> str:
        """The name of the persona that speaks."""
        return self._stream.speaker

    @property
    def context(self) -> Context | None:
        """What that persona saw, as soon as its first chunk has come."""
        return self._stream.context

    def __iter__(self) -> Iterator[ReplyChunk]:
        while (chunk := self._engine.run(self._next())) is not None:
            yield chunk

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, whether or not the stream has ended."""
        self._engine.run(self._stream.close())

    async def _next(self) -> ReplyChunk | None:
        return await anext(self._chunks, None)


def _wait(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop in another thread. If the caller is interrupted, it is cancelled."""
    if _running_loop() is loop:
        coroutine.close()
        raise BrimfulError("a `SyncEngine` cannot wait on its own event loop: use its `engine` there, with `await`")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result()  # the caller may run a loop of its own
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _close(reference: "weakref.ref[SyncEngine]") -> None:
    engine = reference()
    if engine is not None:
        engine.close()
