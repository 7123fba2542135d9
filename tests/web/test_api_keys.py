"""The page asks for an API key, and a tenant sees only its own records."""

import re

import pytest
from playwright.sync_api import expect

from brimful.stores import connect
from web import world
from web.conftest import in_thread, served_here

REFUSED = ("401", "403")


def made_key(store, tenant, *scopes):
    async def create():
        async with connect(store) as database:
            return (await database.api_keys(tenant).create(name="test", scopes=scopes, at=1.0))[1]

    return in_thread(create())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with keys: a support case of one tenant, and an empty house of another. No test changes a record."""
    store = f"sqlite:///{tmp_path_factory.mktemp('guarded')}/brimful.db"
    in_thread(world.support(store, tenant="acme", turns=1))
    with served_here(store, require_keys=True) as address:
        yield address, store


def enter(page, key):
    dialog = page.get_by_role("dialog", name="API key required")
    dialog.get_by_label("API key", exact=True).fill(key)
    dialog.get_by_role("button", name="Use key").click()


def test_the_page_asks_for_a_key_and_keeps_it_in_the_tab(guarded, visit):
    address, store = guarded
    page = visit(address, allowed=REFUSED)
    expect(page.get_by_role("dialog", name="API key required")).to_contain_text("This server requires an API key.")
    enter(page, "bf-wrong")
    expect(page.get_by_role("dialog")).to_contain_text("unknown or revoked")
    enter(page, made_key(store, "acme", "read"))
    expect(page.get_by_role("link", name=re.compile("Nova in Support"))).to_be_visible()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("link", name=re.compile("Nova in Support"))).to_be_visible()
    assert page.evaluate("Object.keys(localStorage).filter(name => name.includes('key'))") == []
    page.get_by_role("button", name="Remove API key").click()
    expect(page.get_by_role("dialog", name="API key required")).to_be_visible()


def test_a_tenant_sees_only_its_own(guarded, visit):
    address, store = guarded
    [build] = in_thread(newest(store))
    page = visit(address, "/memories", allowed=(*REFUSED, "404"))
    enter(page, made_key(store, "globex", "read", "write"))
    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("heading", name="No contexts yet")).to_be_visible()
    page.goto(f"/contexts/{build.id}")
    expect(page.get_by_role("alert")).to_contain_text("not found")


async def newest(store):
    async with world.brimful.Engine(store, tenant="acme", embedder="none") as engine:
        return await engine.store.builds(limit=1)


def test_a_read_only_key_cannot_edit(guarded, visit):
    address, store = guarded
    page = visit(address, "/memories?q=hazelnut", allowed=REFUSED)
    enter(page, made_key(store, "acme", "read"))
    memory = page.get_by_role("listitem").filter(has_text="allergic to hazelnut")
    memory.get_by_role("button", name=re.compile("^Unpin")).click()
    expect(memory.get_by_role("alert")).to_contain_text("this API key lacks the scope 'write'")
    expect(memory.get_by_role("button", name=re.compile("^Unpin"))).to_be_visible()
