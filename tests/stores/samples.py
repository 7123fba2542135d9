"""Sample records."""

from brimful.core.content import Media, Text, ToolCall
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.records.search import IndexEntry, TermQuery, VectorQuery


def words(text):
    return IndexEntry(terms=tuple(text.lower().split()), passage=text)


def make_message(id, text="Hello there", room="general", **more):
    return (Message(id=id, room=room, content=text, **more), words(text))


def known(id, text="Ada drinks tea", **more):
    return (Memory(id=id, content=text, **more), words(text))


def make_entry(id, text="The tower is old", lorebook="world", **more):
    return (LoreEntry(id=id, content=text, lorebook=lorebook, **more), words(text))


def summed(id, text="They spoke of tea", room="general", **more):
    return (Summary(id=id, content=text, room=room, cluster="morning", **more), words(text))


PARTS = (
    Text(text="Look at this, \x00 and \N{SNOWMAN}"),
    Media(modality="image", url="https://example.org/cat.png", width=640, height=480),
    ToolCall(id="call-1", name="find", arguments='{"what": "cat"}'),
)


async def occurring(store, scopes, terms, limit=4000, **more):
    """Return where terms occur in scopes."""
    [found] = await store.find_postings([TermQuery(scopes=tuple(scopes), terms=tuple(terms), limit=limit, **more)])
    return found


async def nearest(store, scopes, embedder, vector, limit):
    """Return the documents of scopes that are nearest to a vector."""
    query = VectorQuery(scopes=tuple(scopes), vector=vector)
    [found], _ = await store.search_vectors(embedder, [query], limit=limit, max_backlog=0)
    return found
