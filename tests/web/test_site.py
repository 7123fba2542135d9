"""The documentation site, as `make docs` builds it, opened from the file system."""

import re
import zlib
from importlib import import_module
from pathlib import Path

import pytest
from playwright.sync_api import expect

from web.conftest import SIZE
from web.test_accessibility import PHONE

SITE = Path(__file__).parents[2] / "build" / "site"
DIAGRAMS = ("explanation/how-it-works.html", "explanation/prompt-caches.html", "scaling.html")
DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = [f"tutorial/{page.stem}.html" for page in sorted((DOCS / "tutorial").glob("*.md"))]
PAGES = ("index.html", "reference/engine.html", "reference/http.html", "reference/modules.html")


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built: make docs")
    return SITE


@pytest.fixture
def read(site, visit):
    """Open a page of the site. The fixture `visit` fails if the page requests anything from elsewhere."""

    def open_page(path, **context):
        return visit(f"{site.as_uri()}/", path, **context)

    return open_page


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_no_page_refers_to_a_file_elsewhere(site):
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"(?:https?:)?//(?!brimful\.readthedocs\.io/)")
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))] == []


def test_search_finds_a_page_without_a_server(read):
    page = read("index.html")
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("prompt cache")
    expect(page.locator(".md-search-result__item").filter(has_text="Keep prompt caches warm").first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", DIAGRAMS)
def test_diagrams_are_drawn_and_fit_on_a_phone(read, path, theme):
    page = read(path, color_scheme=theme, viewport=PHONE)
    expect(page.locator("pre.mermaid")).to_have_count(0)
    assert fits(page)
    page.set_viewport_size(SIZE)
    drawn = page.locator("div.mermaid")
    assert [drawn.nth(n).bounding_box()["height"] > 50 for n in range(drawn.count())] == [True] * drawn.count() != []


def test_the_theme_is_that_of_the_system_until_the_reader_chooses(read):
    page = read("index.html", color_scheme="dark")
    body = page.locator("body")
    expect(body).to_have_attribute("data-md-color-scheme", "slate")
    page.get_by_title("Use the light theme").click()
    expect(body).to_have_attribute("data-md-color-scheme", "default")
    page.get_by_title("Use the dark theme").click()
    expect(body).to_have_attribute("data-md-color-scheme", "slate")


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_on_a_phone(read, path):
    assert fits(read(path, viewport=PHONE))


@pytest.mark.parametrize("path", [*TUTORIAL, "fitting.html", "errors.html"])
def test_code_need_not_be_scrolled_on_a_laptop(read, path):
    page = read(path)
    page.set_viewport_size(SIZE)
    wide = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
    code = page.locator("pre code")
    assert code.count() > 0
    assert code.evaluate_all(wide) == []


def test_a_list_for_models_has_every_page(site):
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    pages = [line for line in lines if line.startswith("- [")]
    assert all(line.endswith((".", ":", ")")) for line in pages), "a paragraph is cut"
    assert len(pages) == len(list(DOCS.rglob("*.md")))
    start = "- [Fit a request](https://brimful.readthedocs.io/fitting.html): "
    assert [line for line in pages if line.startswith(start) and len(line) > len(start)]


@pytest.mark.parametrize("module", ["testing", "models", "embedding", "providers", "telemetry", "lore", "stores"])
def test_the_reference_has_every_name_of_a_module(site, module):
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    found = {line.partition(" ")[0] for line in inventory.splitlines()}
    names = import_module(f"brimful.{module}").__all__
    assert [name for name in names if f"brimful.{module}.{name}" not in found] == []
