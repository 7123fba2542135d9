"""A backup is complete or absent, and touches nothing else."""

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from brimful.errors import InvalidValue, MigrationError, StoreCorrupt, StoreError, StoreUnavailable
from brimful.stores import connect
from brimful.stores.tuning import Tuning
from stores.samples import make_message


def test_a_file_that_is_no_backup_is_refused(sqlite_url, tmp_path, run):
    (tmp_path / "letter.txt").write_text("Dear Ada, " * 100)
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE notes (text)")
    foreign.close()

    async def restored(name):
        async with connect(sqlite_url) as database:
            await database.restore(tmp_path / name)

    with pytest.raises(StoreCorrupt, match=r"letter\.txt: not a database"):
        run(restored("letter.txt"))
    with pytest.raises(StoreError, match=r"foreign\.db: is a database, but not a backup of a store"):
        run(restored("foreign.db"))


def test_a_backup_of_a_newer_version_is_refused_before_it_is_taken_over(sqlite_url, tmp_path, run):
    async def restored():
        async with connect(sqlite_url) as database:
            await database.tenant("acme").post([make_message("m1")])
            await database.backup(tmp_path / "copy.db")
        copy = sqlite3.connect(tmp_path / "copy.db")
        copy.execute("INSERT INTO migrations VALUES ('9999_later', '')")
        copy.commit()
        copy.close()
        async with connect(f"sqlite:///{tmp_path}/new.db") as database:
            with pytest.raises(MigrationError, match=r"copy\.db: was written by a newer version"):
                await database.restore(tmp_path / "copy.db")
            assert await database.tenants() == []
            await database.tenant("acme").post([make_message("m2")])
            return await database.check()

    assert run(restored()) == []


def test_a_backup_is_never_written_over_its_own_store(sqlite_url, tmp_path, run):
    async def story():
        async with connect(sqlite_url) as database:
            await database.tenant("acme").post([make_message("m1")])
            (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
            for name in ("store.db", "link.db"):
                with pytest.raises(InvalidValue, match="is the store itself; write the copy to another file"):
                    await database.backup(tmp_path / name)
        async with connect(sqlite_url) as database:
            return len(await database.tenant("acme").history("general"))

    assert run(story()) == 1


def test_a_damaged_store_is_not_backed_up_without_force(sqlite_url, tmp_path, run):
    path = Path(sqlite_url.removeprefix("sqlite:///"))

    async def filled():
        async with connect(sqlite_url) as database:
            await database.tenant("acme").post([make_message(f"m{number}", "some text " * 40) for number in range(500)])
            await database.backup(tmp_path / "copy.db")

    async def copied(**options):
        async with connect(sqlite_url) as database:
            await database.backup(tmp_path / "copy.db", **options)

    run(filled())
    sound = (tmp_path / "copy.db").read_bytes()
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'").fetchone()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * 4096 : page * 4096] = b"\xaa" * 4096
    path.write_bytes(whole)
    with pytest.raises(StoreCorrupt, match=r"was not written, because the store is damaged \(.+\); --force"):
        run(copied())
    assert (tmp_path / "copy.db").read_bytes() == sound
    assert not list(tmp_path.glob("*.part*"))
    run(copied(force=True))
    assert (tmp_path / "copy.db").read_bytes() != sound


def test_leftovers_of_killed_backups_are_removed(sqlite_url, tmp_path, run):
    killed, running, other = (f"copy[1].db.{digit * 12}.part" for digit in "abc")
    foreign = ["copy1.db.aaaaaaaaaaaa.part", "copy[1].db.mine.part", "copy[1].db.aaaaaaaaaaaa.part.txt"]
    for name in (killed, f"{killed}-journal", running, other, f"{other}-wal", *foreign):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (0, 0))
    for name in (running, f"{other}-wal"):  # written a moment ago
        os.utime(tmp_path / name)

    async def story():
        async with connect(sqlite_url) as database:
            await database.backup(tmp_path / "copy[1].db")

    run(story())
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith("copy")}
    assert left == {"copy[1].db", running, other, f"{other}-wal", *foreign}


def test_two_backups_to_one_path_are_each_whole(url, tmp_path, run):
    async def story():
        async with connect(url) as database:
            await database.tenant("acme").post([make_message(f"m{number}") for number in range(50)])
            await asyncio.gather(*(database.backup(tmp_path / "copy.db") for _ in range(3)))
        assert {path.name for path in tmp_path.iterdir()} <= {"copy.db", "store.db"}
        async with connect(f"sqlite:///{tmp_path}/copy.db") as copy:
            return len(await copy.tenant("acme").history("general")), await copy.check()

    assert run(story()) == (50, [])


def leave_log(path):
    """Leave what a process leaves that wrote into a file and was killed."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO tenants VALUES ('lost')")
    log = Path(f"{path}-wal").read_bytes()
    connection.close()
    Path(f"{path}-wal").write_bytes(log)


def test_files_left_beside_an_older_backup_do_not_get_into_a_new_one(url, tmp_path, run):
    """A backup is a store; a process that works on it and is killed leaves its log behind."""
    copy = tmp_path / "copy.db"

    async def story():
        async with connect(url) as database:
            await database.tenant("acme").post([make_message("m1")])
            await database.backup(copy)
            leave_log(copy)
            await database.tenant("acme").post([make_message("m2")])
            await database.backup(copy)
        async with connect(f"sqlite:///{copy}") as found:
            return await found.check(), await found.tenants(), len(await found.tenant("acme").history("general"))

    assert run(story()) == ([], ["acme"], 2)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_backup_is_only_read_when_it_is_restored(url, tmp_path, run, request, mode):
    """It may stand where nothing can be written; those of older versions were written with a log."""
    folder = tmp_path / "kept"
    folder.mkdir()
    empty = f"sqlite:///{tmp_path}/new.db" if url.startswith("sqlite") else request.getfixturevalue("another_postgres")

    async def story():
        async with connect(url) as database:
            await database.tenant("acme").post([make_message("m1")])
            await database.backup(folder / "copy.db")
        change_mode(folder / "copy.db", mode)
        before = (folder / "copy.db").read_bytes()
        async with connect(empty) as database:
            await database.restore(folder / "copy.db")
            count = len(await database.tenant("acme").history("general"))
        return count, [path.name for path in folder.iterdir()], (folder / "copy.db").read_bytes() == before

    assert run(story()) == (1, ["copy.db"], True)


def change_mode(path, mode):
    """Let a file be as another program left it; a backup has no log of its own."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.close()


def test_a_backup_that_fails_leaves_nothing_behind_and_the_older_one_stands(url, tmp_path, run):
    def stumble(done, total):
        raise OSError(f"{done} of {total}")

    async def story():
        async with connect(url) as database:
            await database.tenant("acme").post([make_message("m1")])
            await database.backup(tmp_path / "copy.db")
            await database.tenant("acme").post([make_message("m2")])
            with pytest.raises(OSError, match="of"):
                await database.backup(tmp_path / "copy.db", stumble)
        assert {path.name for path in tmp_path.iterdir()} <= {"copy.db", "store.db"}
        async with connect(f"sqlite:///{tmp_path}/copy.db") as copy:
            return len(await copy.tenant("acme").history("general"))

    assert run(story()) == 1


def test_a_tenant_is_restored_to_postgres_as_a_whole_or_not_at_all(sqlite_url, postgres_url, tmp_path, run):
    async def story():
        async with connect(sqlite_url) as database:
            await database.tenant("acme").post([make_message("m1")])
            for name in ("good.db", "bad.db"):
                await database.backup(tmp_path / name)
        bad = sqlite3.connect(tmp_path / "bad.db")
        bad.execute("DROP TABLE janitor_undo")  # which comes after the messages
        bad.close()
        async with connect(postgres_url) as database:
            with pytest.raises(StoreError, match="no such table: janitor_undo"):
                await database.restore(tmp_path / "bad.db")
            assert await database.tenants() == []
            assert await database.tenant("acme").history("general") == []
            await database.restore(tmp_path / "good.db")
            return len(await database.tenant("acme").history("general")), await database.check()

    assert run(story()) == (1, [])


def test_a_backup_into_no_folder_names_the_file_and_not_the_store(sqlite_url, tmp_path, run):
    async def story():
        async with connect(sqlite_url) as database:
            await database.backup(tmp_path / "nowhere" / "copy.db")

    with pytest.raises(StoreUnavailable, match=r"nowhere/copy\.db.*cannot be opened; check that the folder exists"):
        run(story())


async def cancelled(copying, written):
    """Cancel it as soon as something was written, and let nothing more be written before it could know."""
    loop, known = asyncio.get_running_loop(), threading.Event()

    def hop(left):
        loop.call_soon(hop, left - 1) if left else known.set()

    def cancel():
        task.cancel()
        hop(20)

    def report(done, total):
        written.append((done, total))
        if len(written) == 1 and threading.current_thread() is threading.main_thread():
            task.cancel()
        elif len(written) == 1:
            loop.call_soon_threadsafe(cancel)
            known.wait(120)

    task = asyncio.ensure_future(copying(report))
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("way", ["backup", "restore"])
def test_copying_ends_soon_after_nobody_waits_for_it(url, tmp_path, run, request, way):
    empty = f"sqlite:///{tmp_path}/new.db" if url.startswith("sqlite") else request.getfixturevalue("another_postgres")
    written, tuning = [], Tuning(backup_pages=1, copy_rows=1)

    async def story():
        async with connect(url, tuning=tuning) as database:
            for tenant in ("acme", "other"):
                await database.tenant(tenant).post([make_message("m1"), make_message("m2")])
            await database.backup(tmp_path / "copy.db")
            if way == "backup":
                await cancelled(lambda told: database.backup(tmp_path / "more.db", told), written)
        if way == "restore":
            async with connect(empty, tuning=tuning) as new:
                await cancelled(lambda told: new.restore(tmp_path / "copy.db", told), written)

    run(story())
    assert len(written) == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("more.db")]
