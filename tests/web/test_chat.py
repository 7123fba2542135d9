"""A chat in the page of a room: it streams, is edited, answered again and stopped, and loses nothing."""

import pytest
from playwright.sync_api import expect

import brimful
from brimful.records import Persona, Room
from brimful.testing import ScriptedProvider
from server.upstream import Upstream, chat_events, in_step, serving
from web.conftest import AXE, in_thread, served_here
from web.test_accessibility import PHONE, faults, settle

BUSY = (503, {"error": {"message": "too many guests"}})


async def fill(url, turns=1):
    provider = ScriptedProvider([f"Answer {turn}." for turn in range(turns)])
    async with brimful.Engine(url, model="gpt-4o", provider=provider, embedder="none") as engine:
        await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova.", model="gpt-4o"))
        await engine.put(Persona(id="max", name="Max", prompt="You are Max.", model="gpt-4o-mini"))
        await engine.put(Room(id="tea", name="Tea room", user="ada", persona="nova"))
        for turn in range(turns):
            await engine.respond("tea", f"Question {turn}?", id=f"q{turn}", sender="Ada")


@pytest.fixture(scope="module")
def upstream_server():
    """A fake upstream for the tests of this file."""
    upstream = Upstream()
    with serving(upstream.app()) as (upstream.address, _):
        yield upstream


@pytest.fixture
def tea_room(upstream_server, tmp_path):
    """A server with such a room, and its upstream."""
    upstream_server.reset()
    store = f"sqlite:///{tmp_path}/brimful.db"
    in_thread(fill(store))
    with served_here(store, upstreams=[{"name": "up", "url": f"{upstream_server.address}/v1"}]) as address:
        yield address, upstream_server


def write(page, text):
    box = page.get_by_role("form", name="Write a message").get_by_role("textbox", name="Message")
    box.fill(text)
    box.press("Enter")
    return box


def said(page):
    return page.get_by_role("list", name="Messages").get_by_role("listitem")


def test_an_answer_is_streamed_with_what_the_model_saw(tea_room, visit):
    address, upstream = tea_room
    page = visit(address, "/rooms/tea")
    expect(said(page).locator(".record-text")).to_have_text(["Question 0?", "Answer 0."])
    answer, arrived = in_step(list(chat_events("Green ", "tea.")))
    upstream.answers = [answer]
    box = write(page, "Which tea?")
    last = said(page).last
    expect(last).to_contain_text("Green")
    expect(last).to_contain_text("answering…")
    expect(box).to_have_value("")
    page.context.new_page()  # another tab, while it answers
    link = last.get_by_role("link", name="What the model saw").get_attribute("href")
    other = page.context.pages[-1]
    other.goto(address + link)
    expect(other.get_by_role("heading", name="What the model saw")).to_be_visible()
    expect(other.get_by_text("Which tea?").first).to_be_visible()
    for _ in range(4):
        arrived.release()
    expect(last).to_contain_text("Green tea.")
    expect(said(page).locator(".record-text")).to_have_text(["Question 0?", "Answer 0.", "Which tea?", "Green tea."])
    expect(page.locator("[aria-live=polite]").filter(has_text="Nova: Green tea.")).to_have_count(1)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(other.get_by_text("Green tea.").first).to_be_visible()


def test_the_persona_and_the_model_are_chosen(tea_room, visit):
    address, upstream = tea_room
    page = visit(address, "/rooms/tea")
    form = page.get_by_role("form", name="Write a message")
    form.get_by_label("Who answers").select_option("max")
    expect(form.get_by_label("Model")).to_have_attribute("placeholder", "gpt-4o-mini")
    form.get_by_label("Model").fill("gpt-4o")
    write(page, "Which tea?")
    expect(said(page).last).to_contain_text("Thursday.")
    assert (upstream.bodies[0]["model"], upstream.bodies[0]["messages"][0]["content"]) == ("gpt-4o", "You are Max.")
    page.reload()
    expect(form.get_by_label("Who answers")).to_have_value("max")


def test_a_failed_answer_can_be_tried_again_and_nothing_is_lost(tea_room, visit):
    address, upstream = tea_room
    upstream.answers = [BUSY, BUSY, list(chat_events("At four."))]
    page = visit(address, "/rooms/tea", allowed=("503",))
    write(page, "When is tea?")
    alert = page.get_by_role("alert").filter(has_text="No complete answer.")
    expect(alert).to_be_visible()
    expect(said(page).locator(".record-text").last).to_have_text("When is tea?")
    page.get_by_role("button", name="Retry").click()
    expect(said(page).locator(".record-text").last).to_have_text("At four.")
    expect(alert).to_have_count(0)
    assert [body["messages"][-1]["content"] for body in upstream.bodies][-1] == "When is tea?"
    expect(said(page).filter(has_text="When is tea?")).to_have_count(1)


def test_a_text_that_was_not_sent_comes_back_also_after_a_reload(tea_room, visit):
    address, _ = tea_room
    page = visit(address, "/rooms/tea", allowed=("404",))
    box = page.get_by_role("form", name="Write a message").get_by_role("textbox", name="Message")
    box.fill("A long thought,")
    box.press("Shift+Enter")
    box.press_sequentially("unfinished")
    page.reload()
    expect(box).to_have_value("A long thought,\nunfinished")
    page.get_by_label("Model").fill("nothing\x7f")
    page.route("**/respond", lambda route: route.fulfill(status=404, json={"error": {"message": "no such model"}}))
    box.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Not sent. No such model")).to_be_visible()
    expect(box).to_have_value("A long thought,\nunfinished")
    expect(said(page).locator(".record-text")).to_have_text(["Question 0?", "Answer 0."])


def test_an_answer_is_stopped_and_what_has_come_stays(tea_room, visit):
    address, upstream = tea_room
    page = visit(address, "/rooms/tea")
    upstream.answers, upstream.pause = [list(chat_events("Well, ", *["and "] * 2_000))], 0.01
    write(page, "Tell me all.")
    expect(said(page).last).to_contain_text("Well, and")
    page.get_by_role("button", name="Stop").click()
    expect(said(page).last.locator(".tag")).to_have_text("stopped")
    expect(said(page).last).to_contain_text("Well, and")
    assert upstream.left.wait(60)


def test_the_last_answer_is_regenerated(tea_room, visit):
    address, upstream = tea_room
    upstream.answers = [list(chat_events("A better one."))]
    page = visit(address, "/rooms/tea")
    said(page).last.get_by_role("button", name="Regenerate").click()
    expect(said(page).locator(".record-text")).to_have_text(["Question 0?", "A better one."])
    page.get_by_role("button", name="Show 1 hidden or replaced").click()
    expect(said(page).locator(".record-text")).to_have_text(["Question 0?", "Answer 0.", "A better one."])
    expect(said(page).nth(1)).to_contain_text("replaced")


def test_feedback_is_given_shown_and_filtered_by(tea_room, visit):
    address, _ = tea_room
    page = visit(address, "/rooms/tea")
    rate = said(page).last.get_by_role("group", name="Feedback on")
    rate.get_by_role("button", name="Bad").click()
    expect(rate.get_by_role("button", name="Bad")).to_have_attribute("aria-pressed", "true")
    rate.get_by_role("button", name="Add a note").click()
    expect(rate.get_by_role("textbox", name="Why")).to_be_focused()
    rate.get_by_role("textbox", name="Why").fill("Nobody asked for a number.")
    page.keyboard.press("Enter")
    expect(rate).to_contain_text("“Nobody asked for a number.”")
    page.goto("/")
    rows = page.get_by_role("list", name="Contexts, newest first").get_by_role("listitem")
    expect(rows.get_by_text("bad answer", exact=True)).to_have_attribute("title", "Nobody asked for a number.")
    page.get_by_label("Feedback").select_option("good answers")
    expect(rows).to_have_count(0)
    page.get_by_label("Feedback").select_option("bad answers")
    expect(rows).to_have_count(1)
    rows.get_by_role("link", name="Nova in Tea room").click()
    rate = page.get_by_role("group", name="Feedback on")
    expect(rate).to_contain_text("“Nobody asked for a number.”")
    rate.get_by_role("button", name="Good").click()
    expect(rate.get_by_role("button", name="Bad")).to_have_attribute("aria-pressed", "false")
    expect(rate).to_contain_text("“Nobody asked for a number.”")
    rate.get_by_role("button", name="Good").click()
    expect(rate).not_to_contain_text("Nobody")
    page.reload()
    expect(rate.get_by_role("button", name="Good")).to_have_attribute("aria-pressed", "false")


def test_a_message_is_edited_and_answered_again_from_there(tea_room, visit):
    address, upstream = tea_room
    upstream.answers = [list(chat_events("Two.")), list(chat_events("Better."))]
    page = visit(address, "/rooms/tea")
    write(page, "Second?")
    expect(said(page).locator(".record-text")).to_have_text(["Question 0?", "Answer 0.", "Second?", "Two."])
    expect(said(page).nth(1).get_by_role("button", name="Regenerate")).to_have_count(0)
    said(page).first.get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Edit q0")
    field = form.get_by_role("textbox", name="Message")
    expect(field).to_be_focused()
    field.fill("First?")
    form.get_by_role("button", name="Save", exact=True).click()
    expect(said(page).locator(".record-text")).to_have_text(["First?", "Answer 0.", "Second?", "Two."])
    expect(said(page).first).to_contain_text("edited")
    said(page).first.get_by_role("button", name="Answer again from here").click()
    dialog = page.get_by_role("dialog", name="Answer again from here?")
    expect(dialog).to_contain_text("the 3 messages after it")
    dialog.get_by_role("button", name="Answer again").click()
    expect(said(page).locator(".record-text")).to_have_text(["First?", "Better."])
    assert [each["content"] for each in upstream.bodies[-1]["messages"]] == ["You are Nova.", "First?"]


def test_an_answer_goes_on_while_another_page_is_shown(tea_room, visit):
    address, upstream = tea_room
    answer, arrived = in_step(list(chat_events("One ", "two.")))
    upstream.answers = [answer]
    page = visit(address, "/rooms/tea")
    write(page, "Count!")
    expect(said(page).last).to_contain_text("One")
    page.get_by_role("link", name="Personas").click()
    expect(page.get_by_role("heading", name="Personas")).to_be_visible()
    page.go_back()
    expect(said(page).last).to_contain_text("One")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    for _ in range(4):
        arrived.release()
    expect(said(page).locator(".record-text").last).to_have_text("One two.")


def test_the_view_follows_the_end_unless_the_reader_scrolled_up(upstream_server, tmp_path, visit):
    upstream_server.reset()
    store = f"sqlite:///{tmp_path}/brimful.db"
    in_thread(fill(store, turns=40))
    answer, arrived = in_step(list(chat_events(*["line\n" * 40] * 3)))
    upstream_server.answers = [answer]
    with served_here(store, upstreams=[{"name": "up", "url": f"{upstream_server.address}/v1"}]) as address:
        page = visit(address, "/rooms/tea")
        log = page.get_by_role("group", name="Chat")
        rest = "box => box.scrollHeight - box.scrollTop - box.clientHeight"
        expect(said(page)).to_have_count(50)
        assert log.evaluate(rest) < 2
        assert page.evaluate("document.documentElement.scrollHeight < 1.5 * innerHeight")
        page.get_by_role("button", name="Earlier messages").evaluate("button => button.click()")
        expect(said(page)).to_have_count(80)
        assert log.evaluate(rest) < 2
        write(page, "More!")
        expect(said(page).last).to_contain_text("line")
        assert log.evaluate(rest) < 2
        log.evaluate("box => { box.scrollTop = 100; }")
        expect(log).to_have_js_property("scrollTop", 100)
        for _ in range(5):
            arrived.release()
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        assert log.evaluate("box => box.scrollTop") == 100
        page.context.close()


def test_without_a_server_that_answers_the_page_says_how_to_get_one(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"
    in_thread(fill(store))
    with served_here(store, upstreams=[]) as address:
        page = visit(address, "/rooms/tea")
        expect(page.get_by_text("brimful serve --upstream URL")).to_be_visible()
        expect(page.get_by_role("form", name="Write a message")).to_have_count(0)
        expect(page.get_by_role("button", name="Regenerate")).to_have_count(0)
        page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chat_is_accessible(tea_room, visit, theme):
    address, upstream = tea_room
    upstream.answers = [BUSY]
    look = {"color_scheme": theme, "viewport": PHONE, "reduced_motion": "reduce"}  # nothing is half visible
    page = visit(address, "/rooms/tea", bypass_csp=True, allowed=("503",), **look)
    write(page, "When is tea?")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.add_script_tag(path=AXE)
    assert faults(page) == []
