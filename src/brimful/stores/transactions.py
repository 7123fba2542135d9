"""Transactions of one tenant, and methods that run a function in one."""

from collections.abc import Callable, Coroutine
from copy import copy
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from brimful.stores.backends.driver import Driver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.session import Session
from brimful.stores.tables.jobs import add_job

P = ParamSpec("P")
T = TypeVar("T")


class Transactions:
    """Runs functions in transactions of one tenant."""

    def __init__(self, driver: Driver, tenant: str, keyring: Keyring) -> None:
        self._driver = driver
        self._tenant = tenant
        self._keyring = keyring
        self._registered = False
        self._stale = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._tenant!r})"

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        return self._tenant

    @property
    def replica(self) -> Self:
        """The same store, which reads from the replica of the database if there is one.

        What was written in the last seconds may be missing.
        """
        replica = copy(self)
        replica._stale = True  # noqa: SLF001 - of this class
        return replica

    async def _read(self, function: Callable[[Session], T]) -> T:
        read = self._driver.read_stale if self._stale else self._driver.read
        return await read(self._tenant, self._keyring.reading(function))

    async def _write(self, function: Callable[[Session], T]) -> T:
        result = await self._driver.write(self._tenant, self._keyring.writing(self._registering(function)))
        self._registered = True
        return result

    def _registering(self, function: Callable[[Session], T]) -> Callable[[Session], T]:
        """Return a function that adds the tenant, and the jobs that every tenant has, once."""

        def register(session: Session) -> T:
            session.run("INSERT INTO tenants (tenant) VALUES (:tenant) ON CONFLICT DO NOTHING")
            add_job(session, "janitor")
            add_job(session, "retention")
            return function(session)

        return function if self._registered else register


class ReadMethod(Generic[P, T]):
    """An async method that runs a function of a session, with the same arguments, in a read transaction."""

    def __init__(self, function: Callable[Concatenate[Session, P], T]) -> None:
        """Take over the name and docstring of the function."""
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: Transactions, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, instance: Transactions | None, owner: type) -> Self | Callable[P, Coroutine[Any, Any, T]]:
        return self if instance is None else self._bind(instance)

    def _bind(self, instance: Transactions) -> Callable[P, Coroutine[Any, Any, T]]:
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return instance._read(lambda session: self.function(session, *args, **kwargs))  # noqa: SLF001

        return call


class ReplicaMethod(ReadMethod[P, T]):
    """An async method that runs a function of a session in a read transaction of the replica, if there is one."""

    def _bind(self, instance: Transactions) -> Callable[P, Coroutine[Any, Any, T]]:
        return super()._bind(instance.replica)


class WriteMethod(ReadMethod[P, T]):
    """An async method that runs a function of a session in a write transaction."""

    def _bind(self, instance: Transactions) -> Callable[P, Coroutine[Any, Any, T]]:
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return instance._write(lambda session: self.function(session, *args, **kwargs))  # noqa: SLF001

        return call
