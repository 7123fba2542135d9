"""Message and record contents, stored once per tenant under their hash, with token counts per tokenizer."""

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.cache import LRU, content_bytes, memoize
from brimful.core.content import content_hash, content_hashes
from brimful.core.frame import part_text
from brimful.records import Content
from brimful.stores.encryption.cipher import decrypt, encrypt, storage_address
from brimful.stores.session import Session

MAX_CACHE_BYTES: Final = 16 * 2**20  # bytes of memory

CachedContent = tuple[Content, int | None]
"""A content, and its stored token count."""
TokenCounts = Mapping[str, Mapping[str, int]]
"""Token counts by tokenizer and content hash."""
_DECODER: Final = msgspec.json.Decoder(Content)
_MAX_CACHED_CHARACTERS: Final = 32_768  # of a content whose hashes are cached
_PARTS_PREFIX: Final = "p:"  # keeps a string apart from parts with the same encoding
_SHARED_PREFIX: Final = "s:"  # keeps what contexts share apart from contents
_HASH_PREFIX: Final = "b2:"
_HASH_CHARACTERS: Final = 35  # with its prefix
_KEY_CHARACTERS: Final = 22  # of the same 16 bytes in base64, without padding
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_PUT: Final = """
INSERT INTO contents (tenant, hash, body, uses) VALUES (:tenant, :hash, :body, :uses)
ON CONFLICT (tenant, hash) DO UPDATE SET uses = contents.uses + excluded.uses
"""
_MOVE: Final = """
INSERT INTO contents (tenant, hash, body, uses, seen) VALUES (:tenant, :hash, :body, :uses, :seen)
ON CONFLICT (tenant, hash) DO UPDATE SET uses = contents.uses + excluded.uses,
    seen = CASE WHEN contents.seen < excluded.seen THEN excluded.seen ELSE contents.seen END
"""
_INSERT_FOR_CONTEXT: Final = """
INSERT INTO contents (tenant, hash, body, uses, seen) VALUES (:tenant, :hash, :body, :uses, :seen)
ON CONFLICT (tenant, hash) DO UPDATE SET seen = excluded.seen WHERE contents.seen < excluded.seen
"""
_MARK_SEEN: Final = """
UPDATE contents SET seen = :day WHERE tenant = :tenant AND hash IN :addresses AND seen < :day RETURNING hash
"""
_PAGE: Final = """
SELECT hash, body FROM contents WHERE tenant = :tenant AND hash > :after AND uses > 0 ORDER BY hash LIMIT :limit
"""
_RELEASE: Final = "UPDATE contents SET uses = uses - :uses WHERE tenant = :tenant AND hash = :hash"
_UPSERT_COUNT: Final = """
INSERT INTO token_counts (tenant, tokenizer, hash, tokens) VALUES (:tenant, :tokenizer, :hash, :tokens)
ON CONFLICT (tenant, tokenizer, hash) DO UPDATE SET tokens = excluded.tokens
"""


class ContentCache:
    """Contents of one tenant by address, with their counts by tokenizer, in an LRU cache.

    >>> cache = ContentCache(max_bytes=10)
    >>> cache.keep("o200k", "a1", ("Hello.", 2), size=8)
    >>> cache.known("o200k", ["a1", "b2"])
    {'a1': ('Hello.', 2)}
    >>> cache.keep("o200k", "b2", ("Bye.", 2), size=6)
    >>> cache.known("o200k", ["a1", "b2"])
    {'b2': ('Bye.', 2)}
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._entries: LRU[tuple[str, str], tuple[CachedContent, int]] = LRU(
            max_size=max_bytes, size=lambda _, entry: entry[1], name="contents"
        )

    def known(self, tokenizer: str, addresses: Iterable[str]) -> dict[str, CachedContent]:
        """Return the cached contents among these."""
        entries = self._entries.get_many((tokenizer, address) for address in addresses)
        return {address: content for (_, address), (content, _) in entries.items()}

    def keep(self, tokenizer: str, address: str, known: CachedContent, *, size: int) -> None:
        self._entries[tokenizer, address] = known, size


_cached_hashes: Final = memoize(content_hashes, name="hashes", size=lambda args, _: content_bytes(args[0]))
"""Clients resend the whole conversation with every turn, and each of its contents has an address."""


def hash_content(content: Content) -> tuple[str, str]:
    """Return the hash of a content, and of its normalized text."""
    size = len(content) if isinstance(content, str) else sum([len(part_text(part)) for part in content])
    return (_cached_hashes if size <= _MAX_CACHED_CHARACTERS else content_hashes)(content)


def _address(session: Session, content: Content, hash: str) -> str:
    return storage_address(session, hash if isinstance(content, str) else _PARTS_PREFIX + hash)


def add_contents(session: Session, contents: Sequence[Content]) -> list[str]:
    """Save contents that records refer to, and return their addresses."""
    addresses = [_address(session, content, content_hash(content)) for content in contents]
    times = Counter(addresses)
    bodies = dict(zip(addresses, contents, strict=True))
    session.insert(_PUT, (_row(session, hash, bodies[hash], times[hash]) for hash in _in_order(bodies)))
    return addresses


def save_context_contents(
    session: Session, contents: Sequence[Content], hashes: Sequence[tuple[str, str]], shared: str, *, day: int
) -> list[str]:
    """Save contents of a context built on that day, and what it shares with others; return their addresses.

    What is shared has an address of its own kind, so that erasing a message with the same text does not erase it.
    """
    addresses = [_address(session, content, hash) for content, (hash, _) in zip(contents, hashes, strict=True)]
    addresses.append(storage_address(session, _SHARED_PREFIX + content_hash(shared)))
    contents = [*contents, shared]
    found = session.rows(
        "SELECT hash, seen FROM contents WHERE tenant = :tenant AND hash IN :addresses",
        addresses=list(dict.fromkeys(addresses)),
    )
    known = {hash for hash, seen in found if seen >= day}
    # A content that is pruned meanwhile is either locked by this or known to be missing.
    known.update(mark_seen(session, [hash for hash, seen in found if seen < day], day=day))
    missing = {hash: content for hash, content in zip(addresses, contents, strict=True) if hash not in known}
    session.many(
        _INSERT_FOR_CONTEXT, (_row(session, hash, missing[hash], 0) | {"seen": day} for hash in _in_order(missing))
    )
    return addresses


def mark_seen(session: Session, addresses: Sequence[str], *, day: int) -> list[str]:
    """Record that a context of that day refers to contents, and return the addresses that changed."""
    found = session.rows(_MARK_SEEN, addresses=list(dict.fromkeys(addresses)), day=day) if addresses else []
    return [hash for (hash,) in found]


def rekey_contents(session: Session, uses: Mapping[str, int]) -> dict[str, str]:
    """Copy contents from plain to keyed addresses, move their use counts, and return the new addresses."""
    moved = {hash: storage_address(session, hash) for hash in uses}
    found = session.rows(
        "SELECT hash, body, seen FROM contents WHERE tenant = :tenant AND hash IN :addresses", addresses=list(moved)
    )
    rows = {
        moved[hash]: {
            "hash": moved[hash],
            "body": encrypt(session, decrypt(session, body, "contents", hash), "contents", moved[hash]),
            "uses": uses[hash],
            "seen": seen,
        }
        for hash, body, seen in found
    }
    session.many(_MOVE, (rows[hash] for hash in _in_order(rows)))
    session.many(_RELEASE, ({"hash": hash, "uses": uses[hash]} for hash in _in_order(uses)))
    return moved


def decode_content(session: Session, body: bytes | None, hash: str) -> Content:
    """Return the content of a row, empty if it was erased."""
    return "" if body is None else _DECODER.decode(decrypt(session, body, "contents", hash))


def decode_text(session: Session, body: bytes | None, hash: str) -> str:
    """Return the content of a record that has only text."""
    content = decode_content(session, body, hash)
    return content if isinstance(content, str) else ""


def get_contents(session: Session, addresses: Iterable[str]) -> dict[str, Content]:
    """Return contents by address. Missing ones are omitted."""
    found = session.rows(
        "SELECT hash, body FROM contents WHERE tenant = :tenant AND hash IN :addresses",
        addresses=list(dict.fromkeys(addresses)),
    )
    return {hash: decode_content(session, body, hash) for hash, body in found}


def list_contents(session: Session, *, after: str = "", limit: int = 500) -> dict[str, Content]:
    """Return contents of records whose addresses come after `after`, in order of address."""
    rows = session.rows(_PAGE, after=after, limit=limit)
    return {hash: decode_content(session, body, hash) for hash, body in rows}


def release_contents(session: Session, addresses: Sequence[str], *, erase: bool) -> None:
    """Decrease the use counts; with `erase`, delete contents that no record uses any more."""
    times = sorted(Counter(addresses).items())
    session.many(_RELEASE, ({"hash": hash, "uses": uses} for hash, uses in times))
    if erase:
        erase_unused(session, [hash for hash, _ in times])


def erase_unused(session: Session, addresses: Sequence[str]) -> None:
    """Erase contents that no record uses."""
    session.run(
        "DELETE FROM contents WHERE tenant = :tenant AND uses <= 0 AND hash IN :addresses", addresses=list(addresses)
    )


def erase_unseen(session: Session, addresses: Sequence[str]) -> None:
    """Erase contents that no record and no context uses."""
    session.run(
        "DELETE FROM contents WHERE tenant = :tenant AND uses <= 0 AND seen = 0 AND hash IN :addresses",
        addresses=list(addresses),
    )


def _row(session: Session, hash: str, content: Content, uses: int) -> dict[str, Any]:
    body = encrypt(session, msgspec.json.encode(content), "contents", hash)
    return {"hash": hash, "body": body, "uses": uses}


def _in_order(addresses: Iterable[str]) -> list[str]:
    """Sort addresses, so that concurrent writers cannot deadlock."""
    return sorted(addresses)


def get_counts(session: Session, tokenizer: str, hashes: Sequence[str]) -> dict[str, int]:
    """Return stored token counts by content hash."""
    by_key = {count_key(storage_address(session, hash)): hash for hash in hashes}
    found = session.rows(
        "SELECT hash, tokens FROM token_counts WHERE tenant = :tenant AND tokenizer = :tokenizer AND hash IN :hashes",
        tokenizer=tokenizer,
        hashes=list(by_key),
    )
    return {by_key[key]: tokens for key, tokens in found}


def save_counts(session: Session, tokenizer: str, counts: Mapping[str, int]) -> None:
    """Save token counts by content hash."""
    rows = sorted((count_key(storage_address(session, hash)), tokens) for hash, tokens in counts.items())
    session.insert(_UPSERT_COUNT, ({"tokenizer": tokenizer, "hash": key, "tokens": tokens} for key, tokens in rows))


def rekey_counts(session: Session, counts: Iterable[tuple[str, str, int]]) -> None:
    """Copy stored counts (tokenizer, key, tokens) from plain to keyed addresses."""
    for tokenizer, key, tokens in counts:
        save_counts(session, tokenizer, {_hash_of_key(key): tokens})


def count_key(address: str) -> str:
    """Return the key of an address in the table of counts, which has a row for each: a plain hash in fewer characters.

    >>> count_key("b2:699cf540a08fff61ce39735b6e9b836b")
    'aZz1QKCP_2HOOXNbbpuDaw'
    """
    if len(address) != _HASH_CHARACTERS or not address.startswith(_HASH_PREFIX):
        return address
    encoded = binascii.b2a_base64(bytes.fromhex(address[len(_HASH_PREFIX) :]), newline=False)
    return encoded[:_KEY_CHARACTERS].translate(_URL_SAFE).decode()


def _hash_of_key(key: str) -> str:
    return _HASH_PREFIX + base64.urlsafe_b64decode(f"{key}==").hex() if len(key) == _KEY_CHARACTERS else key
