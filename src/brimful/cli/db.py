"""`brimful db`: migrate, check, back up, restore and encrypt a store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
import typer

from brimful.cli import output
from brimful.cli.app import FAILED
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.output import Failure
from brimful.cli.records import add_export
from brimful.cli.store import require_store
from brimful.cli.terminal import Table, columns, progress
from brimful.errors import MigrationError
from brimful.records import Record

if TYPE_CHECKING:
    from brimful.stores import Database, Encryption, KeyUsage
    from brimful.stores.admin.rotate_keys import OnProgress


KeyTask = Callable[["Encryption"], Awaitable[object]]
"""What is done with the keys of one tenant before they are shown."""
AllTenants = Annotated[bool, typer.Option("--all", help="Of all tenants, not of one.")]

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

_MAX_NAMES: Final = 5  # tenants, where another one was asked for

_KEY_COLUMNS: Final = columns(
    "tenant", "key", "rows", "wrapped by", "since", "state", right=["key", "rows"], spare=["since"]
)


def keys(
    *, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, everybody: AllTenants = False, as_json: Json = False
) -> None:
    """Show the keys of a tenant, and how many rows each of them seals.

    No key is needed for it, and none is shown.
    """

    async def nothing(encryption: "Encryption") -> None:
        del encryption

    _show_keys(_apply_to_tenants(nothing, db=db, tenant="" if everybody else tenant), as_json=as_json)


def rotate(
    *,
    data_key: Annotated[
        bool, typer.Option("--data-key", help="Make a new key for the data, too, and seal all rows anew.")
    ] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    everybody: AllTenants = False,
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
            await _with_progress(encryption, encryption.rotate_data_key, "sealing anew", quiet=as_json)

    _show_keys(_apply_to_tenants(rotated, db=db, tenant="" if everybody else tenant), as_json=as_json)


def encrypt(
    *, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, everybody: AllTenants = False, as_json: Json = False
) -> None:
    """Seal all that a tenant still has in the clear, or under an older key.

    The store stays in use meanwhile. What is done stays done: if it was
    interrupted, it goes on where it ended.
    """

    async def encrypted(encryption: "Encryption") -> None:
        await _with_progress(encryption, encryption.encrypt, "sealing", quiet=as_json)

    _show_keys(_apply_to_tenants(encrypted, db=db, tenant="" if everybody else tenant), as_json=as_json)


async def _with_progress(
    encryption: "Encryption", walk: "Callable[[OnProgress], Awaitable[int]]", title: str, *, quiet: bool
) -> None:
    total = sum(key.rows for key in await encryption.keys())
    with progress(title, max(1, total), quiet=quiet) as advance:
        await walk(lambda sealed: advance(min(sealed.rows, total)))


def _apply_to_tenants(do: KeyTask, *, db: str, tenant: str) -> list[tuple[str, "KeyUsage"]]:
    """Do something with the keys of a tenant, or of all, and return them as they are then."""
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    require_store(db)

    async def done() -> list[tuple[str, "KeyUsage"]]:
        found: list[tuple[str, KeyUsage]] = []
        async with connect(db) as database:
            known = await database.tenants()
            if tenant and known and tenant not in known:  # a slip of the pen must not look like a store that is sealed
                some = ", ".join(map(repr, known[:_MAX_NAMES]))
                raise Failure(
                    f"there is no tenant {tenant!r}; there are {some}{' and others' * (len(known) > _MAX_NAMES)}"
                )
            for name in [tenant] if tenant else known:
                encryption = database.encryption(name)
                await do(encryption)
                found += [(name, key) for key in await encryption.keys()]
        return found

    return asyncio.run(done())


def _show_keys(found: list[tuple[str, "KeyUsage"]], *, as_json: bool) -> None:
    if as_json:
        output.show_json([_with_tenant(tenant, key) for tenant, key in found])
    elif any(key.kek for _, key in found):
        output.show_table(Table(_KEY_COLUMNS, [[tenant, *_key_row(key)] for tenant, key in found]))
    else:
        output.write("nothing is encrypted; see `brimful db encrypt`")


def _with_tenant(tenant: str, key: "KeyUsage") -> dict[str, Any]:
    return {"tenant": tenant, **msgspec.structs.asdict(key)}


def _key_row(key: "KeyUsage") -> list[str]:
    number = "none" if key.number is None else str(key.number)
    since = "" if key.created is None else output.format_time(key.created)
    return [number, f"{key.rows:,}", key.kek, since, _key_state(key)]


def _key_state(key: "KeyUsage") -> str:
    if key.number is None:
        return "in the clear"
    if key.number == 0:
        return "names contents"
    if key.current:
        return "seals"
    return "opens" if key.retired is None else "retired"


T = TypeVar("T")

DB_EXAMPLES: Final = """\
Examples:
  brimful db check
  brimful db backup chat.backup
  brimful db restore chat.backup --db sqlite:///again.db"""
MIGRATE_EXAMPLES: Final = """\
Examples:
  brimful db migrate
  brimful db migrate --db postgresql://ada@db.example.org/chat"""
CHECK_EXAMPLES: Final = """\
Examples:
  brimful db check
  brimful db check --json | jq -r '.[].what'"""
BACKUP_EXAMPLES: Final = """\
Examples:
  brimful db backup chat.backup
  brimful db backup monday.backup --db postgresql://ada@db.example.org/chat"""
RESTORE_EXAMPLES: Final = """\
Examples:
  brimful db restore chat.backup --db sqlite:///again.db
  brimful db restore chat.backup --db postgresql://ada@db.example.org/new"""

_FINDING_COLUMNS: Final = columns("level", "what")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, epilog=DB_EXAMPLES, help="Migrate, check, back up, restore and encrypt a store."
    )
    group.command("migrate", epilog=MIGRATE_EXAMPLES)(migrate)
    group.command("check", epilog=CHECK_EXAMPLES)(check)
    group.command("backup", epilog=BACKUP_EXAMPLES)(backup)
    group.command("restore", epilog=RESTORE_EXAMPLES)(restore)
    add_export(group, Record, name="record", of="db")
    group.command("keys", epilog=KEYS_EXAMPLES)(keys)
    group.command("rotate", epilog=ROTATE_EXAMPLES)(rotate)
    group.command("encrypt", epilog=ENCRYPT_EXAMPLES)(encrypt)
    app.add_typer(group, name="db")


def migrate(*, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Make a store, or bring its tables up to date with this version.

    Every program that opens a store does so by itself; this does it ahead of
    time, or by a user who alone may change tables.
    """
    changed = asyncio.run(_migrate(db))
    if as_json:
        output.show_json({"migrated": changed})
    else:
        output.write("the tables are up to date now" if changed else "the tables were up to date")


async def _migrate(db: str) -> bool:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    try:
        async with connect(db, migrate=False):
            return False
    except MigrationError:  # … or it is of a newer version, which the next line says
        async with connect(db):
            return True


def check(*, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Check a store: the file, what rows refer to, and the totals of the index.

    The exit code is 1 if something is damaged. What is only odd is a warning.
    """
    require_store(db)
    found = asyncio.run(_with_database(db, lambda database: database.check()))
    if as_json:
        output.show_json(found)
    elif found:
        output.show_table(Table(_FINDING_COLUMNS, [[finding.level, finding.what] for finding in found]))
    else:
        output.write("nothing is wrong")
    if any(finding.level == "error" for finding in found):
        raise typer.Exit(FAILED)


def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Where to write the copy.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Copy a store with all of its tenants to a file, while others write on.

    The copy is a store itself, sqlite:///FILE, whatever the store is. What is
    encrypted stays so. The file is there when it is whole.
    """
    require_store(db)
    if file.exists() and not force:
        raise Failure(f"{file}: is there already; --force writes over it")
    _copy(db, "backup", file, quiet=as_json)
    if as_json:
        output.show_json({"file": str(file), "bytes": file.stat().st_size})
    else:
        output.write(f"wrote {output.one_line(str(file))}, {file.stat().st_size:,} bytes")


def restore(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `brimful db backup` wrote.")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Take over everything of a backup into a store that is empty, or not there yet."""
    if not file.is_file():
        raise Failure(f"{file}: no such file")
    _copy(db, "restore", file, quiet=as_json)
    tenants = asyncio.run(_with_database(db, lambda database: database.tenants()))
    if as_json:
        output.show_json({"tenants": tenants})
    else:
        output.write(
            f"restored {output.one_line(str(file))}: {', '.join(map(output.one_line, tenants)) or 'no tenants'}"
        )


def _copy(db: str, verb: Literal["backup", "restore"], file: Path, *, quiet: bool) -> None:
    with progress(verb, 1, quiet=quiet) as advance:

        def told(done: int, total: int) -> None:
            advance(done / max(1, total))

        async def copied(database: "Database") -> None:
            await (database.backup(file, told) if verb == "backup" else database.restore(file, told))

        asyncio.run(_with_database(db, copied))


async def _with_database(db: str, question: "Callable[[Database], Awaitable[T]]") -> T:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    async with connect(db) as database:
        return await question(database)
