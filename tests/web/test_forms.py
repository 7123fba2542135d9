"""A shortened item: its form on the tile and in the panel, and the rest of its text."""

import re

from playwright.sync_api import expect

from web import world
from web.conftest import in_thread


def test_a_shortened_item_shows_its_form_and_all_of_its_text(own_shop, visit):
    address, store, _ = own_shop
    context = in_thread(world.shortened(store))
    page = visit(address, f"/contexts/{context}")
    tile = page.get_by_role("group", name="Contents of the window by tokens").get_by_role("button", name="digest of")
    expect(tile).to_have_count(1)
    tile.click()
    panel = page.get_by_role("complementary")
    expect(panel).to_contain_text(
        re.compile(r"Form\s*digest, [\d,]+ of [\d,]+ tokens \(it costs [\d,]+; [\d,]+ with the next")
    )
    expect(panel).to_contain_text("step_5")
    expect(panel).not_to_contain_text("step_799")
    panel.get_by_role("button", name=re.compile("Show all [0-9,]+ characters")).click()
    expect(panel).to_contain_text("step_799")
    expect(panel.get_by_role("button", name="Show all")).to_have_count(0)


def test_what_if_names_a_form_that_changes(own_shop, visit):
    address, store, _ = own_shop
    context = in_thread(world.shortened(store))
    page = visit(address, f"/contexts/{context}/what-if?window=60000")
    expect(page.get_by_role("region", name="Different reason or form")).to_contain_text(
        re.compile(r"shrunk.*\(digest\).*kept")
    )
