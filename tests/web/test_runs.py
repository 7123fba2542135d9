"""Runs of agents: one row of the list, opened as a list of steps."""

import re
import shutil

import pytest
from playwright.sync_api import expect

from web import world
from web.conftest import in_thread, served_here

STEPS = 40
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """The folder of a store with the run of an agent, and the ids of its contexts."""
    folder = tmp_path_factory.mktemp("worked")
    return folder, in_thread(world.agent(f"sqlite:///{folder}/brimful.db", STEPS))


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
    expect(page.get_by_text(re.compile("build 10.0 s, model 2 min 30 s, tools 3 min 54 s"))).to_be_visible()
    page.go_back()
    expect(rows).to_have_count(1)


def test_steps_are_chosen_and_opened(workshop, visit):
    address, _, contexts = workshop
    page = visit(address, f"/runs/{contexts[0]}?step=7")
    steps = page.locator(".steps > li")
    expect(steps.nth(6).get_by_text('{"command": "look 6"}')).to_be_visible()
    expect(steps.nth(5).get_by_text('{"command": "look 5"}')).to_be_hidden()
    steps.nth(2).locator("summary").click()
    expect(steps.nth(2).get_by_text(re.compile("gpt-4o · .* tokens in, 50.% cached, 20 out"))).to_be_visible()
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
    in_thread(world.agent(store, STEPS + 2))
    expect(rows).to_contain_text(f"{STEPS + 2} steps")
    expect(rows).to_have_count(1)


def test_open_run_follows_its_agent(workshop, visit):
    address, store, contexts = workshop
    page = visit(address, f"/runs/{contexts[0]}?show=unanswered")
    expect(page.locator(".steps > li")).to_have_count(0)
    page.get_by_role("button", name="All").click()
    in_thread(world.agent(store, STEPS + 1))
    expect(page.locator(".steps > li")).to_have_count(STEPS + 1)


def test_run_fits_a_phone(workshop, visit):
    address, _, contexts = workshop
    for path in ("/", f"/runs/{contexts[0]}?step=9"):
        page = visit(address, path, viewport={"width": 360, "height": 740})
        expect(page.get_by_text("Find out why the kettle leaks, and mend it.")).to_be_visible()
        assert not page.evaluate(WIDE)


def test_unknown_run_says_so(workshop, visit):
    address, _, _ = workshop
    page = visit(address, "/runs/nothing", allowed=("404",))
    expect(page.get_by_role("alert")).to_contain_text("No run 'nothing'")
