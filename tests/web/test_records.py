"""Browsing and editing records, with their token costs."""

import re

import httpx2
import pytest
from playwright.sync_api import expect


def save(page, name):
    """Press a button that saves, and wait until the server has it."""
    with page.expect_response(lambda response: response.request.method == "PUT") as told:
        page.get_by_role("button", name=name).click()
    assert told.value.ok


def record(page, text):
    return page.get_by_role("listitem").filter(has_text=text)


def test_a_memory_is_edited_pinned_and_removed_with_its_cost_visible(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/memories")
    page.get_by_role("searchbox", name="Search").fill("moka bitter")
    memory = record(page, "Ada likes her coffee")
    expect(page.get_by_role("list", name="Memories").get_by_role("listitem")).to_have_count(1)

    memory.get_by_role("button", name=re.compile("^Edit")).click()
    dialog = page.get_by_role("dialog", name="Edit memory")
    expect(dialog.get_by_text("(±0)")).to_be_visible()
    dialog.get_by_role("textbox", name="Content").fill("Ada likes bitter coffee from a moka pot.")
    expect(dialog.locator(".cost")).to_contain_text(re.compile(r"9 tokens of text \(−\d+\)"))
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    changed = record(page, "Ada likes bitter coffee from a moka pot.")
    expect(changed).to_contain_text("9 tokens")

    changed.get_by_role("button", name=re.compile("^Pin")).click()
    expect(changed).to_contain_text("9 tokens of text in every context, plus its label")
    changed.get_by_role("button", name=re.compile("^Remove")).click()
    question = page.get_by_role("dialog", name="Remove this memory?")
    expect(question).to_contain_text("frees 9 tokens")
    question.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("heading", name="No matching memories")).to_be_visible()


def test_a_memory_is_created(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/memories", allowed=("400",))
    page.get_by_role("button", name="New memory").click()
    dialog = page.get_by_role("dialog", name="New memory")
    dialog.get_by_role("textbox", name="Content").fill("Ada moves in spring.")
    dialog.get_by_role("textbox", name="Room").fill("support")
    dialog.get_by_role("spinbutton", name="Importance").fill("0.9")
    dialog.get_by_role("textbox", name="Cluster").fill("moving")
    dialog.get_by_role("button", name="Create").click()
    expect(record(page, "Ada moves in spring.")).to_contain_text("room support")
    expect(record(page, "Ada moves in spring.")).to_contain_text("importance 90 %")
    expect(record(page, "Ada moves in spring.")).to_contain_text("cluster moving")


def test_a_room_and_a_persona_have_a_focus(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/rooms")
    page.get_by_role("link", name="Support").click()
    page.get_by_text("Room settings").click()
    page.get_by_role("textbox", name="Focus").fill("coffee machines")
    save(page, "Save")
    page = visit(address, "/personas/nova")
    page.get_by_role("textbox", name="Focus").fill("hazelnuts")
    save(page, "Save")
    records = [httpx2.get(f"{address}/brimful/v1/{path}").json() for path in ("rooms/support", "personas/nova")]
    assert [each["focus"] for each in records] == ["coffee machines", "hazelnuts"]


def test_a_room_is_edited_and_searched_and_a_message_removed(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/rooms")
    page.get_by_role("link", name="Support").click()
    page.get_by_text("Room settings").click()
    goal = page.get_by_role("textbox", name="Goal")
    goal.fill("Solve her problem before noon")
    expect(page.locator(".cost").first).to_contain_text(re.compile(r"5 tokens of text \(\+2\)"))
    save(page, "Save")
    page.reload()
    page.get_by_text("Room settings").click()
    expect(goal).to_have_value("Solve her problem before noon")

    page.get_by_role("searchbox", name="Search").fill("beans of lot 84")
    found = page.get_by_role("list", name="Messages").get_by_role("listitem").filter(has_text="Turn 12:")
    expect(found).to_contain_text("relevance")
    found.get_by_role("button", name=re.compile("^Remove")).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(found).to_have_count(0)


@pytest.mark.parametrize("owner", ["rooms/support", "personas/nova"])
def test_a_room_or_persona_without_memories_points_to_those_of_its_users(shop, visit, owner):
    address, _, _ = shop
    page = visit(address, f"/{owner}")
    page.get_by_role("main").get_by_role("link", name="Memories").click()
    page.get_by_role("link", name="Memories of user ada").click()
    expect(record(page, "Ada prefers short answers")).to_be_visible()


def test_a_persona_and_a_room_have_notes(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/personas/nova")
    page.get_by_role("button", name="Add note").click()
    note = page.get_by_role("group", name="Note 1")
    note.get_by_role("textbox", name="Note 1").fill("Answer in one sentence.")
    expect(note.locator(".cost")).to_contain_text("5 tokens")
    note.get_by_role("spinbutton", name="Depth (messages after it)").fill("2")
    note.get_by_role("combobox", name="Role").select_option("user")
    save(page, "Save")
    page.reload()
    expect(note.get_by_role("textbox", name="Note 1")).to_have_value("Answer in one sentence.")
    expect(note.get_by_role("spinbutton", name="Depth (messages after it)")).to_have_value("2")
    expect(note.get_by_role("combobox", name="Role")).to_have_value("user")

    page.goto(f"{address}/rooms/support")
    page.get_by_text("Room settings").click()
    page.get_by_role("button", name="Add note").click()
    note.get_by_role("textbox", name="Note 1").fill("It is night.")
    note.get_by_role("spinbutton", name="Depth (messages after it)").fill("")
    save(page, "Save")
    page.reload()
    page.get_by_text("Room settings").click()
    expect(note.get_by_role("spinbutton", name="Depth (messages after it)")).to_have_value("")
    page.get_by_role("button", name="Remove note 1").click()
    save(page, "Save")
    page.reload()
    page.get_by_text("Room settings").click()
    expect(page.get_by_role("button", name="Add note")).to_be_visible()
    expect(note).to_have_count(0)


def test_a_room_has_its_own_character(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/rooms/support")
    page.get_by_text("Room settings").click()
    page.get_by_role("button", name="Add a character for this room").click()
    page.get_by_role("textbox", name="Scenario").fill("A shop at night.")
    page.get_by_role("textbox", name="Nickname").fill("Captain")
    expect(page.locator(".cost", has_text="5 tokens")).to_have_count(1)
    changed_elsewhere(address, "/rooms/support", character={"prompt": "You are the captain."})
    save(page, "Save")
    character = get_json(address, "/rooms/support")["character"]
    assert (character["prompt"], character["scenario"]) == ("You are the captain.", "A shop at night.")
    assert (character["nickname"], character["description"]) == ("Captain", "")
    page.reload()
    page.get_by_text("Room settings").click()
    expect(page.get_by_role("textbox", name="System prompt")).to_have_value("You are the captain.")


def test_a_persona_and_a_lorebook_are_edited(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/personas")
    page.get_by_role("link", name="Nova").click()
    page.get_by_role("textbox", name="Prompt").fill("You are Nova.")
    expect(page.locator(".cost").first).to_contain_text(re.compile(r"4 tokens of text \(−\d+\)"))
    save(page, "Save")
    page.get_by_role("link", name="Personas").click()
    expect(record(page, "You are Nova.")).to_contain_text("4 tokens of text in every context, plus its role")

    page.get_by_role("link", name="Lorebooks").click()
    page.get_by_role("link", name="The shop").click()
    page.get_by_role("button", name="New entry").click()
    dialog = page.get_by_role("dialog", name="New entry")
    dialog.get_by_role("textbox", name="Content").fill("Grinders come with a brush.")
    dialog.get_by_role("textbox", name=re.compile("^Keywords")).fill("grinder\nburr")
    expect(dialog.locator(".cost")).to_contain_text(re.compile(r"\d+ tokens"))
    dialog.get_by_text("Activation").click()
    dialog.get_by_role("textbox", name="Secondary keywords").fill("brush")
    dialog.get_by_role("combobox", name="Condition").select_option("not-any")
    dialog.get_by_role("spinbutton", name="Probability").fill("0.333")
    dialog.get_by_role("button", name="Create").click()
    entry = record(page, "Grinders come with a brush.")
    expect(entry).to_contain_text("burr")
    entry.get_by_role("button", name=re.compile("^Edit")).click()
    dialog = page.get_by_role("dialog", name="Edit entry")
    dialog.get_by_text("Activation").click()
    expect(dialog.get_by_role("combobox", name="Condition")).to_have_value("not-any")
    expect(dialog.get_by_role("spinbutton", name="Probability")).to_have_value("0.333")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    entry.get_by_role("button", name=re.compile("^Turn off")).click()
    expect(entry.get_by_role("button", name=re.compile("^Turn on"))).to_be_visible()
    entry.get_by_role("button", name=re.compile("^Remove")).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(entry).to_have_count(0)

    page.get_by_text("Lorebook settings").click()
    page.get_by_role("spinbutton", name="Max tokens").fill("300")
    save(page, "Save")
    page.reload()
    page.get_by_text("Lorebook settings").click()
    expect(page.get_by_role("spinbutton", name="Max tokens")).to_have_value("300")


def changed_elsewhere(address, path, **said):
    """Change a record as another tab would, while this one shows it as it was."""
    assert httpx2.put(f"{address}/brimful/v1{path}", json=said).is_success


def get_json(address, path):
    return httpx2.get(f"{address}/brimful/v1{path}").json()


def test_a_form_does_not_overwrite_changes_made_elsewhere(own_shop, visit):
    address, _, _ = own_shop
    changed_elsewhere(address, "/personas/nova", character={"description": "A barista.", "scenario": "A shop."})
    page = visit(address, "/personas/nova")
    page.get_by_role("textbox", name="Name", exact=True).fill("Nova the second")
    page.get_by_role("textbox", name="Scenario").fill("A shop at night.")
    elsewhere = {"prompt": "You are new.", "notes": [{"text": "Be brief."}], "completion": 70, "lorebooks": []}
    character = {"description": "A barista of rank.", "scenario": "A shop."}
    changed_elsewhere(address, "/personas/nova", **elsewhere, character=character)
    save(page, "Save")
    nova = get_json(address, "/personas/nova")
    assert (nova["name"], nova["prompt"], nova["completion"]) == ("Nova the second", "You are new.", 70)
    assert (nova["lorebooks"], [note["text"] for note in nova["notes"]]) == ([], ["Be brief."])
    data = nova["character"]
    assert (data["description"], data["scenario"]) == ("A barista of rank.", "A shop at night.")
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value("You are new.")

    page.goto(f"{address}/rooms/support")
    page.get_by_text("Room settings").click()
    page.get_by_role("textbox", name="Goal").fill("Be done by noon")
    page.get_by_role("button", name="Add note").click()
    page.get_by_role("textbox", name="Note 1").fill("It is night.")
    changed_elsewhere(address, "/rooms/support", name="Front desk", user=None, headers=["Hello"])
    save(page, "Save")
    room = get_json(address, "/rooms/support")
    assert (room["goal"], room["notes"][0]["text"]) == ("Be done by noon", "It is night.")
    assert (room["name"], room["user"], room["headers"]) == ("Front desk", None, ["Hello"])


def test_a_lorebook_an_entry_and_a_memory_keep_changes_made_elsewhere(own_shop, visit):
    address, _, _ = own_shop
    page = visit(address, "/lorebooks/shop")
    page.get_by_text("Lorebook settings").click()
    page.get_by_role("spinbutton", name="Max tokens").fill("300")
    changed_elsewhere(address, "/lorebooks/shop", name="The new shop", recursion=2)
    save(page, "Save")
    book = get_json(address, "/lorebooks/shop")
    assert (book["budget"], book["name"], book["recursion"]) == (300, "The new shop", 2)

    record(page, "Lids are replaced").get_by_role("button", name=re.compile("^Edit")).click()
    page.get_by_role("textbox", name="Keywords, one per line").first.fill("lid\ncover")
    changed_elsewhere(address, "/lorebooks/shop/entries/lore-lid", content="Lids cost nothing.", importance=0.123456)
    save(page, "Save")
    [entry] = [each for each in get_json(address, "/lorebooks/shop/entries")["entries"] if each["id"] == "lore-lid"]
    assert (entry["keys"], entry["content"]) == (["lid", "cover"], "Lids cost nothing.")
    assert entry["importance"] == 0.123456

    page.goto(f"{address}/memories?q=noon")
    record(page, "Orders before noon").get_by_role("button", name=re.compile("^Edit")).click()
    page.get_by_role("combobox", name="Type").select_option("procedural")
    changed_elsewhere(address, "/memories/mem-2", content="Orders before one leave at once.", pinned=True, user="bob")
    save(page, "Save")
    memory = get_json(address, "/memories/mem-2")
    assert (memory["type"], memory["pinned"], memory["user"]) == ("procedural", True, "bob")
    assert memory["content"] == "Orders before one leave at once."
