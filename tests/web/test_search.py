"""Search over everything, and the explanation of a memory from where it is listed."""

import re

import pytest
from playwright.sync_api import expect

from web.conftest import AXE
from web.test_accessibility import faults
from web.world import LOST


@pytest.mark.parametrize(
    ("text", "group", "leads_to"),
    [
        ("promised refund", "Memories", f"/memories\\?id={LOST}"),
        ("moka dark", "Lorebook entries", "/lorebooks/shop\\?q=lore-moka"),
        ("Answer 1: a new lid", "Messages", "/rooms/support\\?q="),
        ("Answer 1: a new lid", "Contexts", "/contexts/ctx-"),
        ("never promise", "Personas", "/personas/nova"),
    ],
)
def test_everything_is_found_from_anywhere(shop, visit, text, group, leads_to):
    address, _, _ = shop
    page = visit(address, "/stats")
    page.get_by_role("heading", name="Stats").wait_for()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Search everything")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    page.keyboard.insert_text(text)  # at once: no results of a part of it are shown
    link = dialog.get_by_role("region", name=group).get_by_role("link").first
    link.click()
    expect(page).to_have_url(re.compile(leads_to))
    expect(dialog).to_have_count(0)


def test_results_are_reached_by_keyboard_and_axe_finds_nothing(shop, visit):
    address, _, _ = shop
    page = visit(address, bypass_csp=True)
    page.get_by_role("button", name="Search Ctrl K").click()
    page.keyboard.type("refund")
    links = page.get_by_role("dialog").get_by_role("link")
    links.first.wait_for()
    page.add_script_tag(path=AXE)
    assert faults(page) == []
    page.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/memories\\?id={LOST}"))


def test_a_memory_leads_to_the_reason_why_it_was_not_in_the_last_context(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/memories?id={LOST}")
    page.get_by_role("link", name="Was it in the last context?").click()
    expect(page).to_have_url(re.compile(f"/contexts/{contexts[-1]}\\?item={LOST}"))
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("Why is it not included?")
