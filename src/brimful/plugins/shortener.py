"""Shorten the texts of one tool result for what it was wanted for, each with a handle."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from brimful.plugins.sessions import SessionLog
from brimful.plugins.small_results import BYTES_PER_TOKEN

_TOKENIZER: Final = "o200k_base"
_KEPT_SHARE: Final = 2  # a shortened result has half the tokens of the limit
_MAX_QUERY: Final = 2_000  # characters of each text that says what a result is for
_MAX_ABOUT: Final = 80  # characters that say what a result is
_DIGITS: Final = 10  # of a handle, in hexadecimal
_FILE_NOTE: Final = "\n[Line numbers here leave out the gaps. Read with offset and limit shows the lines of a gap.]"


class Original(NamedTuple):
    """A text that was shortened: its handle, and its tokens before and after."""

    handle: str
    text: str
    tokens: int
    shown: int


class ResultShortener:
    """Shortens the texts of a tool's result that have more tokens than the limit, and collects the `originals`."""

    def __init__(self, event: Mapping[str, Any], log: SessionLog, limit: int) -> None:
        arguments = event.get("tool_input")
        values = arguments.values() if isinstance(arguments, dict) else ()
        self._wanted = " ".join(value for value in values if isinstance(value, str))
        self._seed = f"{log.room}\0{event.get('tool_use_id')}\0"
        self._log = log
        self._limit = limit
        self.originals: list[Original] = []

    @property
    def about(self) -> str:
        """What the result is, in a few words: a command, a file, an address."""
        return " ".join(self._wanted.split())[:_MAX_ABOUT]

    def shorten(self, text: str) -> str:
        """Return a shorter form of a text with a mark that names its handle, or the text if it is small."""
        from brimful.shorten import add_json_note, shorten  # noqa: PLC0415 - slow to import, and rarely needed

        def make(limit: int, count: Callable[[str], int], handle: str) -> str | None:
            shorter = shorten(text, limit, count, self._query)
            if shorter is None:
                return None
            is_json = shorter.kind == "json"
            return add_json_note(shorter.text, f"recall {handle}") if is_json else shorter.text + _mark(handle)

        return self._replace(text, make)

    def shorten_file(self, text: str) -> str:
        """Return a file with only some of its lines, unchanged. Each gap names the lines that it stands for."""
        from brimful.plugins.tool_results import name_gaps  # noqa: PLC0415 - as above
        from brimful.shorten import Shortener, TextStructure  # noqa: PLC0415

        def make(limit: int, count: Callable[[str], int], handle: str) -> str | None:
            shortener = Shortener(TextStructure(text, self._query, "code"), count, self._query)
            shorter = shortener.shorten(limit)
            return None if shorter is None else name_gaps(shorter.text, text) + _FILE_NOTE + _mark(handle)

        return self._replace(text, make)

    def _replace(self, text: str, make: Callable[[int, Callable[[str], int], str], str | None]) -> str:
        if len(text.encode("utf-8", "replace")) <= BYTES_PER_TOKEN * self._limit:
            return text
        from brimful.counting.tokenizers import count_text  # noqa: PLC0415 - as above

        def count(part: str) -> int:
            return count_text(_TOKENIZER, part)

        tokens = count(text)
        handle = self._handle(text)
        shorter = make(self._limit // _KEPT_SHARE, count, handle) if tokens > self._limit else None
        if shorter is None:
            return text
        self.originals.append(Original(handle, text, tokens, count(shorter)))
        return shorter

    def _handle(self, text: str) -> str:
        """Return the same handle if a hook runs again for the same result."""
        digest = hashlib.sha256((self._seed + text).encode("utf-8", "surrogatepass")).hexdigest()
        return f"r{digest[:_DIGITS]}"

    @property
    def _query(self) -> str:
        prompts = self._log.prompts
        return " ".join(each[:_MAX_QUERY] for each in (*dict.fromkeys([*prompts[:1], *prompts[-1:]]), self._wanted))


def _mark(handle: str) -> str:
    return f'\n[… recall "{handle}"]'
