"""What became of a candidate after its context was built: who looks for it now may look in vain."""

from brimful.core.content import ContentPackage
from brimful.core.sections import is_erased
from brimful.protocols import Store
from brimful.server.inspector.views import Since


async def since_of(store: Store, package: ContentPackage) -> Since:
    """Say whether a candidate was removed since, or erased.

    Of messages only the latter is known: those that came with a request were never in the store.
    """
    if is_erased(package):
        return "erased"
    if package.kind.startswith("memory-") and not await store.memories(ids=[package.id], limit=1):
        return "removed"
    if package.kind == "lorebook" and not await store.lore(ids=[package.id]):
        return "removed"
    return ""
