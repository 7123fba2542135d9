"""Erasing: content leaves past contexts, too."""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.packagers.ids import ids_in_contexts
from brimful.stores.contents import erase_unseen, erase_unused, release
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Session
from brimful.stores.stripping import places_of, without_request

_SEEN_IN: Final = """
SELECT DISTINCT s.id, s.room, s.refs, s.body
FROM inclusions i JOIN snapshots s ON s.tenant = i.tenant AND s.number = i.snapshot
WHERE i.tenant = :tenant AND i.item IN :names
"""


def erase(session: Session, item: str, hash: str) -> None:
    """Erase what an item said, and whatever it said in past contexts, as far as no other record says the same.

    A request may hold it in other words, such as its first sentences: such a request is erased as a whole.
    """
    gone = [hash]
    names = ids_in_contexts(item)
    for id, room, refs, body in session.rows(_SEEN_IN, names=names):
        packed = unseal(session, body, "snapshots", id, room, refs)
        places = places_of(packed, names)
        addresses = msgspec.json.decode(refs, type=list[str])
        gone += [addresses[at] for at in places]
        _forget_request(session, (id, room, refs), without_request(packed, places))
    erase_unused(session, gone)


def supersede(session: Session, old: Sequence[tuple[str, str]]) -> None:
    """Release what items (id, address) said before they were changed; what no context ever saw is erased."""
    release(session, [hash for _, hash in old], erase=False)
    seen = session.rows(
        "SELECT DISTINCT item FROM inclusions WHERE tenant = :tenant AND item IN :names",
        names=[name for id, _ in old for name in ids_in_contexts(id)],
    )
    known = {item for (item,) in seen}
    erase_unseen(session, [hash for id, hash in old if known.isdisjoint(ids_in_contexts(id))])


def _forget_request(session: Session, place: tuple[str, str, bytes], packed: bytes | None) -> None:
    if packed is not None:
        session.run(
            "UPDATE snapshots SET body = :body WHERE tenant = :tenant AND id = :id",
            id=place[0],
            body=seal(session, packed, "snapshots", *place),
        )
