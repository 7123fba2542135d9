"""Erasing: content leaves past contexts, too."""

from brimful.stores.contents import erase_unused
from brimful.stores.session import Session


def erase(session: Session, item: str, hash: str) -> None:
    """Erase the content of an item that is no longer used."""
    del item
    erase_unused(session, [hash])
