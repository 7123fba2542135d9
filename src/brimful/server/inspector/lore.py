"""Lorebooks and their entries."""

from collections import Counter
from collections.abc import Sequence

from brimful.errors import UnknownRecord
from brimful.protocols import Store
from brimful.records import Lorebook, LoreEntry
from brimful.server.errors import Refusal
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.kept import EntryList, EntryView, LorebookList, LorebookView, Removed
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.shelf import Shelf, changed, said_in, shown_as, taken
from brimful.server.inspector.tokens import Tokens
from brimful.server.tenants import Tenants


def lorebooks(tenants: Tenants, tokens: Tokens, loaded: Loaded) -> Shelf[Lorebook]:
    """Return the lorebooks of all tenants."""

    async def views(store: Store, records: Sequence[Lorebook], model: str | None) -> list[LorebookView]:
        entries = await store.lore([book.id for book in records]) if records else []
        counts = await tokens.of([entry.content for entry in entries], model)
        many = Counter(entry.lorebook for entry in entries)
        whole = Counter[str]()
        for entry, count in zip(entries, counts, strict=True):
            whole[entry.lorebook] += count
        return [shown_as(LorebookView, book, entries=many[book.id], tokens=whole[book.id]) for book in records]

    def listed(found: tuple[LorebookView, ...], after: str | None) -> LorebookList:
        return LorebookList(lorebooks=found, next=after)

    return Shelf(Lorebook, views, listed, tenants=tenants, loaded=loaded)


class Entries:
    """Shows and changes the entries of lorebooks."""

    def __init__(self, tenants: Tenants, tokens: Tokens) -> None:
        """Take the stores."""
        self._tenants = tenants
        self._tokens = tokens

    async def listed(self, inquiry: Inquiry) -> EntryList:
        """List all entries of a lorebook, by their order."""
        store, book = self._tenants.store(inquiry.tenant), inquiry.name()
        await _want_book(store, book)
        entries = await store.lore([book])
        return EntryList(entries=tuple(await self._views(entries, inquiry.query.model)))

    async def create(self, inquiry: Inquiry) -> EntryView:
        """Write an entry; an id that is taken is refused."""
        engine, book = await self._tenants.engine(inquiry.tenant), inquiry.name()
        said = said_in(inquiry.body, id="lore")
        await _want_book(engine.store, book)
        if "content" not in said:
            raise Refusal("invalid", "content: say what the entry tells", param="content")
        entry = LoreEntry(lorebook=book, **said)
        if await engine.store.lore(ids=[entry.id]):
            raise taken("entry", entry.id)
        await engine.write_lore([entry])
        return (await self._views([entry], inquiry.query.model))[0]

    async def change(self, inquiry: Inquiry) -> EntryView:
        """Change an entry."""
        engine = await self._tenants.engine(inquiry.tenant)
        entry = changed(await _entry(engine.store, inquiry), said_in(inquiry.body))
        await engine.write_lore([entry])
        return (await self._views([entry], inquiry.query.model))[0]

    async def remove(self, inquiry: Inquiry) -> Removed:
        """Remove an entry."""
        store = self._tenants.store(inquiry.tenant)
        entry = await _entry(store, inquiry)
        await store.remove_lore(entry.id)
        return Removed(id=entry.id)

    async def _views(self, entries: Sequence[LoreEntry], model: str | None) -> list[EntryView]:
        counts = await self._tokens.of([entry.content for entry in entries], model)
        return [shown_as(EntryView, entry, tokens=count) for entry, count in zip(entries, counts, strict=True)]


async def _want_book(store: Store, id: str) -> None:
    if await store.get(Lorebook, id) is None:
        raise UnknownRecord("lorebook", id)


async def _entry(store: Store, inquiry: Inquiry) -> LoreEntry:
    """Return the entry that the path names, of the lorebook that it names."""
    book, id = inquiry.name(), inquiry.name("entry")
    found = [entry for entry in await store.lore(ids=[id]) if entry.lorebook == book]
    if not found:
        raise UnknownRecord("entry", id)
    return found[0]
