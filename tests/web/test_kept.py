"""What is kept: browsed, searched, changed, pinned and forgotten, and what each change costs."""

import re

from playwright.sync_api import expect


def save(page, name):
    """Press a button that saves, and wait until the server has it."""
    with page.expect_response(lambda response: response.request.method == "PUT") as told:
        page.get_by_role("button", name=name).click()
    assert told.value.ok


def record(page, text):
    return page.get_by_role("listitem").filter(has_text=text)


def test_a_memory_is_changed_pinned_and_forgotten_with_its_cost_in_sight(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/memories")
    page.get_by_role("searchbox", name="Find").fill("moka bitter")
    memory = record(page, "Ada likes her coffee")
    expect(page.get_by_role("list", name="Memories").get_by_role("listitem")).to_have_count(1)

    memory.get_by_role("button", name=re.compile("^Edit")).click()
    dialog = page.get_by_role("dialog", name="Change a memory")
    expect(dialog.get_by_text("(±0)")).to_be_visible()
    dialog.get_by_role("textbox", name="What is to be known").fill("Ada likes bitter coffee from a moka pot.")
    expect(dialog.locator(".cost")).to_contain_text(re.compile(r"9 tokens \(−\d+\)"))
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    changed = record(page, "Ada likes bitter coffee from a moka pot.")
    expect(changed).to_contain_text("9 tokens")

    changed.get_by_role("button", name=re.compile("^Pin")).click()
    expect(changed).to_contain_text("9 tokens in every context")
    changed.get_by_role("button", name=re.compile("^Forget")).click()
    question = page.get_by_role("dialog", name="Forget this memory?")
    expect(question).to_contain_text("−9 tokens")
    question.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("heading", name="No memory is like that")).to_be_visible()


def test_a_new_memory_and_one_that_is_refused(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/memories", allowed=("400",))
    page.get_by_role("button", name="New memory").click()
    dialog = page.get_by_role("dialog", name="A new memory")
    dialog.get_by_role("textbox", name="What is to be known").fill("Ada moves in spring.")
    dialog.get_by_role("textbox", name="Room").fill("support")
    dialog.get_by_role("spinbutton", name="Importance").fill("0.9")
    dialog.get_by_role("button", name="Remember it").click()
    expect(record(page, "Ada moves in spring.")).to_contain_text("room support")
    expect(record(page, "Ada moves in spring.")).to_contain_text("importance 90 %")


def test_a_room_is_changed_and_searched_and_a_message_is_removed(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/rooms")
    page.get_by_role("link", name="Support").click()
    page.get_by_text("About the room").click()
    goal = page.get_by_role("textbox", name="Goal")
    goal.fill("Solve her problem before noon")
    expect(page.locator(".cost").first).to_contain_text(re.compile(r"5 tokens \(\+2\)"))
    save(page, "Save the room")
    page.reload()
    page.get_by_text("About the room").click()
    expect(goal).to_have_value("Solve her problem before noon")

    page.get_by_role("searchbox", name="Find").fill("beans of lot 84")
    found = page.get_by_role("list", name="Messages").get_by_role("listitem").filter(has_text="Turn 12:")
    expect(found).to_contain_text("relevance")
    found.get_by_role("button", name=re.compile("^Remove")).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove it").click()
    expect(found).to_have_count(0)


def test_a_persona_and_a_room_have_notes(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/personas/nova")
    page.get_by_role("button", name="Add a note").click()
    note = page.get_by_role("group", name="Note 1")
    note.get_by_role("textbox", name="Note 1").fill("Answer in one sentence.")
    expect(note.locator(".cost")).to_contain_text("5 tokens")
    note.get_by_role("spinbutton", name="Messages behind it").fill("2")
    note.get_by_role("combobox", name="Said by").select_option("user")
    save(page, "Save the persona")
    page.reload()
    expect(note.get_by_role("textbox", name="Note 1")).to_have_value("Answer in one sentence.")
    expect(note.get_by_role("spinbutton", name="Messages behind it")).to_have_value("2")
    expect(note.get_by_role("combobox", name="Said by")).to_have_value("user")

    page.goto(f"{address}/rooms/support")
    page.get_by_text("About the room").click()
    page.get_by_role("button", name="Add a note").click()
    note.get_by_role("textbox", name="Note 1").fill("It is night.")
    note.get_by_role("spinbutton", name="Messages behind it").fill("")
    save(page, "Save the room")
    page.reload()
    page.get_by_text("About the room").click()
    expect(note.get_by_role("spinbutton", name="Messages behind it")).to_have_value("")
    page.get_by_role("button", name="Remove note 1").click()
    save(page, "Save the room")
    page.reload()
    page.get_by_text("About the room").click()
    expect(page.get_by_role("button", name="Add a note")).to_be_visible()
    expect(note).to_have_count(0)


def test_a_persona_and_a_lorebook_are_changed(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/personas")
    page.get_by_role("link", name="Nova").click()
    page.get_by_role("textbox", name="Prompt").fill("You are Nova.")
    expect(page.locator(".cost").first).to_contain_text(re.compile(r"4 tokens \(−\d+\)"))
    save(page, "Save the persona")
    page.get_by_role("link", name="Personas").click()
    expect(record(page, "You are Nova.")).to_contain_text("4 tokens in every context")

    page.get_by_role("link", name="Lorebooks").click()
    page.get_by_role("link", name="The shop").click()
    page.get_by_role("button", name="New entry").click()
    dialog = page.get_by_role("dialog", name="A new entry")
    dialog.get_by_role("textbox", name="What is told").fill("Grinders come with a brush.")
    dialog.get_by_role("textbox", name="Keys").fill("grinder\nburr")
    expect(dialog.locator(".cost")).to_contain_text(re.compile(r"\d+ tokens"))
    dialog.get_by_text("When it is told").click()
    dialog.get_by_role("textbox", name="Secondary keys").fill("brush")
    dialog.get_by_role("combobox", name="It is told if").select_option("not-any")
    dialog.get_by_role("spinbutton", name="Probability").fill("0.333")
    dialog.get_by_role("button", name="Write it").click()
    entry = record(page, "Grinders come with a brush.")
    expect(entry).to_contain_text("burr")
    entry.get_by_role("button", name=re.compile("^Edit")).click()
    dialog = page.get_by_role("dialog", name="Change an entry")
    dialog.get_by_text("When it is told").click()
    expect(dialog.get_by_role("combobox", name="It is told if")).to_have_value("not-any")
    expect(dialog.get_by_role("spinbutton", name="Probability")).to_have_value("0.333")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    entry.get_by_role("button", name=re.compile("^Turn off")).click()
    expect(entry.get_by_role("button", name=re.compile("^Turn on"))).to_be_visible()
    entry.get_by_role("button", name=re.compile("^Remove")).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove it").click()
    expect(entry).to_have_count(0)

    page.get_by_text("About the book").click()
    page.get_by_role("spinbutton", name="Tokens at the most").fill("300")
    save(page, "Save the book")
    page.reload()
    page.get_by_text("About the book").click()
    expect(page.get_by_role("spinbutton", name="Tokens at the most")).to_have_value("300")
