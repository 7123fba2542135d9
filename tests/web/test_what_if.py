"""What if: the picture follows the slider, and the newest request wins."""

import re

from playwright.sync_api import expect


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
    expect(page.get_by_role("region", name="Removed")).to_contain_text("not worth its tokens")
    expect(page).to_have_url(re.compile("price=thrifty"))
