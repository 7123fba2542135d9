"""What all session files tell: pieces of a conversation, calls of the model, and compactions, in order of time."""

import re
from typing import Final, Literal

import msgspec

Category = Literal["system", "tools", "files", "results", "user", "assistant", "thinking", "summary"]
"""What a piece of a window is.

- `system`: instructions and reminders of the program. `tools`: definitions of tools.
- `files`: what was read from files. `results`: results of all other tools.
- `user`, `assistant`, `thinking`: messages and reasoning, tool calls included. `summary`: the text of a compaction.
"""

CATEGORIES: Final[tuple[Category, ...]] = (
    "system", "tools", "files", "results", "user", "assistant", "thinking", "summary",
)  # fmt: skip

_NOT_THE_USER: Final = re.compile(
    r"\s*(?:<(?:command-|local-command-|bash-|task-notification|system-reminder|user_instructions|environment_context"
    r"|session_context|state_snapshot)|# AGENTS\.md)"
)
"""How texts begin that programs write in the user's name."""
_FILE_TOOLS: Final = frozenset({"read", "readfile", "readmanyfiles", "view", "cat", "openfile", "notebookread"})


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the conversation: a message, a call of a tool, or its result.

    `id` is its own in the file, and `call` that of the tool call that it is, or answers. `tool` is the name of that
    tool. `place` is where it stands in the file: the offset of its line, or the number of its row. A `lasting` piece
    is sent with every request, also after a compaction. A `repeated` one is not new: a compaction wrote it again.
    """

    id: str
    category: Category
    text: str
    at: float = 0.0
    place: int = 0
    tool: str = ""
    call: str = ""
    images: int = 0
    lasting: bool = False
    repeated: bool = False

    @property
    def is_call(self) -> bool:
        """Whether it is the call of a tool."""
        return bool(self.tool) and self.category == "assistant"

    @property
    def is_result(self) -> bool:
        """Whether it is what a tool gave."""
        return self.category in {"files", "results"}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the model, with what the provider reported about it: all pieces before it are in its window.

    The prompt has `uncached` tokens, `read` ones from the cache, and `written` ones to it. `lasts` is for how long the
    cache keeps them, in seconds; 0 if the file does not say. `system` and `tools` are digests of what was sent as such,
    and `rewritten` is the first message that differs from those of the request before; -1 if none does, None if the
    file does not say. One is `resumed` if the program wrote the whole history anew before it.
    """

    id: str
    model: str
    at: float = 0.0
    uncached: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    window: int = 0
    lasts: float = 0.0
    system: str = ""
    tools: str = ""
    rewritten: int | None = None
    resumed: bool = False

    @property
    def prompt(self) -> int:
        """The tokens of the prompt."""
        return self.uncached + self.read + self.written


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """From here on, the model sees only lasting pieces, those to `keep`, and what follows."""

    at: float = 0.0
    keep: frozenset[str] = frozenset()


class Unknown(msgspec.Struct, frozen=True):
    """A part of the file that nobody here knows, and why."""

    reason: str


Event = Piece | Call | Compaction | Unknown


def result_category(tool: str) -> Category:
    """Return the category of what a tool gave.

    >>> result_category("read_file"), result_category("Bash")
    ('files', 'results')
    """
    return "files" if tool.lower().replace("_", "").replace("-", "") in _FILE_TOOLS else "results"


def is_from_user(text: str) -> bool:
    """Return whether a text is the user's own, and not a notification or instruction of the program.

    >>> is_from_user("Which page?"), is_from_user("<command-name>/compact</command-name>"), is_from_user(" ")
    (True, False, False)
    """
    return bool(text.strip()) and not _NOT_THE_USER.match(text)
