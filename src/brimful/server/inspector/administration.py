"""Endpoints for the operators of a server: the names of all tenants."""

from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import TenantsQuery
from brimful.server.inspector.views import View
from brimful.server.tenants import Tenants


class TenantList(View, frozen=True, kw_only=True):
    """The names of tenants that have data. `next` continues the list; null at its end."""

    tenants: tuple[str, ...]
    next: str | None


class Administration:
    """The endpoints of the scope `admin`."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    async def list_tenants(self, call: Call) -> TenantList:
        """Return a page of tenants, in order of name."""
        query: TenantsQuery = call.query
        names = await self._tenants.names(after=query.after, limit=query.limit + 1)
        page = tuple(names[: query.limit])
        return TenantList(tenants=page, next=page[-1] if len(names) > query.limit else None)
