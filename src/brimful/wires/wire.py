"""A wire: everything that is particular to a provider's format, as one value.

Each format has a file of its own that exports a `WIRE`. Everybody else asks the wire, and nobody compares its name. All
functions of a wire are pure. Writing and reading a request share no code: what will be billed is counted from what was
read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import Media, Role, Text
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.core.validation import is_whole_number
from brimful.errors import InvalidRequest, InvalidValue
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.wires.normalize import decode_data_url, placeholder
from brimful.wires.replies import Draft
from brimful.wires.rounds import JoinedAnswer
from brimful.wires.storage import Storage
from brimful.wires.tools import MapFunctions, find_forced, function_tool, has_fixed_tools, map_functions

JsonObject = dict[str, Any]
ReadTurn = Callable[..., tuple[Message, ...]]
LIMIT_FIELDS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""Fields of a request with its output limit."""
_CONTENT_FIELDS: Final = ("content", "tool_calls", "function_call")


KeyHeader = Literal["authorization", "x-api-key", "api-key"]
"""The header of an API key: as a bearer token, as Anthropic has it, or as Azure has it."""


class ServerTraits(msgspec.Struct, frozen=True, kw_only=True):
    """How a server differs from others that speak the same format.

    OpenAI itself wants the limit of a completion as `max_completion_tokens`. Other servers may accept, ignore or reject
    that name, but all know `max_tokens`: `uses_max_tokens` is True for them. `requests_usage` is False for servers that
    reject a request for the usage of a stream. `key_header` is that of the API key, if it is not the usual one.
    """

    uses_max_tokens: bool = False
    requests_usage: bool = True
    key_header: KeyHeader | None = None


class CountRequest(msgspec.Struct, frozen=True):
    """A request for the token count of a prompt, which is in a `field` of the answer.

    If not `versioned`, the path replaces the API version at the end of the server's URL.
    """

    path: str
    body: Request
    field: str
    versioned: bool = True


class WirePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where a wire format is served: `completions` are the paths of its requests at the proxy.

    Its paths begin with `root`. The URL of an upstream has that root as well, unless `is_whole`: then the paths at the
    upstream are those at the proxy. `has_one_version` says that the root replaces any version in an upstream's URL.

    Other requests are in this format if their path begins with one of `prefixes`, or if they have the `header`. Under
    `count` the tokens of a prompt are counted.
    """

    root: str
    completions: tuple[str, ...]
    is_whole: bool = False
    has_one_version: bool = False
    prefixes: tuple[str, ...] = ()
    header: str = ""
    count: str = ""

    def at_upstream(self, path: str) -> str:
        """Return the path of a request at the upstream.

        >>> WirePaths(root="/v1", completions=("/v1/chat/completions",)).at_upstream("/v1/files")
        '/files'
        """
        return path if self.is_whole else path.removeprefix(self.root)


ErrorKind = Literal[
    "invalid",
    "overflow",
    "invalid_key",
    "forbidden",
    "not_found",
    "too_large",
    "rate_limited",
    "spending_limit",
    "too_many_failed_keys",
    "upstream",
    "timeout",
    "shutting_down",
    "internal",
]


class ErrorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a request: its kind, a message, the HTTP status, a code, and the field."""

    kind: ErrorKind
    message: str
    status: int
    code: str | None = None
    param: str | None = None


class UsageOption(msgspec.Struct, frozen=True):
    """How a request asks for the usage of a stream, and which extra event it gets for that."""

    field: str
    option: str
    is_extra: Callable[[JsonObject], bool]


def read_call(path: str, parameters: Mapping[str, str], body: JsonObject) -> tuple[str, bool]:
    """Return the model that a request names, and whether its answer is streamed, from the fields of its body."""
    del path, parameters
    model = body.get("model")
    return model if isinstance(model, str) else "", body.get("stream") is True


def write_model(path: str, body: JsonObject, model: str) -> tuple[str, JsonObject]:
    """Return the path and the body of a request for another model, which the body names."""
    return path, {**body, "model": model}


def describe_overflow(needed: int, limit: int, why: str) -> str:
    """Return the message about a prompt that is too long, as OpenAI words it."""
    return (
        f"This model's maximum context length is {limit} tokens for the prompt. However, your messages "
        f"resulted in {needed} tokens: {why}. Please reduce the length of the messages."
    )


class ReasoningRule(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a request may lack the reasoning of turns before the last answer. That of the last answer must stay."""

    is_removable: bool
    why: str
    source: str


def set_stream(request: Request, stream: bool, traits: ServerTraits) -> Request:  # noqa: FBT001 - as in a `Wire`
    """Return a request whose field `stream` says whether its answer is streamed."""
    del traits
    fields = {key: value for key, value in request.items() if key != "stream"}
    return fields | {"stream": True} if stream else fields


def no_draft() -> Draft:
    """Refuse to read replies."""
    raise InvalidValue("wire", "replies in this format cannot be read")


def has_role_and_content(message: JsonObject) -> bool:
    """Whether this is a message with a role and something to say."""
    return isinstance(message.get("role"), str) and not message.keys().isdisjoint(_CONTENT_FIELDS)


def read_max_output(request: Request) -> int | None:
    """Return the output limit in a field of the request, if it is a valid number."""
    return next((int(request[field]) for field in LIMIT_FIELDS if is_whole_number(request.get(field))), None)


def count_answers(request: Request) -> int:
    """Return how many answers a request asks for. A completion of the older kind may have several prompts.

    >>> count_answers({"messages": []}), count_answers({"n": 2, "best_of": 5}), count_answers({"prompt": ["a", "b"]})
    (1, 5, 2)
    """
    prompts = request.get("prompt")
    is_list = isinstance(prompts, list) and bool(prompts) and not is_whole_number(prompts[0], 0)  # else it is tokens
    each = (int(request[field]) for field in ("n", "best_of") if is_whole_number(request.get(field)))
    return (len(request["prompt"]) if is_list else 1) * max(each, default=1)


def write_max_tokens(request: Request, tokens: int, provider: str) -> Request:
    """Return a request with `max_tokens`, unless it has a limit of its own."""
    del provider
    return request if has_limit(request) else {**request, "max_tokens": tokens}


def lower_max_output(request: Request, tokens: int) -> Request:
    """Return a request that allows an answer of at most so many tokens.

    >>> lower_max_output({"max_tokens": 8_000, "temperature": 0}, 5_000)
    {'max_tokens': 5000, 'temperature': 0}
    """
    limits: dict[str, Any] = {field: request.get(field) for field in LIMIT_FIELDS}
    return request | {field: min(limit, tokens) for field, limit in limits.items() if is_whole_number(limit)}


def has_limit(request: Request) -> bool:
    """Whether a request has an output limit, valid or not."""
    return any(request.get(field) is not None for field in LIMIT_FIELDS)


class Wire(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One provider's format. `provider` is whose it is, which is also the wire format of its models.

    **Requests that we write.** None of `write`, `read` and `find_violations` is there if we write none in this format.
    `write` also gets the window. `names_in_text` says that a speaker's name is written into the content, as
    `name: text`, because there is no field; `is_templated` that servers parse special tokens anywhere in a text;
    `keeps_body` that servers pass messages to a chat template as they are, so that counting needs them;
    `detail_provider` who bills pictures by the detail that a request asks for; and `max_breakpoints` how many cache
    breakpoints a request may have.

    **Requests that clients write.** They are read tolerantly: the provider decides whether they are valid.
    `message_field` has the messages, which may be a string if `takes_text`, and need roles if `needs_role`. `read_turn`
    reads one as one or two neutral messages, and is None if no request can be read; its `current` means that no user
    message follows. `is_message` recognizes an object of an SDK, and `own_blocks` are the types of blocks that no other
    format has. `find_ties` and `find_pinned` return which messages belong together, and which must stay, by index.
    `pairs_by_name` says that tool results may name the function only. `find_state` returns the field that adds what
    only the provider has, and `find_uncounted` a notice about content that cannot be counted. `count_answers` returns
    how many a request asks for. `read_window` and `write_window` are for formats in which it asks for its window.
    `takes_fields` says that a caller can pass some fields of its own beside the request that we write, and
    `has_openai_messages` that messages have OpenAI's form.

    **Requests that are written again**, with some of their messages: `write_text` makes a message of a role and a text,
    `get_role` reads a role, `text_type` is the type of a text block, `repair` changes a message in which a text stands
    for media, and `user_first` says that the user must speak first.

    **Tools.** `write_tool` describes one as an item of the field `tools`, and `no_calls` are fields that forbid calls.
    `has_fixed_tools` tells whether the caller decided which tools may be called, or wants what several rounds cannot
    give. `map_functions` changes the definitions of the caller's own functions, not of tools that the provider has, and
    `find_forced` returns the names of the tools that a request forces.

    **Replies.** `make_draft` makes what a reply is read into, whole or streamed; `read_usage` reads a usage as an SDK
    returns it, which has the field `usage_key`. A stream consists of server-sent events, or of lines if
    `is_json_lines`, or of the items of one array if `streams_arrays` and the client asks for no events.
    `preamble_events` come before anything was generated, and `whole_events` repeat the whole answer. `join_rounds`
    joins the answers of several rounds into one, if `can_join` says so for the body of a request and whether its answer
    is streamed.

    **Servers.** `headers` and `key_header` come with every request, which is sent to `get_path` as `prepare` returns
    it. Answers cost nothing if `is_free`, because the servers run on hardware of their users. `count_requests` let a
    server count the tokens of a prompt, and `models_path` lists its models and windows. `models_query` gets as many of
    them as possible at once, and `write_models` lists the models of several servers.

    **The proxy.** `paths` are where requests come in. `read_call` returns the model and whether to stream, given the
    path, its parameters and the body, and `write_model` path and body with another model; `key_parameter` is the API
    key in a query, `usage_option` asks for the usage of a stream, and `holds_content` tells whether a message has all
    of its content. `write_error` and `describe_overflow` word errors as clients expect them; in a stream, an error
    stands in the `error_frame`. With `storage`, conversations can be stored.

    **Tests.** `write_reply` returns a reply as a server writes it: whole, and as the chunks of a stream. `find_broken`
    yields what a provider would refuse in the conversation of a client's request.

    **Reasoning** of the model: `find_reasoning` returns the parts of a message with it, by index, and
    `find_removable` the messages that may be sent without it.
    """

    name: str
    provider: str

    write: Callable[[Prompt, int], Request] | None = None
    read: Callable[[Request], Prompt] | None = None
    find_violations: Callable[[object], list[str]] | None = None
    accepts_media: Callable[[Media], bool] = lambda _: False
    names_in_text: bool = True
    is_templated: bool = False
    keeps_body: bool = False
    detail_provider: str = ""
    max_breakpoints: int = 0

    read_turn: ReadTurn | None = None
    message_field: str = "messages"
    takes_text: bool = False
    takes_fields: bool = False
    has_openai_messages: bool = False
    needs_role: bool = True
    is_message: Callable[[JsonObject], bool] = has_role_and_content
    own_blocks: frozenset[str] = frozenset()
    pairs_by_name: bool = False
    find_ties: Callable[[Sequence[JsonObject]], tuple[tuple[int, ...], ...]] = lambda _: ()
    find_pinned: Callable[[Sequence[JsonObject]], tuple[int, ...]] = lambda _: ()
    find_state: Callable[[Request], str | None] = lambda _: None
    find_uncounted: Callable[[Request], str] = lambda _: ""
    system_field: Callable[[Request], str] = lambda _: ""
    read_system: Callable[[object], tuple[Message, ...]] = lambda _: ()
    tool_fields: tuple[str, ...] = ("tools",)
    read_tools: Callable[[JsonObject], Iterator[Tool]] = lambda _: iter(())
    read_max_output: Callable[[Request], int | None] = read_max_output
    count_answers: Callable[[Request], int] = count_answers
    write_max_output: Callable[[Request, int, str], Request] = write_max_tokens
    lower_max_output: Callable[[Request, int], Request] = lower_max_output
    read_window: Callable[[Request], int | None] = lambda _: None
    write_window: Callable[[Request, int], Request] = lambda request, _: request

    write_text: Callable[[str, str], JsonObject] = lambda role, text: {"role": role, "content": text}
    get_role: Callable[[JsonObject], str] = lambda message: str(message.get("role", "user"))
    text_type: str = "text"
    repair: Callable[[JsonObject], JsonObject] = lambda message: message
    user_first: bool = False

    reasoning: ReasoningRule | None = None
    find_reasoning: Callable[[JsonObject], tuple[int, ...]] = lambda _: ()
    find_removable: Callable[[Sequence[JsonObject]], Iterable[int]] = lambda messages: range(len(messages))
    without_reasoning: Callable[[JsonObject], JsonObject] = lambda message: message

    write_tool: Callable[[Tool], JsonObject] = function_tool
    has_fixed_tools: Callable[[Request], bool] = has_fixed_tools
    map_functions: MapFunctions = map_functions
    find_forced: Callable[[Request], frozenset[str]] = find_forced
    no_calls: Mapping[str, Any] = MappingProxyType({})

    make_draft: Callable[[], Draft] = no_draft
    read_usage: Callable[[JsonObject], Usage | None] = lambda _: None
    usage_key: str = ""
    is_json_lines: bool = False
    streams_arrays: bool = False
    preamble_events: tuple[str, ...] = ()
    whole_events: tuple[str, ...] = ()
    join_rounds: Callable[[], JoinedAnswer] | None = None
    can_join: Callable[[JsonObject, bool], bool] = lambda body, streams: True  # noqa: ARG005 - called by position

    headers: Mapping[str, str] = MappingProxyType({})
    key_header: str = "authorization"
    is_free: bool = False
    get_path: Callable[[Request, bool], str] = lambda request, stream: "/"  # noqa: ARG005 - called by position
    prepare: Callable[[Request, bool, ServerTraits], Request] = set_stream
    count_requests: Callable[[Request], Sequence[CountRequest]] = lambda _: ()
    models_path: str = ""
    models_query: str = ""
    write_models: Callable[[list[JsonObject], Mapping[str, str]], JsonObject] = lambda rows, _: {
        "object": "list",
        "data": rows,
    }

    paths: WirePaths | None = None
    read_call: Callable[[str, Mapping[str, str], JsonObject], tuple[str, bool]] = read_call
    write_model: Callable[[str, JsonObject, str], tuple[str, JsonObject]] = write_model
    key_parameter: str = ""
    usage_option: UsageOption | None = None
    holds_content: Callable[[JsonObject], bool] = lambda _: True
    write_error: Callable[[ErrorFacts], JsonObject] = lambda error: {"error": error.message}
    describe_overflow: Callable[[int, int, str], str] = describe_overflow
    error_frame: tuple[bytes, bytes] = (b"\n\ndata: ", b"\n\n")
    storage: Storage | None = None

    write_reply: Callable[[Reply], tuple[JsonObject, list[bytes]]] | None = None
    find_broken: Callable[[Request], Iterator[str]] | None = None

    @property
    def fixed_tools(self) -> frozenset[str]:
        """The names of tools that must stay as they are: none in a request that we write."""
        return frozenset()

    @property
    def can_add_tools(self) -> bool:
        """Whether a tool may be added: nobody would answer its calls."""
        return False

    def own_fields(self, request: Request) -> frozenset[str]:
        """Return the fields of a request that have messages and the system prompt.

        >>> from brimful.wires import find_wire
        >>> sorted(find_wire("gemini").own_fields({"system_instruction": {"parts": [{"text": "Hi"}]}}))
        ['contents', 'systemInstruction', 'system_instruction']
        """
        system = {self.system_field({}), self.system_field(request)} - {"", *self.tool_fields}
        return frozenset((self.message_field, *system))

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request. The same prompt gives the same bytes, and a valid prompt gives a valid request.

        A prompt is valid if
        - tool calls are in assistant messages, tool results in tool messages, and a message with calls is directly
          followed by tool messages that answer each of them once;
        - its tools have different names of 1 to 64 ASCII letters, digits, `_` and `-`, and schemas that are JSON;
        - its texts contain no lone surrogates (no package does), and `max_output` is positive or None.

        Raise `InvalidValue` for a call or a result in a message of another role.
        """
        if self.write is None:
            raise InvalidValue("wire", f"requests are not written in the format {self.name}")
        return self.write(prompt, window)

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return the text that replaces media, or None if the media are sent."""
        return None if role == "user" and self.accepts_media(decode_data_url(media)) else placeholder(media)

    def parse(self, request: Request) -> Prompt:
        """Read a finished request back. What the provider will bill is counted from the result.

        Raise `InvalidRequest` if `check` finds anything.
        """
        violations = self.check(request)
        if violations or self.read is None:
            raise InvalidRequest(self.name, violations)
        return self.with_body(self.read(request), request)

    def check(self, request: Request) -> list[str]:
        """Return everything that the provider would refuse, each with its path. Never raises.

        `["messages[3]: tool result for 'c2' without its call"]`
        """
        return [] if self.find_violations is None else self.find_violations(request)

    def with_body(self, prompt: Prompt, request: Request) -> Prompt:
        """Return a prompt with the request that it was read from, if counting needs it."""
        return msgspec.structs.replace(prompt, body=request) if self.keeps_body else prompt
