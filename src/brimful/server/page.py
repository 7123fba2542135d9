"""The inspector page: prebuilt static files, served from memory."""

import hashlib
import mimetypes
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC: Final = Path(__file__).parent / "static"
ASSETS: Final = "/assets/"
"""Files with a content hash in their name."""

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
_SECURITY_HEADERS: Final = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_NO_CACHE: Final = "no-cache"  # cached, but revalidated each time
_NOT_MODIFIED: Final = 304
API_PATHS: Final = ("/v1/", "/v1beta/", "/api/", "/brimful/")
_MIN_COMPRESSED: Final = 1_024  # bytes
_NOT_BUILT_PAGE: Final = b"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Brimful</title>
<h1>Brimful is running</h1>
<p>The inspector page has not been built. Run <code>make web</code> in the project directory and restart the server.
Installed packages include the page.
<p>Everything the page shows is also available as JSON: see <a href="/openapi.json">/openapi.json</a>.
"""


class StaticFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is served, with a gzipped version if worthwhile."""

    body: bytes
    gzipped: bytes | None
    media_type: str
    etag: str
    immutable: bool


class Page:
    """The files of the page by path. Without an `index.html`, it explains how to build one."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files = dict(_read(folder)) if folder.is_dir() else {}
        if "/index.html" not in self._files:
            self._files = {"/index.html": _file("/index.html", _NOT_BUILT_PAGE)}

    def routes(self) -> list[Route]:
        return [Route("/", self._serve), *(Route(path, self._serve) for path in self._files)]

    def index(self, request: Request) -> Response | None:
        """Return the page if a browser asks for an unknown path, which the page routes itself."""
        wants_html = "text/html" in request.headers.get("accept", "")
        if request.method not in ("GET", "HEAD") or not wants_html or request.url.path.startswith((*API_PATHS, ASSETS)):
            return None
        return _response(self._files["/index.html"], request)

    async def _serve(self, request: Request) -> Response:
        path = request.url.path
        return _response(self._files["/index.html" if path == "/" else path], request)


def _read(folder: Path) -> Iterator[tuple[str, StaticFile]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            path = f"/{file.relative_to(folder).as_posix()}"
            yield path, _file(path, file.read_bytes())


@cache  # a process that makes several applications compresses a file once
def _file(path: str, body: bytes) -> StaticFile:
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind in ("application/javascript", "application/json", "image/svg+xml")
    compressor = zlib.compressobj(9, wbits=31)
    gzipped = compressor.compress(body) + compressor.flush() if text and len(body) >= _MIN_COMPRESSED else None
    return StaticFile(
        body=body,
        gzipped=gzipped,
        media_type=kind,
        etag=f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"',
        immutable=path.startswith(ASSETS),
    )


def _response(file: StaticFile, request: Request) -> Response:
    headers = _SECURITY_HEADERS | {
        "etag": file.etag,
        "cache-control": _IMMUTABLE if file.immutable else _NO_CACHE,
        "vary": "accept-encoding",
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    gzipped = file.gzipped if "gzip" in request.headers.get("accept-encoding", "") else None
    if gzipped is not None:
        headers["content-encoding"] = "gzip"
    return Response(file.body if gzipped is None else gzipped, headers=headers, media_type=file.media_type)
