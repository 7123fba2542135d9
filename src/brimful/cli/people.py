"""What the commands of personas and of users have in common: both are listed, found and removed by their ids."""

from typing import TYPE_CHECKING, TypeVar

from brimful.cli import output
from brimful.cli.opened import ask
from brimful.errors import UnknownRecord
from brimful.records import Persona, User

if TYPE_CHECKING:
    from brimful.engine import Engine

P = TypeVar("P", Persona, User)


def all_of(kind: type[P], *, limit: int, db: str, tenant: str) -> list[P]:
    """Return the first of them by id."""

    async def listed(engine: "Engine") -> list[P]:
        return await engine.store.listed(kind, limit=limit)

    return ask(listed, db=db, tenant=tenant)


def the(kind: type[P], id: str, *, db: str, tenant: str) -> P:
    """Return the one of this id."""

    async def found(engine: "Engine") -> P:
        record = await engine.store.get(kind, id)
        if record is None:
            raise UnknownRecord(kind.__name__.lower(), id)
        return record

    return ask(found, db=db, tenant=tenant)


def take_out(kind: type[Persona] | type[User], id: str, *, db: str, tenant: str, as_json: bool) -> None:
    """Remove the one of this id, and say so."""

    async def removed(engine: "Engine") -> None:
        if not await engine.store.remove(kind, id):
            raise UnknownRecord(kind.__name__.lower(), id)

    ask(removed, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "removed": True})
    else:
        output.say(f"removed {output.one_line(id)}")
