"""What all that is kept has in common: it is listed, shown, made, changed and removed by its id."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET

from brimful.core import check
from brimful.engine import Engine
from brimful.engine.writing import new_id
from brimful.errors import InvalidValue, UnknownRecord
from brimful.protocols import Store
from brimful.records import Plain
from brimful.server.errors import Refusal
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.kept import Removed
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.queries import ListQuery
from brimful.server.tenants import Tenants

CONFLICT: Final = 409
_TIMES: Final = frozenset(("at", "created"))

R = TypeVar("R", bound=Plain)

Views = Callable[[Store, Sequence[R], str | None], Awaitable[Sequence[msgspec.Struct]]]
"""Returns records as they are shown, with their tokens for a model."""


class Shelf(Generic[R]):
    """Records of one kind: rooms, personas or lorebooks."""

    def __init__(
        self,
        kind: type[R],
        views: Views[R],
        listed: Callable[[tuple[Any, ...], str | None], msgspec.Struct],
        /,
        *,
        tenants: Tenants,
        loaded: Loaded,
        begin: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """Take the kind, how its records and lists of them are shown, and what a new one begins with."""
        self._kind = kind
        self._views = views
        self._listed = listed
        self._tenants = tenants
        self._loaded = loaded
        self._begin = begin

    @property
    def _called(self) -> str:
        return self._kind.__name__.lower()

    async def listed(self, inquiry: Inquiry) -> msgspec.Struct:
        """List records by id."""
        query: ListQuery = inquiry.query
        store = self._tenants.store(inquiry.tenant)
        records = await store.listed(self._kind, after=query.after, limit=query.limit)
        after = records[-1].id if len(records) == query.limit else None
        return self._listed(tuple(await self._views(store, records, query.model)), after)

    async def show(self, inquiry: Inquiry) -> msgspec.Struct:
        """Show one."""
        store = self._tenants.store(inquiry.tenant)
        return await self._shown(store, await self._found(store, inquiry.name()), inquiry)

    async def create(self, inquiry: Inquiry) -> msgspec.Struct:
        """Make one; an id that is taken is refused."""
        said = self._begin() | said_in(inquiry.body, id=self._called)
        engine = await self._tenants.engine(inquiry.tenant)
        record = self._kind(**said)
        if await engine.store.get(self._kind, record.id) is not None:
            raise taken(self._called, record.id)
        return await self._put(engine, record, inquiry)

    async def change(self, inquiry: Inquiry) -> msgspec.Struct:
        """Change what is said of one."""
        engine = await self._tenants.engine(inquiry.tenant)
        record = await self._found(engine.store, inquiry.name())
        return await self._put(engine, changed(record, said_in(inquiry.body)), inquiry)

    async def remove(self, inquiry: Inquiry) -> Removed:
        """Remove one, and all that belongs to it."""
        id = inquiry.name()
        if not await self._tenants.store(inquiry.tenant).remove(cast("type[Plain]", self._kind), id):
            raise UnknownRecord(self._called, id)
        self._loaded.drop(inquiry.tenant)
        return Removed(id=id)

    async def _put(self, engine: Engine, record: R, inquiry: Inquiry) -> msgspec.Struct:
        await engine.put(record)
        return await self._shown(engine.store, record, inquiry)

    async def _found(self, store: Store, id: str) -> R:
        record = await store.get(self._kind, id)
        if record is None:
            raise UnknownRecord(self._called, id)
        return record

    async def _shown(self, store: Store, record: R, inquiry: Inquiry) -> msgspec.Struct:
        return (await self._views(store, [record], inquiry.query.model))[0]


T = TypeVar("T", bound=msgspec.Struct)


def said_in(body: msgspec.Struct, *, id: str = "") -> dict[str, Any]:
    """Return the fields that a body says. With `id`, one that names no id gets a new one that begins so."""
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    said = {name: value for name, value in fields.items() if value is not UNSET}
    for name in _TIMES & said.keys():
        check.moment(name, said[name], InvalidValue)
    return {"id": new_id(id)} | said if id else said


def changed(record: T, said: dict[str, Any]) -> T:
    """Return a record with what is said of it; its id is what it is."""
    if said.pop("id", getattr(record, "id", None)) != getattr(record, "id", None):
        raise InvalidValue("id", "cannot be changed: make another one, and remove this one")
    return msgspec.structs.replace(record, **said)


def shown_as(kind: type[T], record: msgspec.Struct, **more: Any) -> T:
    """Return a record in the form in which it is shown."""
    return kind(**{name: getattr(record, name) for name in record.__struct_fields__}, **more)


def taken(kind: str, id: str) -> Refusal:
    """Return what is said of an id that is taken."""
    return Refusal("invalid", f"there is a {kind} {id[:80]!r} already", status=CONFLICT, code="taken", param="id")
