"""The admin page shows keys, what they spent, limits, upstreams and jobs, and never a secret."""

import pytest
from playwright.sync_api import expect

from brimful.records import Room
from brimful.server.access import SCOPES
from brimful.stores import connect
from web import world
from web.conftest import in_thread, served_here

CHAT = {"model": "gpt-4o", "user": "ada", "messages": [{"role": "user", "content": "Is it open?"}]}


@pytest.fixture(scope="module")
def operated(tmp_path_factory):
    """A server with two keys, one of them revoked, a limited user, and a job that failed; and its store."""
    store = f"sqlite:///{tmp_path_factory.mktemp('operated')}/brimful.db"
    in_thread(world.support(store, tenant="acme", turns=1))

    async def prepare():
        async with connect(store) as database:
            keys = database.api_keys("acme")
            _, secret = await keys.create(name="operator", scopes=SCOPES, at=1.0)
            old, _ = await keys.create(name="old bot", scopes=["chat"], at=1.0, models=["gpt-4o*"])
            await keys.revoke(old.id, at=2.0)
            await database.limits("acme").set_own("user", "ada", {"tokens_per_day": 50_000})
            await database.tenant("acme").put(Room(id="new"))
        return secret

    secret = in_thread(prepare())
    with served_here(store, require_keys=True) as address:
        yield address, store, secret


def test_an_operator_sees_keys_spend_limits_and_jobs(operated, visit):
    address, _, secret = operated
    page = visit(address, "/admin", allowed=("401",))
    dialog = page.get_by_role("dialog", name="API key required")
    dialog.get_by_label("API key", exact=True).fill(secret)
    dialog.get_by_role("button", name="Use key").click()
    keys = page.get_by_role("table", name="API keys")
    expect(keys.get_by_role("row", name="operator")).to_contain_text("active")
    expect(keys.get_by_role("row", name="old bot")).to_contain_text("revoked")
    expect(keys.get_by_role("row", name="old bot")).to_contain_text("models gpt-4o*")
    limits = page.get_by_role("table", name="Limits")
    expect(limits.get_by_role("row", name="user ada")).to_contain_text("50,000")
    expect(page.get_by_role("heading", name="Background jobs")).to_be_visible()
    page.get_by_label("By").select_option("model")
    expect(page.get_by_role("table", name="Spend by model")).to_contain_text("gpt-4")
    expect(page.get_by_role("link", name="Admin")).to_have_attribute("aria-current", "page")
    assert secret.rpartition(".")[2] not in page.content()


def test_a_reader_has_no_admin_page(operated, visit):
    address, store, _ = operated

    async def reader():
        async with connect(store) as database:
            return (await database.api_keys("acme").create(name="reader", scopes=["read"], at=1.0))[1]

    page = visit(address, allowed=("401",))
    dialog = page.get_by_role("dialog", name="API key required")
    dialog.get_by_label("API key", exact=True).fill(in_thread(reader()))
    dialog.get_by_role("button", name="Use key").click()
    expect(page.get_by_role("link", name="Stats")).to_be_visible()
    expect(page.get_by_role("link", name="Admin")).to_have_count(0)
