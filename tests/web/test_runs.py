"""Runs of agents: one row of the list, opened as a tree of steps."""

import re
import shutil
import time

import pytest
from playwright.sync_api import expect

from web import world
from web.conftest import AXE, in_thread, served_here
from web.test_accessibility import COLOR_RULES, faults

STEPS = 40
BEGIN = time.time() - 3_600  # of the run
LONG = 220
RECALLING = 150  # the step of the long run that recalls
TASK = "Find out why the kettle leaks, and mend it.\n" + "Look at the lid, the seal and the spout. " * 40 + "Then rest."
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """The folder of a store with the run of an agent, and the ids of its contexts."""
    folder = tmp_path_factory.mktemp("worked")
    return folder, in_thread(world.agent(f"sqlite:///{folder}/brimful.db", STEPS, begin=BEGIN))


@pytest.fixture
def workshop(worked, tmp_path):
    folder, contexts = worked
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    store = f"sqlite:///{tmp_path}/brimful.db"
    with served_here(store) as address:
        yield address, store, contexts


def test_run_is_one_row_that_opens_its_steps(workshop, visit):
    address, _, contexts = workshop
    page = visit(address)
    rows = page.get_by_role("list", name="Contexts").get_by_role("listitem")
    expect(rows).to_have_count(1)
    for fact in (f"{STEPS} steps", re.compile("tokens in, 50.% cached"), "gpt-4o", re.compile("as one line each")):
        expect(rows).to_contain_text(fact)
    rows.get_by_role("link", name="Find out why the kettle leaks, and mend it.").click()
    expect(page).to_have_url(f"{address}/runs/{contexts[0]}")
    steps = page.locator(".steps > li")
    expect(steps).to_have_count(STEPS)
    expect(steps.first).to_contain_text("Bash look 0")
    expect(steps.last).to_contain_text("Answered")
    expect(page.locator(".tiles")).to_contain_text(re.compile("build 10.0 s *model 2 min 30 s *tools 3 min 54 s"))
    page.go_back()
    expect(rows).to_have_count(1)


def test_steps_are_chosen_and_opened(workshop, visit):
    address, _, contexts = workshop
    page = visit(address, f"/runs/{contexts[0]}?step=7")
    steps = page.locator(".steps > li")
    expect(steps.nth(6).get_by_text('{"command": "look 6"}')).to_be_visible()
    expect(steps.nth(5).get_by_text('{"command": "look 5"}')).to_be_hidden()
    steps.nth(2).locator("summary").click()
    expect(steps.nth(2).get_by_text(re.compile("gpt-4o · .* tokens in, 50.% cached"))).to_be_visible()
    expect(steps.nth(2).get_by_text("20 out")).to_be_visible()
    page.get_by_role("group", name="Which steps").get_by_role("button", name="With something cut").click()
    expect(steps.first.locator(".step-number")).not_to_have_text("1")
    expect(page).to_have_url(re.compile("show=cut"))
    assert 0 < steps.count() < STEPS
    page.get_by_role("button", name="All").click()
    expect(steps).to_have_count(STEPS)
    steps.nth(2).locator("summary").click()
    steps.nth(2).get_by_role("link", name="Open the context").click()
    expect(page).to_have_url(f"{address}/contexts/{contexts[2]}")


def test_contexts_lead_to_the_rounds_beside_them(workshop, visit):
    address, _, contexts = workshop
    page = visit(address, f"/contexts/{contexts[-2]}")
    expect(page.get_by_text(re.compile("Nothing was left out, but only .* whole"))).to_be_visible()
    run = page.get_by_role("navigation", name="Run")
    run.get_by_role("link", name="Next round").click()
    expect(page).to_have_url(f"{address}/contexts/{contexts[-1]}")
    run.get_by_role("link", name="Previous round").click()
    expect(run).to_contain_text(f"Step {STEPS - 1} of {STEPS}")
    run.get_by_role("link", name=f"Step {STEPS - 1}").click()
    expect(page).to_have_url(f"{address}/runs/{contexts[0]}?step={STEPS - 1}")


def test_new_steps_update_the_row(workshop, visit):
    address, store, _ = workshop
    page = visit(address)
    rows = page.get_by_role("list", name="Contexts").get_by_role("listitem")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(rows).to_contain_text(f"{STEPS} steps")
    in_thread(world.agent(store, STEPS + 2, begin=BEGIN))
    expect(rows).to_contain_text(f"{STEPS + 2} steps")
    expect(rows).to_have_count(1)


def test_open_run_follows_its_agent_and_loads_only_what_is_new(workshop, visit):
    address, store, contexts = workshop
    page = visit(address, f"/runs/{contexts[0]}?show=unanswered")
    steps, loaded = page.locator(".steps > li"), []
    expect(steps).to_have_count(0)
    page.get_by_role("button", name="All").click()
    expect(steps).to_have_count(STEPS)
    page.on("response", lambda response: "/v1/runs/" in response.url and loaded.append(response))
    in_thread(world.agent(store, STEPS + 3, begin=BEGIN))
    expect(steps).to_have_count(STEPS + 3)
    expect(steps.last).to_contain_text("Answered")
    expect(steps.nth(STEPS)).to_contain_text(f"Bash look {STEPS}")
    assert loaded
    for response in loaded:
        assert len(response.json()["steps"]) <= 5


def test_run_fits_a_phone(workshop, visit):
    address, _, contexts = workshop
    for path in ("/", f"/runs/{contexts[0]}?step=9"):
        page = visit(address, path, viewport={"width": 360, "height": 740})
        expect(page.get_by_text("Find out why the kettle leaks, and mend it.")).to_be_visible()
        assert not page.evaluate(WIDE)


# -- a long run ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """The address of a server with a long run, and the ids of its contexts. Nothing is changed."""
    store = f"sqlite:///{tmp_path_factory.mktemp('long')}/brimful.db"
    contexts = in_thread(world.agent(store, LONG, task=TASK, memory=1))
    in_thread(world.recall_and_rate(store, contexts[RECALLING - 1]))
    with served_here(store) as address:
        yield address, contexts


def test_a_long_run_is_read_in_pages(long_run, visit):
    address, contexts = long_run
    page = visit(address)
    expect(page.get_by_role("list", name="Contexts").get_by_role("listitem")).to_contain_text(f"{LONG} steps")
    with page.expect_response("**/brimful/v1/runs/*") as loaded:
        page.get_by_role("link", name="Find out why the kettle leaks").click()
    assert len(loaded.value.body()) < LONG * 1_000
    steps = page.locator(".steps > li")
    expect(steps).to_have_count(100)
    assert page.locator("*").count() < 3_000
    page.get_by_role("group", name="Pages of steps").first.get_by_role("button", name="201–220").click()
    expect(steps).to_have_count(20)
    expect(steps.last).to_contain_text("Answered")
    page.goto(f"/runs/{contexts[0]}?step=137")
    expect(page.get_by_text('{"command": "look 136"}')).to_be_in_viewport()


def test_a_step_of_a_long_run_is_found(long_run, visit):
    address, contexts = long_run
    page = visit(address, f"/runs/{contexts[0]}?page=2")
    steps = page.locator(".steps > li")
    expect(steps).to_have_count(100)
    page.keyboard.press("/")
    page.keyboard.type("look 20")
    expect(page.get_by_text("12 steps found.")).to_be_visible()
    expect(steps.locator(".step-number")).to_have_text(["21", "121", *(str(number) for number in range(201, 211))])
    expect(page).to_have_url(re.compile("find=look"))
    page.keyboard.type("9 ")
    expect(steps.locator(".step-number")).to_have_text(["210"])
    page.keyboard.type("nonsense")
    expect(page.get_by_text("No step was found.")).to_be_visible()


def test_a_recall_shows_its_time_its_tokens_and_what_it_returned(long_run, visit):
    address, contexts = long_run
    page = visit(address, f"/runs/{contexts[0]}?show=recalls")
    step = page.locator(".steps > li")
    expect(step).to_contain_text(re.compile("bad answer.*2 recalls"))
    step.locator("summary").click()
    expect(step.get_by_text("Feedback: “It looked at the wrong part.”")).to_be_visible()
    expect(step.get_by_role("listitem").filter(has_text="Recall")).to_contain_text("240 tokens–")  # one is not known
    first, second = step.locator("details details").all()
    expect(first).to_contain_text(re.compile("msg-000000 *120 tokens250 ms"))
    expect(second).to_contain_text(re.compile("“the lid” *120 tokens–"))
    first.locator("summary").click()
    expect(first.get_by_text("Look at the lid, the seal and the spout.")).to_be_visible()
    first.get_by_role("link", name="Show the item").click()
    expect(page).to_have_url(re.compile(f"{contexts[RECALLING - 1]}.item="))


def test_a_long_task_opens(long_run, visit):
    address, contexts = long_run
    page = visit(address, f"/runs/{contexts[0]}")
    task = page.locator("blockquote")
    closed = task.bounding_box()["height"]
    page.get_by_role("button", name="Show all of the task").click()
    assert task.bounding_box()["height"] > 2 * closed
    expect(task).to_contain_text("Then rest.")
    page.get_by_role("button", name="Show less of the task").click()
    assert task.bounding_box()["height"] == closed


def test_closing_a_step_stays_on_its_page(long_run, visit):
    address, contexts = long_run
    page = visit(address, f"/runs/{contexts[0]}?step=137")
    step = page.locator("#step-137")
    expect(step.locator(".step-parts")).to_be_visible()
    step.locator("summary").first.press("ArrowLeft")
    expect(step.locator(".step-parts")).to_have_count(0)
    expect(page).to_have_url(re.compile("page=2"))
    expect(step.locator("summary").first).to_be_focused()


def test_steps_open_with_the_keyboard(long_run, visit):
    address, contexts = long_run
    page = visit(address, f"/runs/{contexts[0]}")
    calls = [page.get_by_text(f'{{"command": "look {number}"}}') for number in range(3)]
    page.locator(".steps summary").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(calls[1]).to_be_visible()
    expect(page).to_have_url(re.compile("step=2$"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(calls[2]).to_be_visible()
    expect(page).to_have_url(re.compile("step=3$"))
    page.keyboard.press("ArrowLeft")
    expect(calls[2]).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?page=1$"))
    expect(calls[1]).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#step-100 summary")).to_be_focused()


@pytest.mark.parametrize(
    "viewport", [{"width": 1280, "height": 900}, {"width": 360, "height": 740}], ids=["desk", "phone"]
)
def test_axe_finds_nothing_in_a_long_run(long_run, visit, viewport):
    address, contexts = long_run
    page = visit(address, f"/runs/{contexts[0]}?step={RECALLING}", viewport=viewport, bypass_csp=True)
    expect(page.get_by_text("Feedback: “It looked")).to_be_visible()
    assert not page.evaluate(WIDE)
    page.add_script_tag(path=AXE)
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert faults(page, COLOR_RULES) == []


def test_earlier_steps_are_loaded_on_request(long_run, visit):
    address, contexts = long_run
    page = visit(address)
    page.route("**/brimful/v1/runs/*", lambda route: route.continue_(url=limited(route.request.url)))
    page.goto(f"/runs/{contexts[0]}")
    numbers = page.locator(".step-number")
    expect(page.get_by_text("The newest 50 of 220 steps are listed.")).to_be_visible()
    expect(numbers.first).to_have_text("171")
    page.get_by_role("button", name="Load those before step 171").click()
    expect(numbers.first).to_have_text("121")
    expect(numbers).to_have_count(100)
    expect(page.locator(".steps > li").nth(49)).to_contain_text("Bash look 169")


def limited(url):
    return f"{url}{'&' if '?' in url else '?'}limit=50"


def test_unknown_run_says_so(workshop, visit):
    address, _, _ = workshop
    page = visit(address, "/runs/nothing", allowed=("404",))
    expect(page.get_by_role("alert")).to_contain_text("No run 'nothing'")
