"""`brimful db keys`, `rotate` and `encrypt`: the keys of a store that is encrypted, or shall be."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import want_store
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.progress import progress
from brimful.cli.table import Table, columns

if TYPE_CHECKING:
    from brimful.stores import Encryption, KeyUse
    from brimful.stores.walking import Told

Done = Callable[["Encryption"], Awaitable[object]]
"""What is done with the keys of one tenant before they are shown."""
All = Annotated[bool, typer.Option("--all", help="Of all tenants, not of one.")]

KEYS_EXAMPLES: Final = """\
Examples:
  brimful db keys --all
  brimful db keys --tenant acme --json"""
ROTATE_EXAMPLES: Final = """\
Examples:
  BRIMFUL_KEY_PREVIOUS=$OLD BRIMFUL_KEY=$NEW brimful db rotate --all
  brimful db rotate --data-key"""
ENCRYPT_EXAMPLES: Final = """\
Examples:
  export BRIMFUL_KEY=$(openssl rand -base64 32)
  brimful db encrypt --all"""

_NAMED: Final = 5  # tenants, where another one was asked for

_COLUMNS: Final = columns(
    "tenant", "key", "rows", "wrapped by", "since", "state", right=["key", "rows"], spare=["since"]
)


def register(db: typer.Typer) -> None:
    """Add the commands to the group."""
    db.command("keys", epilog=KEYS_EXAMPLES)(keys)
    db.command("rotate", epilog=ROTATE_EXAMPLES)(rotate)
    db.command("encrypt", epilog=ENCRYPT_EXAMPLES)(encrypt)


def keys(
    *, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, everybody: All = False, as_json: Json = False
) -> None:
    """Show the keys of a tenant, and how many rows each of them seals.

    No key is needed for it, and none is shown.
    """

    async def nothing(encryption: "Encryption") -> None:
        del encryption

    _show(_done(nothing, db=db, tenant="" if everybody else tenant), as_json=as_json)


def rotate(
    *,
    data_key: Annotated[
        bool, typer.Option("--data-key", help="Make a new key for the data, too, and seal all rows anew.")
    ] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    everybody: All = False,
    as_json: Json = False,
) -> None:
    """Wrap the keys of a tenant with the key that is given now.

    Rows stay as they are, and whoever has both keys reads and writes on. With
    --data-key, rows are sealed anew, in batches; a rotation that was
    interrupted is finished by the next one.
    """

    async def rotated(encryption: "Encryption") -> None:
        await encryption.rotate_kek()
        if data_key:
            await _walked(encryption, encryption.rotate_data_key, "sealing anew", quiet=as_json)

    _show(_done(rotated, db=db, tenant="" if everybody else tenant), as_json=as_json)


def encrypt(
    *, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, everybody: All = False, as_json: Json = False
) -> None:
    """Seal all that a tenant still has in the clear, or under an older key.

    The store stays in use meanwhile. What is done stays done: if it was
    interrupted, it goes on where it ended.
    """

    async def encrypted(encryption: "Encryption") -> None:
        await _walked(encryption, encryption.encrypt, "sealing", quiet=as_json)

    _show(_done(encrypted, db=db, tenant="" if everybody else tenant), as_json=as_json)


async def _walked(
    encryption: "Encryption", walk: "Callable[[Told], Awaitable[int]]", title: str, *, quiet: bool
) -> None:
    total = sum(key.rows for key in await encryption.keys())
    with progress(title, max(1, total), quiet=quiet) as advance:
        await walk(lambda sealed: advance(min(sealed.rows, total)))


def _done(do: Done, *, db: str, tenant: str) -> list[tuple[str, "KeyUse"]]:
    """Do something with the keys of a tenant, or of all, and return them as they are then."""
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    want_store(db)

    async def done() -> list[tuple[str, "KeyUse"]]:
        found: list[tuple[str, KeyUse]] = []
        async with connect(db) as database:
            known = await database.tenants()
            if tenant and known and tenant not in known:  # a slip of the pen must not look like a store that is sealed
                some = ", ".join(map(repr, known[:_NAMED]))
                raise Failure(f"there is no tenant {tenant!r}; there are {some}{' and others' * (len(known) > _NAMED)}")
            for name in [tenant] if tenant else known:
                encryption = database.encryption(name)
                await do(encryption)
                found += [(name, key) for key in await encryption.keys()]
        return found

    return asyncio.run(done())


def _show(found: list[tuple[str, "KeyUse"]], *, as_json: bool) -> None:
    if as_json:
        output.show_json([_with_tenant(tenant, key) for tenant, key in found])
    elif any(key.kek for _, key in found):
        output.show_table(Table(_COLUMNS, [[tenant, *_row(key)] for tenant, key in found]))
    else:
        output.say("nothing is encrypted; see `brimful db encrypt`")


def _with_tenant(tenant: str, key: "KeyUse") -> dict[str, Any]:
    return {"tenant": tenant, **msgspec.structs.asdict(key)}


def _row(key: "KeyUse") -> list[str]:
    number = "none" if key.number is None else str(key.number)
    since = "" if key.created is None else output.moment(key.created)
    return [number, f"{key.rows:,}", key.kek, since, _state(key)]


def _state(key: "KeyUse") -> str:
    if key.number is None:
        return "in the clear"
    if key.number == 0:
        return "names contents"
    if key.current:
        return "seals"
    return "opens" if key.retired is None else "retired"
