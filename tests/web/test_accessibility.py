"""Accessibility: axe on every page, phones, keyboard, themes, reduced motion."""

import httpx2
import pytest
from playwright.sync_api import expect

from web.conftest import AXE, PATIENCE, SIZE, Watched, in_thread, served_here
from web.world import LOST, MISSED, say

PAGES = {
    "contexts": "/",
    "context": "/contexts/{0}",
    "window": "/contexts/{0}?tab=window",
    "candidates": "/contexts/{0}?tab=candidates",
    "request": "/contexts/{0}?tab=request",
    "panel": "/contexts/{0}?item=" + LOST,
    "absent": "/contexts/{0}?find=parrot&item=" + MISSED,
    "what-if": "/contexts/{0}/what-if?window=4000",
    "pins": "/contexts/{0}/what-if?pin=" + MISSED,
    "diff": "/diff/{1}/{0}",
    "choose": "/diff",
    "stats": "/stats",
    "rooms": "/rooms",
    "room": "/rooms/support",
    "timeline": "/rooms/support/timeline",
    "personas": "/personas",
    "persona": "/personas/nova",
    "memories": "/memories",
    "audit": "/memories/audit",
    "sessions": "/sessions",
    "admin": "/admin",
    "lorebooks": "/lorebooks",
    "lorebook": "/lorebooks/shop",
    "run": "/runs/{0}",
    "message": "/messages/support-0001",
    "nowhere": "/nowhere",
}
PHONE = {"width": 360, "height": 740}


def settle(page):
    """Wait until nothing is loading."""
    page.get_by_role("heading", level=1).or_(page.get_by_role("heading", level=2)).first.wait_for()
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def move(page, path):
    """Leave the page and go to another one as links do: without loading it."""
    elsewhere = page.get_by_text("There is no page at /elsewhere.")
    page.evaluate(MOVE, "/elsewhere")
    elsewhere.wait_for()
    page.evaluate(MOVE, path)
    expect(elsewhere).to_have_count(0)
    settle(page)


MOVE = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"

COLOR_RULES = ("color-contrast", "link-in-text-block")
"""All that a theme can change."""


def faults(page, rules=()):
    """What axe finds, by all rules or by some: the rule, and where."""
    options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    violations = page.evaluate("options => axe.run(options).then(found => found.violations)", options)
    return [(each["id"], [node["target"] for node in each["nodes"]][:5]) for each in violations]


@pytest.fixture
def desk(shop, chromium):
    """A large page that has axe, which takes longer to load than to run. Nothing may go wrong in the page."""
    address, _, _ = shop
    idle = chromium.idle[address, "axe"]
    if not idle:
        context = chromium.browser.new_context(base_url=address, viewport=SIZE, bypass_csp=True)
        context.set_default_timeout(PATIENCE)
        idle.append(Watched(context.new_page(), address))
        idle[0].page.goto("/")
        idle[0].page.add_script_tag(path=AXE)
    [watched] = idle
    watched.faults.clear()
    watched.page.emulate_media(color_scheme="light")
    yield watched.page
    assert watched.unexpected() == []


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(shop, desk, name):
    _, _, contexts = shop
    move(desk, PAGES[name].format(*reversed(contexts)))
    root = desk.locator("html")
    expect(root).to_have_attribute("data-theme", "light")
    assert faults(desk) == []
    desk.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-theme", "dark")
    assert faults(desk, COLOR_RULES) == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_on_a_phone(shop, visit, name):
    address, _, contexts = shop
    page = visit(address, PAGES[name].format(*reversed(contexts)), viewport=PHONE)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for link in page.get_by_role("navigation", name="Pages").get_by_role("link").all():
        expect(link).to_be_in_viewport(ratio=1)


def test_tables_are_cards_on_a_phone(shop, visit):
    address, _, _ = shop
    page = visit(address, "/stats", viewport=PHONE)
    row = page.get_by_role("table", name="By model").get_by_role("row").filter(has_text="gpt-4o")
    for cell in row.get_by_role("cell").all():
        expect(cell).to_be_visible()
        box = cell.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE["width"]


def test_on_a_phone_the_window_is_a_list_of_words(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[0]}?tab=window", viewport=PHONE, has_touch=True)
    recent = page.get_by_role("region", name="Recent messages")
    expect(recent.get_by_role("listitem")).to_have_count(3)
    recent.get_by_role("button", name="more item").tap()
    expect(recent.get_by_role("button", name="more item")).to_have_count(0)
    recent.get_by_role("button", name="Turn 5").first.tap()
    expect(page.get_by_role("complementary")).to_be_visible()


@pytest.mark.parametrize("tab", ["answer", "window", "candidates", "request"])
def test_each_part_of_a_context_has_at_most_two_screens_on_a_phone(shop, visit, tab):
    address, _, contexts = shop
    screen = {"width": 390, "height": 844}
    page = visit(address, f"/contexts/{contexts[-1]}?tab={tab}", viewport=screen)
    settle(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 2 * screen["height"]
    for fold in page.locator("main details:not([open]) > summary").all():
        expect(fold).to_be_visible()


@pytest.mark.parametrize("opener", ["New memory", "Edit mem-0", "Remove mem-0"])
def test_axe_finds_nothing_in_dialogs(desk, opener):
    move(desk, "/memories")
    desk.get_by_role("button", name=opener).click()
    expect(desk.get_by_role("dialog")).to_be_visible()
    expect(desk.get_by_text("counting…")).to_have_count(0)
    assert faults(desk) == []


def test_words_are_explained_where_they_appear(shop, visit):
    address, _, _ = shop
    page = visit(address, "/rooms/support/timeline", bypass_csp=True)
    page.get_by_role("button", name="What is “Prefix”?").click()
    help = page.get_by_role("dialog", name="Help", exact=True)
    expect(help.get_by_text("A provider can take it from its prompt cache")).to_be_in_viewport()
    page.add_script_tag(path=AXE)
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(help).to_have_count(0)
    expect(page.get_by_role("button", name="What is “Prefix”?")).to_be_focused()


def test_each_word_is_explained_on_the_page_where_it_stands(shop, visit):
    address, _, contexts = shop
    context = f"/contexts/{contexts[-1]}"
    places = {
        f"{context}?item={LOST}": ["Pool", "Place"],
        f"{context}?tab=candidates": ["Pool", "Place", "Score"],
        f"{context}?tab=request": ["Price", "Policy"],
        f"{context}?tab=window": ["Pool", "Window", "Reserve"],
        f"/diff/{contexts[0]}/{contexts[-1]}": ["Form", "Prefix"],
    }
    page = visit(address)
    for path, words in places.items():
        page.goto(path)
        for word in words:
            expect(page.get_by_role("button", name=f"What is “{word}”?").first).to_be_visible()


def test_keyboard_shortcuts_are_listed_and_work(shop, visit):
    address, _, _ = shop
    page = visit(address)
    expect(page.get_by_text("live", exact=True)).to_be_visible()  # the page listens by then
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help", exact=True)).to_contain_text("compare two contexts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for letter, heading in {
        "s": "Stats",
        "r": "Rooms",
        "p": "Personas",
        "m": "Memories",
        "l": "Lorebooks",
        "c": "Contexts",
    }.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_focused()


def test_the_theme_is_persistent(shop, visit):
    address, _, _ = shop
    page = visit(address, color_scheme="light")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(root).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")


def test_reduced_motion_is_respected(shop, visit):
    address, _, _ = shop
    page = visit(address, reduced_motion="reduce")
    settle(page)
    assert page.evaluate("document.getAnimations().length") == 0


USER = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
LONG = "o" * 201


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """The address of a server where all is called by names without a space, and the id of a context."""
    folder = tmp_path_factory.mktemp("long")
    store = f"sqlite:///{folder}/brimful.db"
    with served_here(store) as address:
        for path, record in {
            "/personas": {"id": LONG, "prompt": LONG, "model": LONG, "policy": "window"},
            "/rooms": {"id": LONG, "user": USER, "goal": LONG},
            "/memories": {"id": LONG, "content": LONG, "persona": LONG, "user": USER, "room": LONG},
            "/lorebooks": {"id": LONG},
            f"/lorebooks/{LONG}/entries": {"id": LONG, "content": LONG, "keys": [LONG]},
        }.items():
            assert httpx2.post(f"{address}/brimful/v1{path}", json=record).is_success
        yield address, in_thread(say(store, LONG, room=LONG))


def test_long_names_do_not_widen_pages(long_names, visit):
    address, context = long_names
    page = visit(address, allowed=("404",))
    lists = ("/", "/rooms", "/personas", "/memories", "/lorebooks", "/diff", "/stats")
    single = (f"/rooms/{LONG}", f"/personas/{LONG}", f"/lorebooks/{LONG}", f"/diff/{context}/{context}")
    paths = (*lists, *single, f"/contexts/{context}", f"/contexts/{context}/what-if", f"/messages/{LONG}")
    widths = []
    for path in paths:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(path)
        settle(page)
        widths.append((path, page.evaluate("document.documentElement.scrollWidth")))
        page.set_viewport_size({"width": 1440, "height": 844})
        move(page, path)
        widths.append((path, page.evaluate("document.documentElement.scrollWidth")))
    assert widths == [(path, width) for path in paths for width in (390, 1440)]
