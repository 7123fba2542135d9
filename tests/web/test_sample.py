"""The sample data of `make inspect`: somebody who has never seen it finds out why an answer forgot something."""

import re

import pytest
from playwright.sync_api import expect

import inspector
from web.conftest import in_thread, served_here


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The address of a server with the sample data, and with its model."""
    store = f"sqlite:///{tmp_path_factory.mktemp('sample')}/companion.db"
    in_thread(inspector.live(store))
    with inspector.model_server() as model, served_here(store, upstreams=[{"name": "model", "url": model}]) as address:
        yield address


def contexts(page):
    return page.get_by_role("list", name="Contexts").get_by_role("listitem")


def test_the_newest_context_is_of_a_good_search(sample, visit):
    page = visit(sample)
    expect(contexts(page).first).to_contain_text("Rosinante, the red Gazelle.")
    contexts(page).first.locator(".context-link").click()
    saw = page.get_by_role("region", name="What the model saw").get_by_role("listitem")
    expect(saw.first).to_contain_text("My bicycle is a red Gazelle, and I call her Rosinante.")
    expect(saw.first).to_contain_text(re.compile(r"relevance [5-9]\d\s%"))
    page.context.close()


def test_why_an_answer_forgot_something_is_three_clicks_away_and_a_pin_changes_it(sample, visit):
    page = visit(sample)
    row = contexts(page).filter(has_text="hazelnut torte")
    row.locator(".context-link").click()
    expect(page.get_by_text(re.compile(r"of [\d,]+ available tokens used .* \$0\.\d+"))).to_be_visible()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("A hazelnut torte, with plenty of cream.")
    missed = page.get_by_role("region", name="What it did not see")
    missed.get_by_role("textbox", name="What did the answer forget?").fill("nuts")
    missed.get_by_role("button", name="Find").click()
    missed.get_by_role("region", name="Results for nuts").get_by_role("button", name="Ada must not eat").click()
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text(re.compile(r"Left out\. It is very unlikely to help, \d+\w\w of \d+\b"))
    verdict.get_by_role("link", name="See what pinning it changes.").click()
    page.get_by_role("button", name="Answer again with these settings").click()
    before, after = page.get_by_role("region", name="Answer again").get_by_role("article").all()
    expect(before).to_contain_text(inspector.EXCHANGES[inspector.CAKE][1])
    expect(after).to_contain_text(inspector.REMINDED)
    expect(after).to_contain_text("pinned: Ada must not eat hazelnuts")
    assert before.bounding_box()["y"] == after.bounding_box()["y"]
    page.context.close()


def test_the_run_of_an_agent_is_one_row(sample, visit):
    page = visit(sample)
    run = contexts(page).filter(has_text=inspector.TASK)
    expect(run).to_contain_text(f"{inspector.STEPS} steps")
    expect(run).to_contain_text("as one line each")
    page.context.close()


def test_the_lines_of_a_ledger_are_not_called_a_summary(sample, visit):
    page = visit(sample, f"/contexts/ctx-shop-{inspector.STEPS - 1}?tab=request")
    request = page.get_by_role("list", name="Messages of the request")
    request.get_by_text(re.compile(r"^\d+ .* as one line each, [\d,]+ tokens$")).first.click()
    request.get_by_role("link").first.click()
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("The model saw one line of it.")
    expect(page.get_by_text(re.compile("replaced by a summary|saw a summary"))).to_have_count(0)
    page.context.close()
