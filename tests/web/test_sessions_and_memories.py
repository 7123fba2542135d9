"""Pages of sessions of agents, of what replaced what among memories, and of the audit."""

import json
import re

import pytest
from playwright.sync_api import expect

from brimful.engine import Engine
from brimful.records import Memory
from brimful.testing import ScriptedProvider
from sessions.session_files import PARA, ClaudeCode
from web.conftest import AXE, in_thread, served_here
from web.test_accessibility import PHONE, faults, settle

NOW = 1_794_000_000.0
DAY = 86_400.0


def moved(request):
    said = "\n".join(str(message["content"]) for message in request["messages"][1:])
    known = re.search(r"\((k\d+)\) .* lives in", said)
    place = re.search(r"I live in (\w+)\.", said)[1]
    fact = {"text": f"Ada lives in {place}.", "messages": [1], "replaces": known and known[1]}
    return json.dumps({"facts": [fact], "outdated": []})


async def fill(url):
    provider = ScriptedProvider([moved, moved])
    async with Engine(url, model="gpt-4o", embedder="none", provider=provider) as engine:
        for day, place in enumerate(("Rome", "Porto")):
            letter = await engine.post(
                room="letters", text=f"I live in {place}.", at=NOW + day * DAY, id=f"letter-{day}"
            )
            await engine.learn([letter], user="ada")
        await engine.propose("Ada's bank is Evilbank.", user="ada", id="bank", at=NOW)
        await engine.propose("Ada's cat is Miu.", user="ada", id="cat", at=NOW)
        texts = ("Ada likes green tea in the morning.", "Ada likes green tea in the morning!", "{{user_name}} is here.")
        await engine.remember_many(
            [Memory(id=f"m{at}", content=text, user="ada", at=NOW + at, source="mcp") for at, text in enumerate(texts)]
        )


def write_session(home):
    session = ClaudeCode(system=PARA * 100)
    for at in range(6):
        if at == 3:
            session.time += 400
        if at == 5:
            session.compact("It read a file.")
        session.call("Read", {"file_path": f"orders-{at % 5}.csv"}, PARA * 100, read=1_000 * at * (at not in {3, 5}))
    session.write(home)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of a server with sessions, for the tests of this file, which undo what they change."""
    folder = tmp_path_factory.mktemp("sessions")
    write_session(folder)
    store = f"sqlite:///{folder}/brimful.db"
    in_thread(fill(store))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "USERPROFILE"):
            patch.setenv(name, str(folder))
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "HERMES_HOME"):
            patch.delenv(name, raising=False)
        with served_here(store, sessions=True) as address:
            yield address


def want_accessible(page):
    """The page as it is now is sound in both themes, and on a phone."""
    size = page.viewport_size
    for theme in ("light", "dark"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        page.add_script_tag(path=AXE)
        assert faults(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert faults(page) == []
    page.set_viewport_size(size)


def test_a_session_shows_its_window_its_misses_and_its_losses(site, visit):
    page = visit(site, "/", bypass_csp=True)
    page.get_by_role("link", name="Sessions").click()
    settle(page)
    want_accessible(page)
    page.get_by_role("link", name="Which page mentions 1882?").click()
    expect(page.get_by_role("heading", name="Cache misses")).to_be_visible()
    slider = page.get_by_role("slider", name="Request")
    expect(slider).to_have_value("5")
    page.get_by_role("button", name="Request 4", exact=True).click()
    expect(slider).to_have_value("3")
    expect(slider).to_be_focused()
    expect(page.get_by_text("Cache miss: Idle for more than 5 minutes.")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".chosen-turn")).to_contain_text("Request 3")
    parts = page.get_by_role("list", name="Parts of request 3")
    expect(parts.get_by_role("listitem").filter(has_text="Files read")).to_contain_text(re.compile(r"\d,\d{3}"))
    expect(page.get_by_text("called again in")).to_have_count(1)
    expect(page.get_by_text("orders-0.csv")).to_be_visible()
    want_accessible(page)
    page.goto("/sessions?q=nothing")
    expect(page.get_by_text("No matching sessions")).to_be_visible()


def test_memories_show_where_they_come_from_and_what_was_true_when(site, visit):
    page = visit(site, "/memories", bypass_csp=True, timezone_id="UTC")
    home = page.get_by_role("listitem").filter(has_text="Ada lives in Porto.")
    expect(home).to_contain_text("in no context so far")
    expect(home.get_by_role("link", name="from a message")).to_have_attribute("href", "/messages/letter-1")
    expect(page.get_by_role("listitem").filter(has_text="user_name")).to_contain_text("by a tool (mcp)")
    home.get_by_role("button", name="What replaced what").click()
    expect(home.locator(".chain > li")).to_have_text([re.compile("Rome.* until "), re.compile("Porto.*, true now")])
    want_accessible(page)
    page.get_by_label("True on").fill("2026-11-06")  # the day of the first letter
    expect(page.get_by_role("list", name="Memories")).to_contain_text("Ada lives in Rome.")
    expect(page.get_by_text("Ada lives in Porto.")).to_have_count(0)
    page.get_by_role("button", name="Show today").click()
    expect(page.get_by_text("Ada lives in Porto.")).to_be_visible()
    page.get_by_label("State").select_option("replaced or archived")
    expect(page.locator(".record")).to_have_count(1)
    expect(page.locator(".record").get_by_text("replaced", exact=True)).to_be_visible()


def test_proposals_are_chosen_applied_at_once_and_undone(site, visit):
    page = visit(site, "/memories", bypass_csp=True)
    page.get_by_role("link", name="Clean up").click()
    twins = page.get_by_role("region", name="Near-duplicates").get_by_role("checkbox")
    expect(twins).to_have_count(2)
    expect(twins.first).to_be_checked()
    expect(page.get_by_role("region", name="Junk")).to_contain_text("It looks like a template.")
    want_accessible(page)
    twins.last.press("Space")
    expect(twins.first).not_to_be_checked()
    page.get_by_role("button", name="Archive 2 memories").click()
    expect(page.get_by_text("2 memories archived on")).to_be_visible()
    expect(page.get_by_text("Nothing to clean up")).to_be_visible()
    want_accessible(page)
    page.reload()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("region", name="Near-duplicates")).to_be_visible()
    expect(page.get_by_text("2 memories archived on")).to_have_count(0)


def test_proposed_memories_are_confirmed_and_rejected(site, visit):
    page = visit(site, "/memories", bypass_csp=True)
    state, memories = page.get_by_label("State"), page.get_by_role("list", name="Memories")
    expect(memories).not_to_contain_text("Evilbank")
    state.select_option("proposed")
    page.get_by_role("button", name="Reject bank").click()
    page.get_by_role("button", name="Confirm cat").click()
    expect(page.get_by_text("Ada's cat is Miu.")).to_have_count(0)
    state.select_option("rejected")
    expect(memories).to_contain_text("Evilbank")
    expect(memories.get_by_role("button")).to_have_count(1)  # to remove it
    state.select_option("current")
    expect(memories).to_contain_text("Ada's cat is Miu.")
    expect(memories).not_to_contain_text("Evilbank")
