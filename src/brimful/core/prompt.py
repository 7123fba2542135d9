"""Provider-independent prompts, and the interfaces of what counts and renders them."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from brimful.core import validation
from brimful.core.content import Media, Part, Role, Text, ToolCall
from brimful.core.tokens import Count
from brimful.core.validation import clean_data, clean_text
from brimful.errors import InvalidValue

Request = dict[str, Any]
"""A finished request body for the provider's HTTP API."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call; `parameters` is a JSON schema.

    The schema is copied into plain JSON data, and lone surrogates in what the model reads are replaced.

    >>> Tool(name="look", parameters={"enum": ("a", "b")}).parameters
    {'enum': ['a', 'b']}
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        name = validation.require_unicode("tools.name", self.name, InvalidValue)
        description = clean_text(validation.require_text("tools.description", self.description, InvalidValue))
        for field, value in (("name", name), ("description", description), ("parameters", _schema(self.parameters))):
            msgspec.structs.force_setattr(self, field, value)


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message. `sources` are the ids of the packages in it; `cache` marks the end of a stable prefix."""

    role: Role
    parts: tuple[Part, ...]
    name: str = ""
    sources: tuple[str, ...] = ()
    cache: bool = False

    @property
    def content(self) -> str | tuple[Part, ...]:
        """The text, if there is nothing else; otherwise the parts."""
        if not self.parts:
            return ""
        return self.parts[0].text if len(self.parts) == 1 and isinstance(self.parts[0], Text) else self.parts


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What the model will see, in order, and how many tokens it may answer with.

    `system_turns` means that the model accepts system messages between turns, unlike others with its wire format.
    `body` is the request that the prompt was read from, if it has OpenAI's form: servers pass its messages to a chat
    template with more fields than a `Message` has.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_output: int | None = None
    system_turns: bool = False
    body: Request | None = None


class Renderer(Protocol):
    """Renders a prompt as a provider's request, parses requests, and checks the provider's rules."""

    @property
    def names_in_text(self) -> bool:
        """Whether the provider has no field for a speaker's name, so that it goes into the text."""
        ...

    @property
    def is_templated(self) -> bool:
        """Whether servers parse special tokens anywhere in a text."""
        ...

    @property
    def detail_provider(self) -> str:
        """Who bills pictures by the detail that a request asks for. Other servers may ignore it."""
        ...

    @property
    def fixed_tools(self) -> frozenset[str]:
        """The names of tools that must stay as they are, such as those that the request forces."""
        ...

    @property
    def can_add_tools(self) -> bool:
        """Whether a tool may be added to the request."""
        ...

    def render(self, prompt: Prompt, *, window: int) -> Request: ...

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return the text that replaces a media item, or None if the item itself is sent."""
        ...

    def parse(self, request: Request) -> Prompt:
        """Parse a request, so that the bytes that are sent are counted. Raises `InvalidRequest` if it is invalid."""
        ...


def _schema(parameters: object) -> dict[str, Any]:
    try:
        whole = clean_data(parameters)
    except RecursionError:
        raise InvalidValue("tools.parameters", validation.TOO_DEEP) from None
    except TypeError as error:
        raise InvalidValue("tools.parameters", f"must be plain JSON data ({error})") from None
    return validation.require_json_object("tools.parameters", whole, InvalidValue)


class TokenCounter(Protocol):
    """Counts tokens for one model. Every method is a pure function of its arguments.

    Two counters with the same `tokenizer` return the same counts.
    """

    @property
    def tokenizer(self) -> str:
        """The name under which counts are stored, for example `o200k_base` or `claude@o200k_base*1.53`."""
        ...

    def text(self, text: str) -> Count:
        """Count a text. Special tokens in it are counted as plain text."""
        ...

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts, faster than one by one."""
        ...

    def media(self, part: Media) -> Count:
        """Count an image, audio or video by the model's rule."""
        ...

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count all tool calls of one assistant message, including their overhead."""
        ...

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return the tokens of a message besides its content (role, separators, name)."""
        ...

    def request_overhead(self) -> int:
        """Return the tokens of a request besides its messages and tools (priming, default system prompt …)."""
        ...

    def prompt(self, prompt: Prompt) -> Count:
        """Count a whole prompt, including tools and all overheads: the number that the provider will bill."""
        ...
