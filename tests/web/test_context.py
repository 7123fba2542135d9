"""The context page: treemap, table and request, with thousands of candidates."""

import ast
import json
import re
import shlex

import httpx2
import pytest
from playwright.sync_api import expect

from web import world
from web.conftest import SIZE, in_thread, served_here
from web.test_accessibility import PHONE

CROWD = 5_000


def test_the_treemap_shows_every_item_by_cost(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?tab=window")
    picture = page.get_by_role("group", name="Contents of the window by tokens")
    tiles = picture.get_by_role("button")
    expect(tiles.filter(has_text=re.compile("moka pot wants"))).to_be_visible()
    tile = picture.get_by_role("button", name=re.compile(r"^Lorebook: A moka pot wants dark beans\. \d+ tokens$"))
    tile.hover()
    expect(page.locator("figcaption")).to_contain_text("A moka pot wants dark beans.")
    tile.click()
    expect(page.get_by_role("complementary", name="Item lore-moka")).to_contain_text("Why is it included?")


def test_one_part_of_the_window_can_be_selected(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?tab=window")
    tiles = page.get_by_role("group", name="Contents of the window").get_by_role("button")
    parts = page.get_by_role("list", name=re.compile("Parts of the window of 1,400 tokens"))
    expect(parts.get_by_role("button", name=re.compile("Reserved for the answer 200"))).to_be_visible()
    parts.get_by_role("button", name=re.compile("^Lorebook")).click()
    expect(tiles).to_have_count(2)
    parts.get_by_role("button", name=re.compile("^Pinned")).click()
    expect(tiles).to_have_count(1)
    expect(tiles).to_have_accessible_name(re.compile("^Pinned: Ada is allergic to hazelnut"))


def test_the_kinds_of_content_are_listed(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?tab=window")
    row = page.get_by_role("region", name="Kinds of content").get_by_role("row").filter(has_text="lorebook")
    expect(row).to_have_text(re.compile(r"^lorebook\d+2$"))


def test_arrow_keys_move_in_the_treemap(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?tab=window")
    tiles = page.get_by_role("group", name="Contents of the window").get_by_role("button")
    tiles.first.focus()
    page.keyboard.press("ArrowDown")
    expect(tiles.first).not_to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(tiles.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_be_visible()


def test_many_recent_messages_are_grouped_by_day(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"
    id = in_thread(world.days(store))
    with served_here(store) as address:
        page = visit(address, f"/contexts/{id}?tab=window", timezone_id="UTC")
        picture = page.get_by_role("group", name="Contents of the window")
        messages = picture.get_by_role("button", name=re.compile(r"Turn \d+ of day"))
        first = picture.get_by_role(
            "button", name=re.compile(r"^Recent messages: \w+ \d+ Nov 2026, 40 messages \d+ tokens")
        ).first
        expect(messages).to_have_count(0)
        label = re.search(r": (.*), 40", first.text_content())[1]
        first.press("Enter")
        expect(messages).to_have_count(40)
        expect(picture.get_by_role("button", name=label)).to_be_focused()
        messages.first.click()
        expect(page.get_by_role("complementary", name=re.compile(r"^Item \d-\d+$"))).to_be_visible()
        page.get_by_role("button", name="Close panel").click()
        picture.get_by_role("button", name=label).click()
        expect(messages).to_have_count(0)
        page.goto(f"/contexts/{id}?tab=window&item=2-7")
        expect(messages).to_have_count(40)
        expect(picture.get_by_role("button", pressed=True)).to_have_accessible_name(re.compile("Turn 7 of day 2"))


def test_filter_and_order_are_in_the_url_and_history_works(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?outcome=out&sort=-tokens")
    grid = page.get_by_role("grid", name="Candidates")
    expect(grid.get_by_role("columnheader", name="Tokens")).to_have_attribute("aria-sort", "descending")
    rows = grid.locator("tr[data-row]")
    expect(rows.first).to_contain_text("Ada was promised a refund")
    rows.first.click()
    expect(page.get_by_role("complementary")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("complementary")).to_have_count(0)
    page.go_forward()
    expect(page.get_by_role("complementary")).to_be_visible()
    page.get_by_role("combobox", name="Outcome").select_option("dropped")
    expect(page).to_have_url(re.compile("outcome=dropped"))
    page.get_by_role("link", name="Memories", exact=True).click()
    expect(page.get_by_role("heading", name="Memories", exact=True)).to_be_focused()
    page.go_back()
    expect(page.get_by_role("combobox", name="Outcome")).to_have_value("dropped")


def test_columns_that_are_the_same_in_all_rows_are_hidden(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"
    id = in_thread(world.days(store))
    with served_here(store) as address:
        decisions = httpx2.get(f"{address}/brimful/v1/contexts/{id}").json()["decisions"]
        page = visit(address, f"/contexts/{id}?tab=candidates", viewport={"width": 2400, "height": 900})
        headers = page.get_by_role("grid", name="Candidates").get_by_role("columnheader")
        expect(headers.get_by_role("button", name="Tokens")).to_be_visible()
        shown = [header.rstrip("↑↓\n") for header in headers.all_inner_texts()]
        assert {each["pool"] for each in decisions} - {""} == {"recent"}
        assert {"Pos.", "Outcome", "Item", "Kind", "Tokens"} <= set(shown)
        assert "Pool" not in shown
        page.goto(f"/contexts/{id}?tab=candidates&sort=pool")
        expect(headers.get_by_role("button", name="Pool")).to_be_visible()


def test_the_request_and_the_answer_are_shown(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}")
    answer = page.get_by_role("region", name="Answer")
    for fact in ("scripted", "±0 compared to our count", "9 tokens", "stop"):
        expect(answer).to_contain_text(fact)
    page.get_by_role("link", name="Request", exact=True).click()
    page.get_by_text("As sent to the provider (JSON)").click()
    shown = page.locator("pre.json")
    expect(shown).to_contain_text("You are Nova of the coffee shop.")
    assert json.loads(shown.inner_text())["model"] == world.MODEL
    expect(page.get_by_role("list", name="Messages of the request").get_by_role("listitem").last).to_contain_text(
        "Question 2"
    )


@pytest.mark.parametrize("screen", [SIZE, PHONE])
def test_a_long_question_and_a_long_answer_can_be_opened(tmp_path, visit, screen):
    store = f"sqlite:///{tmp_path}/brimful.db"
    question, answer = ("\n".join(f"{word} {line}." for line in range(100)) for word in ("Is it", "It is"))
    id = in_thread(world.say(store, question, answer=answer))
    with served_here(store) as address:
        page = visit(address, f"/contexts/{id}", viewport=screen)
        shown = page.get_by_role("region", name="Answer")
        for index, (name, last) in enumerate({"question": "Is it 99.", "answer": "It is 99."}.items()):
            text = shown.locator("blockquote").nth(index)
            more, less = (shown.get_by_role("button", name=f"Show {much} of the {name}") for much in ("all", "less"))
            expect(more).to_have_attribute("aria-expanded", "false")
            assert text.bounding_box()["height"] < screen["height"] / 3
            more.click()
            expect(less).to_have_attribute("aria-expanded", "true")
            expect(text).to_contain_text(last)
            assert text.evaluate("text => text.clientHeight") == text.evaluate("text => text.scrollHeight")
            assert text.bounding_box()["height"] > 1_500
            less.click()
            expect(more).to_be_visible()
            assert text.bounding_box()["height"] < screen["height"] / 3
        page.context.close()


def test_a_short_answer_has_nothing_to_open(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}")
    shown = page.get_by_role("region", name="Answer")
    expect(shown.get_by_text("Answer 2: a new lid is on its way.")).to_be_visible()
    expect(shown.get_by_role("button", name="Show all")).to_have_count(0)


def test_what_is_very_unlikely_to_help_is_said_in_words_with_its_place(shop, visit):
    address, _, contexts = shop
    decisions = httpx2.get(f"{address}/brimful/v1/contexts/{contexts[-1]}").json()["decisions"]
    low = next(each for each in decisions if each["rank"] and each["score"]["relevance"] < 0.01)
    pool = [each for each in decisions if each["pool"] == low["pool"] and each["rank"]]
    page = visit(address, f"/contexts/{contexts[-1]}?item={low['id']}")
    words = re.compile(rf"very unlikely to help, {low['rank']}(st|nd|rd|th) of {len(pool)}")
    expect(page.get_by_role("complementary")).to_contain_text(words)
    expect(page.get_by_text(re.compile("under 1"))).to_have_count(0)


def test_the_request_shows_what_was_left_out_in_its_place(shop, visit):
    address, _, contexts = shop
    shown = httpx2.get(f"{address}/brimful/v1/contexts/{contexts[-1]}/messages").json()
    page = visit(address, f"/contexts/{contexts[-1]}?tab=request")
    request = page.get_by_role("list", name="Messages of the request")
    [memories] = [each for each in shown["omissions"] if world.LOST in each["items"]]
    row = request.get_by_text(re.compile(rf"^1 memory left out, {memories['tokens']} tokens$"))
    row.click()
    reason = request.get_by_role("link", name=re.compile("^Ada was promised a refund"))
    reason.click()
    panel = page.get_by_role("complementary", name=f"Item {world.LOST}")
    expect(panel).to_contain_text("Why is it not included?")
    expect(page).to_have_url(re.compile("tab=request"))
    expect(
        request.get_by_text(
            re.compile(r"^\d+ older messages not loaded, \d+ tokens: the newer ones already fill the window")
        )
    ).to_be_visible()


def test_a_long_request_is_collapsed_and_its_messages_open(shop, visit):
    address, _, contexts = shop
    shown = httpx2.get(f"{address}/brimful/v1/contexts/{contexts[-1]}/messages").json()
    page = visit(address, f"/contexts/{contexts[-1]}?tab=request")
    request = page.get_by_role("list", name="Messages of the request")
    messages = request.locator("> li.sent")
    before = messages.count()
    assert before < 9
    request.get_by_role("button", name=re.compile(r"^Show \d+ messages, \d+ tokens$")).click()
    expect(messages).to_have_count(len(shown["messages"]))
    for index in (0, len(shown["messages"]) - 1):
        message = shown["messages"][index]
        expect(messages.nth(index)).to_contain_text(f"{message['tokens']} tokens")
        messages.nth(index).locator("summary").click()
        assert messages.nth(index).locator("pre").inner_text() == message["text"]


def test_the_lost_part_of_a_shortened_message_is_gray(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"
    id = in_thread(world.shortened(store))
    with served_here(store) as address:
        page = visit(address, f"/contexts/{id}?tab=request")
        page.get_by_text(re.compile(r"^digest: [\d,]+ of 10,399 tokens cut$")).click()
        text = page.get_by_label("The whole text; what was cut is gray")
        seen = httpx2.get(f"{address}/brimful/v1/contexts/{id}/items/trace").json()["seen"]
        expect(text).to_contain_text("File app.py, line 0, in step_0")
        lost = text.locator("del").all_inner_texts()
        assert lost
        assert not [line for piece in lost for line in piece.strip().splitlines() if line in seen.splitlines()]
        page.get_by_role("link", name="Why?").first.click()
        expect(page.get_by_role("complementary", name="Item trace")).to_be_visible()


def test_the_request_is_copied_as_a_program_that_runs(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?tab=request", permissions=["clipboard-read", "clipboard-write"])
    copies = page.get_by_role("group", name="Copy the request")

    def copied(name):
        done = copies.get_by_text("Copied")
        before = done.count()
        copies.get_by_role("button", name=name).click()
        expect(done).to_have_count(before + 1)
        return page.evaluate("navigator.clipboard.readText()")

    request = page.request.get(f"{address}/brimful/v1/contexts/{contexts[-1]}/request").json()
    assert json.loads(copied("Copy as JSON")) == request
    program = copied("Copy as Python")
    [body] = [line.removeprefix("body = ") for line in program.splitlines() if line.startswith("body = ")]
    assert ast.literal_eval(body) == request
    command = shlex.split(copied("Copy as curl"))
    assert command[:2] == ["curl", "https://api.openai.com/v1/chat/completions"]
    assert json.loads(command[-1]) == request
    assert shlex.split(copied("Copy the API call")) == ["curl", "-sS", f"{address}/brimful/v1/contexts/{contexts[-1]}"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd")
    store = f"sqlite:///{folder}/brimful.db"
    id = in_thread(world.crowd(store, CROWD))
    with served_here(store) as address:
        yield address, id


# Time that the page's own thread was busy. Other processes on the machine do not count; 100 ms is what feels immediate,
# and a slow machine gets five times as much.
MOST_BUSY = 0.5  # seconds


def busy(page, action):
    """Return how long the page's thread worked for something, in seconds."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent():
        return next(
            each["value"]
            for each in session.send("Performance.getMetrics")["metrics"]
            if each["name"] == "TaskDuration"
        )

    before = spent()
    action()
    return spent() - before


def test_thousands_of_candidates_are_scrolled_sorted_and_filtered_quickly(crowd, visit):
    address, id = crowd
    page = visit(address, f"/contexts/{id}?tab=candidates")
    grid = page.get_by_role("grid", name="Candidates")
    rows = grid.locator("tr[data-row]")
    rows.first.wait_for()
    count = int(grid.get_attribute("aria-rowcount")) - 1
    assert count > 3_000
    assert rows.count() < 60

    def to_the_end():
        rows.first.focus()
        page.keyboard.press("End")
        expect(grid.locator(f"tr[data-row='{count - 1}']")).to_be_focused()

    def by_tokens():
        grid.get_by_role("columnheader", name="Tokens").get_by_role("button").click()
        expect(grid.get_by_role("columnheader", name="Tokens")).to_have_attribute("aria-sort", "descending")

    def one_lot():
        page.get_by_role("searchbox", name="Search").fill("lot 34993")
        expect(page.get_by_text(re.compile(r"^1 of [\d,]+ candidates$"))).to_be_visible()

    for action in (to_the_end, by_tokens, one_lot):
        assert busy(page, action) < MOST_BUSY, action.__name__


def test_the_tokens_of_the_candidates_add_up_and_slash_focuses_the_finder(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?kind=message-current")
    row = page.get_by_role("grid", name="Candidates").get_by_role("row").nth(1)
    tokens = row.locator(".col-tokens").inner_text()
    parts = page.get_by_role("navigation", name="Parts of the context")
    expect(parts.get_by_role("link", name="Candidates")).to_have_attribute("aria-current", "page")
    parts.get_by_role("link", name="Window").click()
    expect(page.get_by_role("button", name=re.compile(rf"^Current message {tokens}"))).to_be_visible()
    parts.get_by_role("link", name="Answer").click()
    expect(page.get_by_role("heading", name="What it did not see")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="What did the answer forget?")).to_be_focused()
