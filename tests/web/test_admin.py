"""The admin page shows keys, what they spent, limits, upstreams and jobs, and never a secret."""

import httpx2
import pytest
from playwright.sync_api import expect

import brimful
from brimful.server.access import SCOPES
from brimful.stores import connect
from web import world
from web.conftest import in_thread, served_here

CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Is it open?"}]}
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 100}


@pytest.fixture(scope="module")
def operated(tmp_path_factory):
    """A server with two keys, one of them revoked, a limited user, an upstream and a job that failed; and its store."""
    store = f"sqlite:///{tmp_path_factory.mktemp('operated')}/brimful.db"
    in_thread(world.support(store, tenant="acme", turns=1))

    async def prepare():
        async with connect(store) as database:
            keys = database.api_keys("acme")
            operator, secret = await keys.create(name="operator", scopes=SCOPES, at=1.0)
            old, _ = await keys.create(name="old bot", scopes=["chat"], at=1.0, models=["gpt-4o*"])
            await keys.revoke(old.id, at=2.0)
            await database.limits("acme").set_own("user", "ada", {"tokens_per_day": 50_000})
            async with brimful.Engine(database, tenant="acme", model="gpt-4o", indexing="elsewhere") as engine:
                context = await engine.assemble(room="den", message="Is it open?", user="bo", key=operator.id)
                await engine.record_response(context, "Until ten.", usage=USAGE)
                await engine.post(room="den", text="Until ten.")  # which waits for a vector
            (job,) = await database.due_jobs("embed", None, now=1e10)
            assert await database.jobs("acme").claim(job, "worker-1", now=1e10, lease=90.0)
            await database.jobs("acme").fail(job, "worker-1", error="TimeoutError", due=2e10)
        return secret

    secret = in_thread(prepare())
    with served_here(store, require_keys=True, background_work=False) as address:
        refused = httpx2.post(f"{address}/v1/chat/completions", json=CHAT, headers={"x-api-key": secret}, timeout=60)
        assert refused.status_code == 502  # nothing listens there
        yield address, store, secret


def test_an_operator_sees_keys_spend_limits_and_jobs(operated, visit):
    address, _, secret = operated
    page = visit(address, "/admin", allowed=("401",))
    dialog = page.get_by_role("dialog", name="API key required")
    dialog.get_by_label("API key", exact=True).fill(secret)
    dialog.get_by_role("button", name="Use key").click()
    upstreams = page.get_by_role("table", name="Upstreams")
    expect(upstreams.get_by_role("row", name="none")).to_contain_text("failed")
    keys = page.get_by_role("table", name="API keys")
    expect(keys.get_by_role("row", name="operator")).to_contain_text("active")
    expect(keys.get_by_role("row", name="operator").get_by_role("cell").last).not_to_have_text("never")  # its last use
    expect(keys.get_by_role("row", name="old bot").get_by_role("cell").last).to_have_text("never")
    expect(keys.get_by_role("row", name="old bot")).to_contain_text("revoked")
    expect(keys.get_by_role("row", name="old bot")).to_contain_text("models gpt-4o*")
    limits = page.get_by_role("table", name="Limits")
    expect(limits.get_by_role("row", name="user ada")).to_contain_text("50,000")
    jobs = page.get_by_role("table", name="Background jobs")
    expect(jobs.get_by_role("row", name="embed")).to_contain_text("TimeoutError")
    spend = page.get_by_role("table", name="Spend by key").get_by_role("row", name="operator")
    expect(spend).to_contain_text("$0.0035")
    group = page.get_by_role("combobox", name="By", exact=True)
    group.select_option("user")
    expect(page.get_by_role("table", name="Spend by user").get_by_role("row", name="bo")).to_contain_text("1,000")
    group.select_option("model")
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
