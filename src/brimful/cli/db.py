"""`brimful db`: migrate, check, back up, restore, encrypt and distribute a store."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer

from brimful.cli import output
from brimful.cli.app import FAILED
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.output import Failure, columns, progress
from brimful.cli.records import export_command
from brimful.cli.store import require_store, with_database
from brimful.errors import MigrationError
from brimful.records import Record

if TYPE_CHECKING:
    from brimful.stores import Database, Encryption, KeyUsage
    from brimful.stores.admin.rotate_keys import OnProgress


KeyTask = Callable[["Encryption"], Awaitable[object]]
"""Does something with the keys of one tenant."""
AllTenants = Annotated[bool, typer.Option("--all", help="Apply to all tenants.")]

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

_MAX_NAMES: Final = 5  # tenants listed in an error message

_KEY_COLUMNS: Final = columns(
    "tenant", "key", "rows", "wrapped by", "since", "state", right=["key", "rows"], spare=["since"]
)


def keys(
    *, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, everybody: AllTenants = False, as_json: Json = False
) -> None:
    """List the encryption keys of a tenant.

    Shows how many rows each key encrypts. This needs no key, and no key is
    shown.
    """

    async def nothing(encryption: "Encryption") -> None:
        del encryption

    _show_keys(_apply_to_tenants(nothing, db=db, tenant="" if everybody else tenant), as_json=as_json)


def rotate(
    *,
    data_key: Annotated[
        bool, typer.Option("--data-key", help="Also create a new data key and re-encrypt all rows.")
    ] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    everybody: AllTenants = False,
    as_json: Json = False,
) -> None:
    """Encrypt the data keys of a tenant with the current key.

    Set BRIMFUL_KEY to the current key, and BRIMFUL_KEY_PREVIOUS to the
    previous one. Rows do not change, and programs that have both keys keep
    working. With --data-key, all rows are re-encrypted in batches; if that is
    interrupted, the next rotation continues.
    """

    async def rotate_keys(encryption: "Encryption") -> None:
        await encryption.rotate_kek()
        if data_key:
            await _with_progress(encryption, encryption.rotate_data_key, "encrypting", quiet=as_json)

    _show_keys(_apply_to_tenants(rotate_keys, db=db, tenant="" if everybody else tenant), as_json=as_json)


def encrypt(
    *, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, everybody: AllTenants = False, as_json: Json = False
) -> None:
    """Encrypt everything that is not encrypted yet.

    Rows that use an older key are re-encrypted. You can keep using the store
    in the meantime. If a run is interrupted, the next one continues.
    """

    async def encrypt_rows(encryption: "Encryption") -> None:
        await _with_progress(encryption, encryption.encrypt, "encrypting", quiet=as_json)

    _show_keys(_apply_to_tenants(encrypt_rows, db=db, tenant="" if everybody else tenant), as_json=as_json)


async def _with_progress(
    encryption: "Encryption", walk: "Callable[[OnProgress], Awaitable[int]]", title: str, *, quiet: bool
) -> None:
    total = sum(key.rows for key in await encryption.keys())
    with progress(title, max(1, total), quiet=quiet) as advance:
        await walk(lambda done: advance(min(done.rows, total)))


def _apply_to_tenants(do: KeyTask, *, db: str, tenant: str) -> list[tuple[str, "KeyUsage"]]:
    """Run a task for one tenant or for all, and return their keys afterwards."""

    async def apply(database: "Database") -> list[tuple[str, "KeyUsage"]]:
        found: list[tuple[str, KeyUsage]] = []
        if tenant:
            await _require_tenant(database, tenant)
        for name in [tenant] if tenant else await _list_tenants(database):
            encryption = database.encryption(name)
            await do(encryption)
            found += [(name, key) for key in await encryption.keys()]
        return found

    return with_database(apply, db)


async def _require_tenant(database: "Database", tenant: str) -> None:
    """Raise if other tenants have data, but not this one: a typo must not look like an encrypted store."""
    known = await database.tenants(limit=_MAX_NAMES + 1)
    if known and not await database.has_tenant(tenant):
        raise Failure(f"there is no tenant {tenant!r}; tenants are {_name_some(list(map(repr, known)))}")


def _name_some(names: list[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + " and others" * (len(names) > _MAX_NAMES)


def _show_keys(found: list[tuple[str, "KeyUsage"]], *, as_json: bool) -> None:
    output.show_rows(
        found if as_json or any(key.kek for _, key in found) else [],
        _KEY_COLUMNS,
        lambda each: [each[0], *_key_row(each[1])],
        empty="nothing is encrypted; see `brimful db encrypt`",
        as_json=as_json,
        data=lambda each: {"tenant": each[0], **msgspec.structs.asdict(each[1])},
    )


def _key_row(key: "KeyUsage") -> list[str]:
    number = "none" if key.number is None else str(key.number)
    since = "" if key.created is None else output.format_time(key.created)
    return [number, f"{key.rows:,}", key.kek, since, _key_state(key)]


def _key_state(key: "KeyUsage") -> str:
    if key.number is None:
        return "not encrypted"
    if key.number == 0:
        return "content hashes"
    if key.current:
        return "current"
    return "older" if key.retired is None else "retired"


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
  brimful db check --json | jq -r '.[].text'"""
BACKUP_EXAMPLES: Final = """\
Examples:
  brimful db backup chat.backup
  brimful db backup monday.backup --db postgresql://ada@db.example.org/chat"""
EXPORT_EXAMPLES: Final = """\
Examples:
  brimful db export > records.jsonl
  brimful db export --out records.jsonl"""
TENANTS_EXAMPLES: Final = """\
Examples:
  brimful db tenants
  brimful db tenants --after acme --limit 100 --json"""
RESTORE_EXAMPLES: Final = """\
Examples:
  brimful db restore chat.backup --db sqlite:///again.db
  brimful db restore chat.backup --db postgresql://ada@db.example.org/new"""

DISTRIBUTE_EXAMPLES: Final = """\
Examples:
  brimful db distribute --db postgresql://postgres@coordinator/chat --shards 64
  brimful db distribute --json"""
ISOLATE_EXAMPLES: Final = """\
Examples:
  brimful db isolate acme --db postgresql://postgres@coordinator/chat"""

_FINDING_COLUMNS: Final = columns("level", "what")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True,
        epilog=DB_EXAMPLES,
        help="Migrate, check, back up, restore, encrypt and distribute a store.",
    )
    group.command("migrate", epilog=MIGRATE_EXAMPLES)(migrate)
    group.command("check", epilog=CHECK_EXAMPLES)(check)
    group.command("backup", epilog=BACKUP_EXAMPLES)(backup)
    group.command("restore", epilog=RESTORE_EXAMPLES)(restore)
    group.command("export", epilog=EXPORT_EXAMPLES)(
        export_command(Record, "Write all records of a tenant as JSON lines.")
    )
    group.command("tenants", epilog=TENANTS_EXAMPLES)(list_tenants)
    group.command("keys", epilog=KEYS_EXAMPLES)(keys)
    group.command("rotate", epilog=ROTATE_EXAMPLES)(rotate)
    group.command("encrypt", epilog=ENCRYPT_EXAMPLES)(encrypt)
    group.command("distribute", epilog=DISTRIBUTE_EXAMPLES)(distribute)
    group.command("isolate", epilog=ISOLATE_EXAMPLES)(isolate)
    app.add_typer(group, name="db")


def migrate(*, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Create a store, or migrate its tables to this version.

    Programs do this when they open a store. Use this command to do it ahead
    of time, or as a database user with more privileges.
    """
    changed = asyncio.run(_migrate(db))
    output.show({"migrated": changed}, "migrated" if changed else "already up to date", as_json=as_json)


async def _migrate(db: str) -> bool:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start faster

    try:
        async with connect(db, migrate=False):
            return False
    except MigrationError:  # or the store is newer, which the next line reports
        async with connect(db):
            return True


def check(*, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Check a store: the file, references between rows, and the index.

    The exit code is 1 if something is damaged. Minor problems are reported as warnings.
    """
    found = with_database(lambda database: database.check(), db)
    output.show_rows(
        found, _FINDING_COLUMNS, lambda each: [each.level, each.text], empty="no problems found", as_json=as_json
    )
    if any(finding.level == "error" for finding in found):
        raise typer.Exit(FAILED)


def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file; copy a damaged store.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Copy a store with all of its tenants to a file.

    You can keep using the store in the meantime. The backup is a SQLite
    store, even for PostgreSQL. Encrypted data stays encrypted. The file
    appears once it is complete.
    """
    require_store(db)
    if file.exists() and not force:
        raise Failure(f"{file}: already exists; overwrite it with --force")
    _copy(db, "backup", file, quiet=as_json, force=force)
    size = file.stat().st_size
    text = f"wrote {output.one_line(str(file))}, {size:,} bytes"
    output.show({"file": str(file), "bytes": size}, text, as_json=as_json)


def restore(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file from `brimful db backup`.")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty or new store."""
    if not file.is_file():
        raise Failure(f"{file}: no such file")
    _copy(db, "restore", file, quiet=as_json)
    tenants = with_database(_list_tenants, db)
    some = _name_some(list(map(output.one_line, tenants)))
    output.show({"tenants": tenants}, f"restored {output.one_line(str(file))}: {some or 'no tenants'}", as_json=as_json)


def list_tenants(
    *,
    after: Annotated[str, typer.Option("--after", metavar="NAME", help="Only tenants after this name.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="NUMBER", help="Maximum number of tenants.")] = 1_000,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """List the tenants that have data, in order of name."""
    tenants = with_database(lambda database: database.tenants(after=after, limit=limit + 1), db)
    shown, more = tenants[:limit], len(tenants) > limit
    if as_json:
        output.show_json({"tenants": shown, "after": shown[-1] if more else None})
        return
    for name in shown:
        output.write(output.one_line(name))
    if more:
        output.warn(f"there are more; see them with --after {shlex.quote(output.one_line(shown[-1]))}")


async def _list_tenants(database: "Database") -> list[str]:
    return [name async for name in database.all_tenants()]


def _copy(db: str, verb: Literal["backup", "restore"], file: Path, *, quiet: bool, force: bool = False) -> None:
    with progress(verb, 1, quiet=quiet) as advance:

        def report(done: int, total: int) -> None:
            advance(done / max(1, total))

        async def copy(database: "Database") -> None:
            if verb == "backup":
                await database.backup(file, report, force=force)
            else:
                await database.restore(file, report)

        with_database(copy, db, new=True)


def distribute(
    *,
    shards: Annotated[
        int | None,
        typer.Option("--shards", min=1, help="How many parts to divide tenants into. Default: citus.shard_count."),
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Distribute a PostgreSQL store by tenant over a Citus cluster.

    First create the extension on every server, and add the workers with
    citus_add_node. Then run this on the coordinator, as a superuser or as the
    owner of the tables. Existing rows are moved in one transaction; programs
    wait for it. Run it again at any time: it distributes only what is not
    distributed yet. Later migrations distribute their tables themselves.
    """
    with progress("distribute", 1, quiet=as_json) as advance:

        def report(done: int, total: int) -> None:
            advance(done / max(1, total))

        done = with_database(lambda database: database.distribute(report, shards=shards), db, new=True)
    what = f"distributed {len(done.tables)} tables" if done.tables else "already distributed"
    output.show(done, f"{what}: {done.shards} shards on {done.servers} servers", as_json=as_json)


def isolate(
    *,
    name: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant to move.")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Move a large tenant of a Citus cluster to a shard of its own.

    You can keep using the tenant in the meantime. The shard is created on
    another worker, if there is one. The user of the database must be a
    superuser, or have the attribute BYPASSRLS.
    """
    moved = with_database(lambda database: database.isolate(name), db, new=True)
    text = "moved" if moved else "already has a shard of its own"
    output.show({"tenant": name, "moved": moved}, text, as_json=as_json)
