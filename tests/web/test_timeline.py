"""The timeline of a room: its windows one after the other, by mouse, by keyboard, and playing."""

import re

from playwright.sync_api import expect

from web import world
from web.conftest import in_thread


def test_windows_are_stepped_through(shop, visit):
    address, _, contexts = shop
    page = visit(address, "/rooms/support")
    page.get_by_role("link", name="Timeline").click()
    steps = page.get_by_role("group", name="Contexts, oldest first").get_by_role("button")
    expect(steps).to_have_count(len(contexts))
    chosen = page.get_by_role("region", name="Selected context")
    expect(chosen).to_contain_text("Answer 2: a new lid is on its way.")
    expect(steps.nth(2)).to_contain_text("3")
    expect(page.get_by_role("list", name="Brackets")).to_contain_text("took from its cache")
    expect(page.get_by_role("list", name="Colors of the bars")).to_contain_text("Recent messages")
    steps.first.click()
    expect(chosen).to_contain_text("Question 0: what of the refund")
    expect(page).to_have_url(re.compile(f"context={contexts[0]}"))
    page.keyboard.press("ArrowRight")
    expect(steps.nth(1)).to_be_focused()
    expect(chosen).to_contain_text("Question 1")
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    chosen.get_by_role("link", name="What the model saw").click()
    expect(page).to_have_url(f"{address}/contexts/{contexts[-1]}")


def test_the_prefix_that_the_cache_kept_is_drawn(own_shop, visit):
    address, store, [context] = own_shop
    in_thread(world.cached(store, context, tokens=640, expected=700))
    page = visit(address, "/rooms/support/timeline")
    expect(page.get_by_role("region", name="Its window")).to_contain_text(
        re.compile(r"640 tokens \([\d.]+\s%\), 700 expectedNew\d+ tokens")
    )
    step = page.get_by_role("button", name="640 cached")
    heights = [step.locator(kind).bounding_box()["height"] for kind in (".prefix:not(.expected)", ".prefix.expected")]
    assert 0 < heights[0] < heights[1]


def test_playing_starts_over_and_stops_at_the_end(shop, visit):
    address, _, contexts = shop
    page = visit(address, "/rooms/support/timeline")
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    status = page.get_by_role("status").filter(has_text="Context")
    expect(status).to_have_text(f"Context 1 of {len(contexts)}")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    for at in range(2, len(contexts) + 1):
        page.clock.run_for(1_300)
        expect(status).to_have_text(f"Context {at} of {len(contexts)}")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.close()  # its clock stands still
