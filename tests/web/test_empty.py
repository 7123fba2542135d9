"""An empty store: what the page advises works on this server."""

import subprocess

import pytest
from playwright.sync_api import expect

import brimful
from web.conftest import in_thread, served_here


@pytest.fixture
def empty(tmp_path):
    with served_here(f"sqlite:///{tmp_path}/brimful.db") as address:
        yield address


def run(page):
    """Run the first command that the page shows, as a stranger would."""
    command = page.locator("pre.shell").first.inner_text()
    subprocess.run(["bash", "-e", "-c", command], check=True, capture_output=True)


def test_the_first_command_builds_the_first_context(empty, visit):
    page = visit(empty)
    expect(page.get_by_role("heading", name="No contexts yet")).to_be_visible()
    expect(page.locator("pre.shell").last).to_have_text(f"export OPENAI_BASE_URL={empty}/v1")
    run(page)
    expect(page.get_by_role("list", name="Contexts, newest first").get_by_role("listitem")).to_have_count(1)


@pytest.mark.parametrize(("path", "name"), [("/memories", "Memories"), ("/rooms", "Rooms")])
def test_the_command_of_a_list_creates_its_first_record(empty, visit, path, name):
    page = visit(empty, path)
    page.get_by_role("heading", name="yet").wait_for()
    run(page)
    page.reload()
    expect(page.get_by_role("list", name=name).get_by_role("listitem")).to_have_count(1)


async def build(store):
    async with brimful.Engine(store, model="gpt-4o", embedder="none", record_share=0.0) as engine:
        await engine.post(room="den", text="Hello.")  # a room that does not exist would be a problem, and recorded
        await engine.assemble(room="den", message="Is anybody there?")


def test_a_context_that_is_not_recorded_says_so(empty, visit, tmp_path):
    in_thread(build(f"sqlite:///{tmp_path}/brimful.db"))
    page = visit(empty, allowed=("404",))
    expect(page.get_by_text("summary only")).to_be_visible()
    page.get_by_role("list", name="Contexts").get_by_role("link", name="den").first.click()
    expect(page.get_by_role("heading", name="Only a summary of this context was stored")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
