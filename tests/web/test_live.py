"""The live list of contexts."""

import re
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from web.conftest import in_thread, served, served_here
from web.world import MODEL, cached, say

SAY = (sys.executable, "-m", "web.world")


def elsewhere(store, text):
    """Say something in a process of its own, and return the id of the context."""
    done = subprocess.run([*SAY, store, text], capture_output=True, text=True, check=True, cwd="tests")
    return done.stdout.strip()


def test_contexts_of_other_processes_appear_live(own_shop, visit):
    address, store, _ = own_shop
    page = visit(address)
    rows = page.get_by_role("list", name="Contexts").get_by_role("listitem")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    id = elsewhere(store, "Is anybody there?")
    expect(rows).to_have_count(2)
    expect(rows.first.locator(f"a[href='/contexts/{id}']")).to_be_visible()
    expect(rows.first).to_contain_text("Is anybody there?")
    expect(rows.first).to_contain_text("Yes.")
    expect(rows.nth(1)).to_contain_text("Answer 0: a new lid")
    expect(page.locator("p[aria-live]").filter(has_text="New context in room support")).to_have_count(1)
    expect(rows.first.get_by_role("img")).to_have_attribute("aria-label", re.compile("Window of 1,400 tokens: "))
    rows.first.get_by_role("link", name="changes").click()
    expect(page).to_have_url(re.compile(f"/diff/.*/{id}"))


def test_a_paused_list_catches_up_when_resumed(own_shop, visit):
    address, store, _ = own_shop
    page = visit(address)
    rows = page.get_by_role("list", name="Contexts").get_by_role("listitem")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    with page.expect_event("requestfinished", lambda request: "/contexts/ctx" in request.url) as _:
        id = in_thread(say(store, "Who sees me?"))
        page.evaluate("id => fetch('/brimful/v1/contexts/' + id).then(r => r.text())", id)
    expect(page.get_by_text("paused, 1 new")).to_be_visible()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Resume").click()
    expect(rows).to_have_count(2)
    expect(page.get_by_text("live", exact=True)).to_be_visible()


def test_a_row_has_the_cost_the_time_and_the_cached_share_of_its_answer(own_shop, visit):
    address, store, contexts = own_shop
    in_thread(cached(store, contexts[-1], tokens=600, expected=900))
    page = visit(address)
    row = page.get_by_role("list", name="Contexts").get_by_role("listitem").first
    for fact in (re.compile(r"^\$0\.00\d+$"), "1.5 s", re.compile(r"^60.% cached$")):
        expect(row.get_by_text(fact)).to_be_visible()


@pytest.mark.parametrize(("name", "right", "wrong"), [("Model", MODEL, "gpt-3"), ("User", "ada", "bob")])
def test_the_list_is_filtered_by_model_and_user(shop, visit, name, right, wrong):
    address, _, contexts = shop
    page = visit(address)
    rows = page.get_by_role("list", name="Contexts").get_by_role("listitem")
    field = page.get_by_role("combobox", name=name)
    for value, count in ((right, len(contexts)), (wrong, 0)):
        field.fill(value)
        field.press("Enter")
        expect(page).to_have_url(re.compile(f"{name.lower()}={value}"))
        expect(rows).to_have_count(count)


def test_the_legend_follows_the_list(shop, visit):
    address, _, _ = shop
    page = visit(address)
    rows, legend = (page.get_by_role("list", name=name) for name in ("Contexts", "Colors of the bars"))
    expect(legend).to_be_visible()
    assert legend.bounding_box()["y"] > rows.bounding_box()["y"] + rows.bounding_box()["height"]


def test_the_list_is_filtered_by_room_and_persona(shop, visit):
    address, _, _ = shop
    page = visit(address, "/?persona=nova")
    rows = page.get_by_role("list", name="Contexts").get_by_role("listitem")
    expect(rows).to_have_count(3)
    page.get_by_role("combobox", name="Room").fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No matching contexts")).to_be_visible()
    expect(page.get_by_text("New matching contexts appear automatically.")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("resume it to see new contexts")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page).to_have_url(re.compile("room=nowhere"))
    page.get_by_role("combobox", name="Room").fill("")
    expect(rows).to_have_count(3)


def test_the_page_reconnects_to_a_restarted_server(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"
    with served(tmp_path, store) as address:
        page = visit(address, allowed=("ERR_", "Failed to load"))
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        port = address.rpartition(":")[2]
    expect(page.get_by_text("connection lost, reconnecting…")).to_be_visible()
    with served(tmp_path, store, port=port):
        expect(page.get_by_text("live", exact=True)).to_be_visible()


def test_an_empty_store_shows_how_to_start(tmp_path, visit):
    with served_here(f"sqlite:///{tmp_path}/brimful.db") as address:
        page = visit(address)
        expect(page.get_by_role("heading", name="No contexts yet")).to_be_visible()
        expect(page.get_by_text("rooms/hello/assemble")).to_be_visible()
        expect(page.get_by_text(f"OPENAI_BASE_URL={address}/v1")).to_be_visible()
        for path, title in (
            ("/stats", "No contexts yet"),
            ("/diff", "No contexts yet"),
            ("/rooms", "No rooms yet"),
            ("/personas", "No personas yet"),
            ("/memories", "No memories yet"),
            ("/lorebooks", "No lorebooks yet"),
            ("/nowhere", "Page not found"),
        ):
            page.goto(path)
            expect(page.get_by_role("heading", name=title)).to_be_visible()
        page.close()  # before its server is gone, which it would notice
