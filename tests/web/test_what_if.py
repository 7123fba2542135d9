"""What if: the picture follows the slider, and the newest request wins."""

import re
import shutil

import pytest
from playwright.sync_api import expect

from server.upstream import Upstream, chat_answer, serving
from web.conftest import AXE, in_thread, served_here
from web.test_accessibility import PHONE, faults
from web.world import MISSED, unreserved

BUSY = (503, {"error": {"message": "too many guests"}})


def test_the_picture_follows_the_slider(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}/what-if")
    slider = page.get_by_role("slider", name="Window", exact=True)
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    questions = []
    page.on("response", lambda response: questions.append(response) if "/what-if" in response.url else None)
    status = page.get_by_role("status").filter(has_text="tokens used")
    expect(status).to_contain_text("window 1,400")
    page.mouse.move(box["x"] + box["width"] * 0.2, middle)
    page.mouse.down()
    for step in range(20, 61, 2):
        page.mouse.move(box["x"] + box["width"] * step / 100, middle)
    # the finger still holds the slider, and the picture has followed it
    expect(page.get_by_role("region", name="Added")).to_contain_text("Ada was promised a refund")
    page.mouse.up()
    window = int(page.get_by_role("spinbutton", name="Window, in tokens").input_value())
    expect(status).to_contain_text(f"window {window:,}")
    expect(page).to_have_url(re.compile(f"window={window}"))
    assert 1 <= len(questions) <= 22  # as many as could be answered, and not one for each move in a queue


def test_an_impossible_window_shows_an_error_and_can_be_reset(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}/what-if?window=256&completion=250")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("It does not fit.")
    expect(alert).to_contain_text(re.compile(r"need \d+ tokens, but only \d+ are available"))
    page.get_by_role("button", name="Reset").click()
    expect(alert).to_have_count(0)


def test_another_model_and_another_policy(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}/what-if")
    page.get_by_role("combobox", name="Model").select_option("claude-sonnet-4-5")
    expect(page.get_by_role("status").filter(has_text="tokens used")).to_contain_text("window 200,000")
    expect(page.get_by_role("region", name="Added")).to_contain_text("Ada was promised a refund")
    page.get_by_role("combobox", name="Policy").select_option("window")
    expect(page.get_by_role("region", name="Removed")).to_contain_text("Ada prefers short answers")
    expect(page).to_have_url(re.compile("model=claude-sonnet-4-5&policy=window"))


def test_another_price_of_tokens(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}/what-if")
    page.get_by_role("combobox", name="Price of tokens").select_option("thrifty")
    expect(page.get_by_role("region", name="Removed")).to_contain_text("unlikely to help")
    expect(page).to_have_url(re.compile("price=thrifty"))


def test_a_pin_is_tried_and_taken_back(shop, visit):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}?item={MISSED}")
    page.get_by_role("link", name="See what pinning it changes").click()
    expect(page).to_have_url(re.compile(rf"/what-if\?pin={MISSED}$"))
    added = page.get_by_role("region", name="Added")
    expect(added).to_contain_text("Her parrot is named Pixel.")
    page.get_by_role("textbox", name="What to pin").fill("attic-1")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Results for attic-1").get_by_role("button").click()
    expect(added).to_contain_text("The parrot bit the cat.")
    pins = page.get_by_role("list", name="Pinned here")
    pins.get_by_role("listitem").filter(has_text=MISSED).get_by_role("button", name="Unpin").click()
    expect(added).not_to_contain_text("Pixel")
    expect(page).to_have_url(re.compile(r"/what-if\?pin=attic-1$"))


def test_the_result_comes_first_and_a_tried_pin_can_be_kept(own_shop, visit):
    address, _, contexts = own_shop
    page = visit(address, f"/contexts/{contexts[-1]}/what-if?pin={MISSED}", viewport={"width": 390, "height": 844})
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("what of the refund for the broken lid")
    expect(result).to_contain_text(re.compile(r"\d → [\d,]+ of [\d,]+ available tokens"))
    added = result.get_by_role("region", name="Added")
    expect(added.get_by_role("group").locator(".swatch")).to_have_class(re.compile("c-pinned"))
    assert added.bounding_box()["y"] < page.get_by_role("slider", name="Window", exact=True).bounding_box()["y"]
    result.get_by_role("button", name="Pin for real").click()
    expect(result).to_contain_text("Pinned: it will be in the next context of user ada.")


@pytest.mark.parametrize(("name", "typed"), [("Window", "100"), ("Window", "-5"), ("Reserved for the answer", "9000")])
def test_a_number_out_of_range_is_not_accepted(shop, visit, name, typed):
    address, _, contexts = shop
    page = visit(address, f"/contexts/{contexts[-1]}/what-if")
    field = page.get_by_role("spinbutton", name=f"{name}, in tokens")
    before = field.input_value()
    field.fill(typed)
    field.press("Enter")
    alert = page.get_by_role("alert").filter(has_text="Not accepted: enter a number from")
    expect(alert).to_be_visible()
    expect(field).to_have_value(typed)
    old = page.get_by_text("This is the old result")
    expect(old).to_be_visible()
    expect(page).to_have_url(re.compile("/what-if$"))
    page.get_by_role("button", name="Reset").click()
    expect(alert.or_(old)).to_have_count(0)
    expect(field).to_have_value(before)


def test_the_reserve_follows_the_window_until_it_is_set(tmp_path, visit):
    store = f"sqlite:///{tmp_path}/brimful.db"
    context = in_thread(unreserved(store))
    with served_here(store) as address:
        page = visit(address, f"/contexts/{context}/what-if")
        reserve = page.get_by_role("spinbutton", name="Reserved for the answer, in tokens")
        hint = page.get_by_text(re.compile("it follows the window, model and policy"))
        expect(reserve).to_have_value("500")
        window = page.get_by_role("spinbutton", name="Window, in tokens")
        window.fill("4000")
        window.press("Enter")
        expect(reserve).to_have_value("1000")
        expect(hint).to_contain_text("originally 500")
        reserve.fill("600")
        reserve.press("Enter")
        expect(hint).to_have_count(0)
        window.fill("8000")
        window.press("Enter")
        expect(page.get_by_role("status").filter(has_text="tokens used")).to_contain_text("window 8,000")
        expect(reserve).to_have_value("600")
        page.context.close()


def test_the_question_is_answered_again_beside_the_original(small_shop, tmp_path, visit):
    folder, contexts = small_shop
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    upstream = Upstream()
    priced = {"model": "gpt-4o"}
    said = [chat_answer("Pixel the parrot took it.", prompt=900) | priced, chat_answer("A new lid.")]
    upstream.answers = [said[0], BUSY, BUSY, said[1]]  # the first failure is retried by itself
    with (
        serving(upstream.app()) as (address, _),
        served_here(f"sqlite:///{tmp_path}/brimful.db", upstreams=[{"name": "up", "url": f"{address}/v1"}]) as site,
    ):
        page = visit(site, f"/contexts/{contexts[-1]}/what-if?pin={MISSED}", allowed=("503",), bypass_csp=True)
        expect(page.get_by_text("Sends one request to the model")).to_be_visible()
        page.get_by_role("button", name="Answer again with these settings").click()
        answers = page.get_by_role("region", name="Answer again").get_by_role("article")
        expect(answers.first).to_contain_text("Answer 0: a new lid is on its way.")
        expect(answers.nth(1)).to_contain_text("Pixel the parrot took it.")
        expect(answers.nth(1).get_by_role("heading")).to_have_text("pinned: Her parrot is named Pixel.")
        expect(answers.nth(1)).to_contain_text("added")
        expect(answers.nth(1)).to_contain_text(re.compile(r"Cost\$0\.\d+"))
        assert "Her parrot is named Pixel." in str(upstream.bodies[0]["messages"])
        page.get_by_role("combobox", name="Policy").select_option("window")
        expect(page.get_by_role("region", name="Removed")).to_be_visible()
        page.get_by_role("button", name="Answer again with these settings").click()
        page.get_by_role("button", name="Retry").click()
        expect(answers.nth(2)).to_contain_text("A new lid.")
        expect(answers.nth(2).get_by_role("heading")).to_contain_text("policy window")
        expect(answers).to_have_count(3)
        page.add_script_tag(path=AXE)
        assert faults(page) == []
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.context.close()


def test_without_a_server_that_answers_what_if_says_how_to_get_one(small_shop, tmp_path, visit):
    folder, contexts = small_shop
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with served_here(f"sqlite:///{tmp_path}/brimful.db", upstreams=[]) as site:
        page = visit(site, f"/contexts/{contexts[-1]}/what-if")
        expect(page.get_by_text("brimful serve --upstream URL")).to_be_visible()
        expect(page.get_by_role("button", name="Answer again")).to_have_count(0)
        page.context.close()
