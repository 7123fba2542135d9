"""The page: its files, headers and routes."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

from brimful.server.page import CSP, Page
from server.upstream import serving

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def built(tmp_path):
    """Return the folder of a page that was built."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>Built</title>")
    (tmp_path / "assets" / "index-abc123.js").write_text("export const x = 1;\n" * 200)
    (tmp_path / "icon.svg").write_text("<svg/>")
    return tmp_path


@pytest.fixture
def site(built):
    page = Page(built)

    async def elsewhere(request, error):
        del error
        return page.index(request) or PlainTextResponse("nothing", 404)

    app = Starlette(routes=page.routes(), exception_handlers={404: elsewhere})
    with serving(app) as (address, _), httpx2.Client(base_url=address) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/index.html", "/assets/index-abc123.js", "/icon.svg"])
def test_files_are_served_with_a_strict_policy(site, path):
    answer = site.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == CSP
    assert "default-src 'none'" in CSP
    assert "unsafe" not in CSP
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_hashed_files_are_immutable_and_the_page_is_revalidated(site):
    assert "immutable" in site.get("/assets/index-abc123.js").headers["cache-control"]
    page = site.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = site.get("/", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert site.get("/", headers={"if-none-match": '"other"'}).status_code == 200


def test_files_have_types_and_are_gzipped(site, built):
    answer = site.get("/assets/index-abc123.js", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text == (built / "assets" / "index-abc123.js").read_text()
    plain = site.get("/assets/index-abc123.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == answer.content
    assert site.get("/icon.svg").headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize("path", ["/contexts/ctx-1", "/stats", "/rooms/tea%2Froom", "/anything/else"])
def test_unknown_paths_return_the_page_to_browsers(site, path):
    assert "Built" in site.get(path, headers=HTML).text
    assert site.get(path, headers={"accept": "application/json"}).status_code == 404


@pytest.mark.parametrize("path", ["/v1/nothing", "/brimful/v1/nothing", "/assets/nothing.js"])
def test_other_requests_do_not_get_the_page(site, path):
    assert site.get(path, headers=HTML).status_code == 404


def test_without_a_page_there_are_build_instructions(tmp_path):
    page = Page(tmp_path / "nowhere")
    assert [route.path for route in page.routes()] == ["/", "/index.html"]
    with serving(Starlette(routes=page.routes())) as (address, _):
        answer = httpx2.get(address)
    assert "make web" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_errors_of_the_api_stay_json(start):
    client = start()
    assert client.get("/brimful/v1/nothing", headers=HTML).json()["error"]["type"] == "invalid_request_error"
    assert client.get("/nothing").json()["error"]["type"] == "invalid_request_error"
    assert client.get("/", headers=HTML).headers["content-type"].startswith("text/html")
