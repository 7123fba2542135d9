"""A shortened item: its form on the tile and in the panel, and the rest of its text."""

import re

from playwright.sync_api import expect

from web import world
from web.conftest import in_thread


def test_a_shortened_item_shows_its_form_and_all_of_its_text(own_shop, visit):
    address, store, _ = own_shop
    context = in_thread(world.shortened(store))
    page = visit(address, f"/contexts/{context}?tab=window")
    tile = page.get_by_role("group", name="Contents of the window by tokens").get_by_role("button", name="digest of")
    expect(tile).to_have_count(1)
    tile.click()
    panel = page.get_by_role("complementary")
    expect(panel).to_contain_text(
        re.compile(r"Form\s*\?\s*digest, [\d,]+ of [\d,]+ tokens \(it costs [\d,]+; [\d,]+ with the next")
    )
    expect(panel).to_contain_text("step_5")
    seen = panel.get_by_label("What the model saw")
    expect(seen).to_contain_text("step_0")
    expect(seen).not_to_contain_text("step_700")
    expect(panel).to_contain_text(re.compile(r"Recall as\s*\S+"))
    panel.get_by_role("button", name=re.compile("Show all [0-9,]+ characters")).click()
    expect(panel).to_contain_text("step_799")
    expect(panel.get_by_role("button", name="Show all")).to_have_count(0)


def test_a_shortened_item_is_marked_in_lists(own_shop, visit):
    address, store, _ = own_shop
    context = in_thread(world.shortened(store))
    page = visit(address, f"/contexts/{context}")
    mark = re.compile(r"digest, [\d.]+\s% of [\d,]+ tokens")
    basis = page.get_by_role("region", name="What the model saw")
    basis.get_by_role("button", name="Show more").click()
    expect(basis.get_by_text(mark)).to_have_count(1)
    page.get_by_role("link", name="Candidates", exact=True).click()
    expect(page.get_by_role("grid", name="Candidates").get_by_text("digest", exact=True)).to_have_count(1)


def test_recalls_of_the_model_are_shown(own_shop, visit):
    address, store, _ = own_shop
    context, handle = in_thread(world.recalled(store))
    page = visit(address, f"/contexts/{context}")
    recall = page.get_by_role("region", name="Answer").get_by_role("group").filter(has_text=handle)
    recall.get_by_text("which step failed").click()
    expect(recall).to_contain_text("step_")
    recall.get_by_role("link", name="Show the item").click()
    expect(page.get_by_role("complementary", name="Item trace")).to_be_visible()


def test_what_if_names_a_form_that_changes(own_shop, visit):
    address, store, _ = own_shop
    context = in_thread(world.shortened(store))
    page = visit(address, f"/contexts/{context}/what-if?window=60000")
    expect(page.get_by_role("region", name="Different reason or form")).to_contain_text(
        re.compile(r"shrunk.*\(digest\).*kept")
    )
