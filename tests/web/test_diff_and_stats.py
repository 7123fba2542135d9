"""The diff and statistics pages."""

import re

import httpx2
from playwright.sync_api import expect

from brimful import Engine
from web.conftest import in_thread, served_here


def test_two_contexts_are_compared_with_their_common_prefix(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/diff/{contexts[0]}/{contexts[1]}")
    expect(page.get_by_role("region", name="Before")).to_contain_text("available tokens")
    expect(page.get_by_role("region", name="Added")).to_contain_text("Question 1")
    messages = page.get_by_role("list", name="Messages of the request").get_by_role("listitem")
    expect(messages.first).to_contain_text("= unchanged")
    expect(messages.filter(has_text="differs from here")).to_have_count(1)
    expect(messages.last).not_to_contain_text("unchanged")
    page.get_by_role("link", name="Swap").click()
    expect(page.get_by_role("region", name="Removed")).to_contain_text("Question 1")


def test_changes_are_folded_by_kind_and_ordered_by_tokens_or_relevance(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/diff/{contexts[0]}/{contexts[2]}")
    changes = httpx2.get(f"{address}/brimful/v1/contexts/{contexts[0]}/diff/{contexts[2]}").json()
    removed = page.get_by_role("region", name="Removed")
    recent = [each for each in changes["left"] if each["kind"] == "message-recent"]
    fold = removed.get_by_role("group").filter(has_text="Recent messages")
    expect(fold.locator("summary")).to_contain_text(
        f"Recent messages: {len(recent)} · {sum(each['tokens'] for each in recent)} tokens"
    )
    assert fold.evaluate("fold => fold.open")
    memories = removed.get_by_role("group").filter(has_text="Memories")
    assert not memories.evaluate("fold => fold.open")
    memories.locator("summary").click()
    expect(memories.get_by_role("link").first).to_be_visible()
    expect(removed.get_by_role("group").first).to_contain_text("Recent messages")
    page.get_by_role("combobox", name="Order of the changes").select_option("relevance")
    expect(page).to_have_url(re.compile("order=relevance"))
    best = max(changes["left"], key=lambda each: each["relevance"] or -1)
    assert best["relevance"]
    expect(removed.locator("li").first).to_contain_text(best["excerpt"][:50])


def test_two_recent_contexts_are_chosen_in_any_order(shop, visit):
    address, _, contexts = shop
    page = visit(address, "/diff")
    cards = [page.get_by_role("button").filter(has_text=context) for context in contexts]
    expect(cards[0]).to_contain_text("Question 0: what of the refund")
    expect(cards[0]).to_contain_text("Answer 0: a new lid")
    expect(page.get_by_role("list", name="Colors of the bars")).to_contain_text("Recent messages")
    cards[1].click()
    expect(page.get_by_role("status")).to_contain_text("Now choose the context to compare it with.")
    expect(cards[1]).to_have_attribute("aria-pressed", "true")
    cards[1].click()
    expect(page.get_by_role("status")).to_have_text("Choose two contexts to compare.")
    cards[2].click()
    cards[0].click()
    expect(page).to_have_url(f"{address}/diff/{contexts[0]}/{contexts[2]}")
    expect(page.get_by_role("region", name="Added")).to_contain_text("Question 2")
    expect(page.get_by_role("region", name="After", exact=True)).to_contain_text("Answer 2: a new lid")


def test_two_contexts_are_compared_by_id(shop, visit):
    address, _, contexts = shop
    page = visit(address, "/diff")
    page.get_by_role("combobox", name="Before").fill(contexts[1])
    page.get_by_role("combobox", name="After").fill(contexts[0])
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="Removed")).to_contain_text("Question 1")


def test_an_empty_period_links_to_all_time(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"

    async def long_ago():
        async with Engine(store, model="gpt-4o", embedder="none") as engine:
            for day in range(3):
                await engine.assemble(room="hall", message="Anyone?", now=1_700_000_000.0 + day * 86_400)

    in_thread(long_ago())
    with served_here(store) as address:
        page = visit(address, "/stats")
        expect(page.get_by_role("heading", name="No contexts in this period")).to_be_visible()
        page.get_by_role("link", name="All time").click()
        expect(page.locator("dl.tiles")).to_contain_text("Contexts3")
        expect(page.get_by_role("img", name="Contexts per day")).to_be_visible()
        page.close()  # before its server is gone, which it would notice


def test_statistics_and_plots(shop, visit):
    address, _, _ = shop
    page = visit(address, "/stats")
    expect(page.locator("dl.tiles")).to_contain_text("Contexts3")
    expect(page.get_by_role("img", name="Tokens in each context")).to_be_visible()  # within one hour
    plot = page.get_by_role("figure").filter(has_text="Tokens in each context")
    expect(plot.locator(".uplot canvas")).to_be_visible()
    expect(plot).to_contain_text("used available")
    plot.locator(".uplot .u-over").hover()
    expect(plot).to_contain_text(re.compile(r"used \S+ *available \S+k"))
    expect(page.get_by_role("region", name="By model").get_by_role("rowheader", name="gpt-4o")).to_be_visible()
    page.get_by_role("combobox", name="Group by").select_option("persona")
    expect(page.get_by_role("region", name="By persona").get_by_role("rowheader", name="nova")).to_be_visible()
    page.get_by_role("combobox", name="Period").select_option("7d")
    days = page.get_by_role("region", name="By day", exact=True).get_by_role("rowheader")
    expect(days.first).to_have_text(re.compile(r"^\d{1,2} \w+ \d{4}$"))
