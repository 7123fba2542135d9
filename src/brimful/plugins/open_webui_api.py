"""Put the filter into a running Open WebUI, by the API of its administrator."""

from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import msgspec

from brimful.errors import BrimfulError, InvalidValue

ID: Final = "brimful"
FILE: Final = Path(__file__).parent / "open_webui.py"
"""The filter, for an administrator who imports it by hand."""

_SECONDS: Final = 120  # the server may install Brimful before it answers
_NOT_FOUND: Final = (401, 404)  # Open WebUI says 401 for a function that does not exist
_TITLE: Final = "title: Brimful"
_MAX_REASON: Final = 300  # characters


class Site:
    """A server, with the token of an administrator."""

    def __init__(self, url: str, token: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidValue("url", f"must begin with http:// or https://, not {url!r}")
        self.url = url.rstrip("/")
        self._token = token

    def find(self) -> dict[str, Any] | None:
        """Return the function as the server has it, or None."""
        role = self._send("GET", "/api/v1/auths/").get("role")
        if role != "admin":
            raise BrimfulError(f"{self.url}: the token is not an administrator's")
        try:
            found: dict[str, Any] = self._send("GET", f"/api/v1/functions/id/{ID}")
        except _Refused as error:
            if error.status in _NOT_FOUND:
                return None
            raise
        if _TITLE not in str(found.get("content")):
            raise BrimfulError(f"{self.url}: has another function with the id {ID!r}")
        return found

    def is_installed(self) -> bool:
        """Return whether this version of the filter is there, and used for all models."""
        found = self.find()
        return found is not None and found.get("content") == _content() and _is_on(found)

    def install(self) -> None:
        """Create the filter, or update it, and use it for all models."""
        form = {
            "id": ID,
            "name": "Brimful",
            "content": _content(),
            "meta": {"description": "Trims long chats to the model's window."},
        }
        found = self.find()
        if found is None:
            self._send("POST", "/api/v1/functions/create", form)
        elif found.get("content") != form["content"]:
            self._send("POST", f"/api/v1/functions/id/{ID}/update", form)
        found = self.find() or {}
        if not found.get("is_active"):
            self._send("POST", f"/api/v1/functions/id/{ID}/toggle", {})
        if not found.get("is_global"):
            self._send("POST", f"/api/v1/functions/id/{ID}/toggle/global", {})

    def remove(self) -> None:
        """Delete the filter."""
        self._send("DELETE", f"/api/v1/functions/id/{ID}/delete")

    def _send(self, method: str, path: str, body: object = None) -> Any:
        request = Request(  # noqa: S310 - http or https
            f"{self.url}{path}",
            method=method,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - see above
                return msgspec.json.decode(response.read())
        except HTTPError as error:
            raise _Refused(self.url, path, error.code, error.read()) from None
        except URLError as error:
            raise BrimfulError(f"{self.url}: no answer: {error.reason}") from None
        except (OSError, HTTPException, msgspec.DecodeError) as error:
            raise BrimfulError(f"{self.url}{path}: {error or type(error).__name__}; is it Open WebUI?") from None


class _Refused(BrimfulError):
    def __init__(self, url: str, path: str, status: int, body: bytes) -> None:
        reason = body.decode(errors="replace")[:_MAX_REASON]
        super().__init__(f"{url}{path}: refused with status {status}: {reason}")
        self.status = status


def _is_on(found: dict[str, Any]) -> bool:
    return bool(found.get("is_active") and found.get("is_global"))


def _content() -> str:
    return files("brimful.plugins").joinpath(FILE.name).read_text(encoding="utf-8")
