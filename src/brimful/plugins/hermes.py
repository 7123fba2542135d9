"""Hermes Agent: trim each request to the model's window, and let the model recall what was shortened or left out.

Hermes finds `register` by the entry point group `hermes_agent.plugins`. Two parts work together:

    middleware   fits every request before it is sent; Hermes' own history stays whole
    engine       knows the window of each conversation, answers recalls, and shortens the history if a request was
                 refused or the user asks for it

Hermes copies the engine for each agent. Copies share what the plugin knows, by the id of the conversation.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakValueDictionary

import brimful
from brimful.errors import BrimfulError

if TYPE_CHECKING:
    from brimful.assembly.conversations import Conversations
    from brimful.core.context import Context

NAME: Final = "brimful"
"""The name of the plugin and of its engine in Hermes' configuration."""
OPTIONS: Final = ("max_prompt_tokens", "policy")
"""What `plugins.entries.brimful` may set: options of `brimful.fit`."""

_WIRES: Final = {"chat_completions": "openai", "anthropic_messages": "anthropic", "codex_responses": "responses"}
_NOT_SENT: Final = ("timeout", "extra_headers", "extra_query")  # arguments of a call that are not in its body
_HISTORY_SHARE: Final = 4  # a shortened history has this part of the window: instructions and tools need some, too
_UNLIMITED: Final = 2**31  # tokens
_SYSTEM: Final = {"role": "system", "content": "Instructions"}
_STALE: Final = ("_db_persisted", "api_content")  # what Hermes notes about a message as it was stored and sent
_logger = logging.getLogger(__name__)

Message = dict[str, Any]


def register(ctx: Any) -> None:
    """Register the engine and the middleware. Hermes calls this when it starts."""
    from agent.context_engine import ContextEngine  # noqa: PLC0415 - only Hermes has it
    from hermes_cli.config import load_config  # noqa: PLC0415 - likewise

    plugin = Plugin(read_options(load_config()))
    ctx.register_context_engine(type("BrimfulEngine", (Engine, ContextEngine), {})(plugin))
    ctx.register_middleware("llm_request", plugin.trim)


def read_options(config: object) -> dict[str, Any]:
    """Return the options of `brimful.fit` in Hermes' configuration.

    >>> read_options({"plugins": {"enabled": ["brimful"], "entries": {"brimful": {"max_prompt_tokens": 24_000}}}})
    {'max_prompt_tokens': 24000}
    """
    entry: Any = config
    for key in ("plugins", "entries", NAME):
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    options = {key: entry[key] for key in OPTIONS if key in entry} if isinstance(entry, Mapping) else {}
    if len(options) < len(entry or ()):
        _logger.warning("plugins.entries.%s: of %s, only %s are options", NAME, entry, " and ".join(OPTIONS))
    if options:
        from brimful.assembly.arguments import resolve_policy  # noqa: PLC0415 - imports much

        resolve_policy(options.get("policy") or "agent", None, options.get("max_prompt_tokens"))
    return options


class Conversation:
    """What the middleware and the engines of one conversation share.

    `context` is the last request, and `earlier` are the histories that were shortened for good. `is_answered` says
    whether the last request had an answer.
    """

    def __init__(self) -> None:
        self.window = 0
        self.context: Context | None = None
        self.earlier: tuple[Context, ...] = ()
        self.is_answered = True


class Plugin:
    """What all conversations of the process share. A conversation is known for as long as an engine has it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._conversations = WeakValueDictionary[str, Conversation]()

    @cached_property
    def _requests(self) -> "Conversations":
        return brimful.Conversations()  # not before it is needed: it imports much

    def find(self, id: str) -> Conversation:
        """Return the conversation with this id, a new one if no engine has it."""
        return self._conversations.setdefault(id, Conversation())

    def trim(
        self, *, request: dict[str, Any], session_id: str = "", api_mode: str = "", **_: object
    ) -> dict[str, Any] | None:
        """Return a request that fits, as Hermes expects it of middleware; None if the request stays as it is."""
        conversation, wire = self._conversations.get(session_id), _WIRES.get(api_mode)
        if conversation is None or wire is None:
            return None
        conversation.is_answered = False
        body, aside = dict(request), {key: request[key] for key in _NOT_SENT if key in request}
        for key in aside:
            del body[key]
        try:
            context = self._requests.fit(
                session_id, _with_own_messages(body), wire=wire, window=conversation.window or None, **self._options
            )
        except Exception as error:  # noqa: BLE001 - the agent goes on whatever happens here
            _warn("The request is sent as it was", error)
            return None
        conversation.context = context
        return None if context.request == body else {"request": {**context.request, **aside}}

    def shorten(self, messages: Sequence[Message], model: str, window: int) -> "Context":
        """Return a history of at most a part of the window, and of half of what it had."""
        # Handles are the numbers of messages in a request, whose first one has the instructions.
        request = {"model": model, "messages": [_SYSTEM, *messages]}
        tokens = brimful.fit(request, window=_UNLIMITED).tokens
        limit = min(tokens // 2, (window or tokens) // _HISTORY_SHARE)
        options = {**self._options, "max_prompt_tokens": min(limit, self._options.get("max_prompt_tokens") or limit)}
        return brimful.fit(request, window=window or None, **options)


class Engine:
    """The methods of Hermes' `ContextEngine`, which is a base class only where Hermes is installed."""

    name = NAME
    threshold_percent = 1.0  # of the window: the history may be larger, because requests are trimmed
    threshold_tokens: int
    context_length: int
    compression_count: int
    last_prompt_tokens: int
    last_completion_tokens: int
    last_total_tokens: int

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._conversation = Conversation()
        self._model = self._api_mode = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an engine for another agent. Numbers are its own; the plugin is shared."""
        return copy(self)

    # -- conversations -------------------------------------------------------------------------------------------------

    def update_model(self, model: str, context_length: int, api_mode: str = "", **_: object) -> None:
        """Use another model, or another window for it: Hermes lowers that if a provider says so."""
        self._model, self._api_mode = model, api_mode
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)
        self._conversation.window = context_length

    def on_session_start(self, session_id: str, boundary_reason: str = "", **_: object) -> None:
        """Begin a conversation, or go on with one under a new id after its history was shortened."""
        before = self._conversation
        self.bind_session_state(session_id=session_id)
        if boundary_reason == "compression":
            self._conversation.earlier = before.earlier

    def bind_session_state(self, session_db: object = None, session_id: str = "") -> None:  # noqa: ARG002 - theirs
        """Switch to a conversation. Hermes calls this wherever it changes the id."""
        self._conversation = self._plugin.find(session_id)
        self._conversation.window = self.context_length

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Record the usage that a provider reports with its answer."""
        self.last_prompt_tokens = usage.get("prompt_tokens") or 0
        self.last_completion_tokens = usage.get("completion_tokens") or 0
        self.last_total_tokens = usage.get("total_tokens") or 0
        self._conversation.is_answered = True

    # -- the history ---------------------------------------------------------------------------------------------------

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the history must be shortened: never where the middleware trims the requests."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return self._api_mode not in _WIRES and tokens >= self.threshold_tokens > 0

    def compress(self, messages: list[Message], *, force: bool = False) -> list[Message]:
        """Return a shorter history if the last request was refused or the user asks for it, else the same messages."""
        conversation = self._conversation
        if conversation.is_answered and self._api_mode in _WIRES and not force:
            return messages
        try:
            context = self._plugin.shorten(messages, self._model, self.context_length)
        except Exception as error:  # noqa: BLE001 - the agent goes on whatever happens here
            _warn("The history stays as it is", error)
            return messages
        if not context.is_reduced:
            return messages
        conversation.earlier = (*conversation.earlier, context)
        self.compression_count += 1
        return [_to_history(message) for message in context.request["messages"][1:]]

    # -- recall --------------------------------------------------------------------------------------------------------

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the tool with which the model recalls what its requests shortened or left out."""
        from brimful.core.recall import RECALL  # noqa: PLC0415 - imports much

        return [{"name": RECALL.name, "description": RECALL.description, "parameters": dict(RECALL.parameters)}]

    def handle_tool_call(self, _name: str, args: Any, **_: object) -> str:
        """Answer a call of the tool, as JSON."""
        context = self._conversation.context
        if context is None:
            return json.dumps({"error": "Nothing of this conversation was left out."})
        recall = brimful.recall_tool(context, earlier=self._conversation.earlier)
        return json.dumps({"result": recall(args)}, ensure_ascii=False)


# -- our own messages in Hermes' history -------------------------------------------------------------------------------


def _to_history(message: Message) -> Message:
    """Return a message of a shortened history.

    Hermes joins user messages that follow each other, unless one has a list of parts. A ledger must stay on its own.
    """
    kept = {key: value for key, value in message.items() if key not in _STALE}
    return {**kept, "content": [{"type": "text", "text": kept["content"]}]} if _is_own(kept) else kept


def _with_own_messages(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request in which each ledger is a message of its own: for Anthropic, Hermes joins it with others."""
    messages = request.get("messages")
    if not isinstance(messages, list):
        return request
    return {**request, "messages": [part for message in messages for part in _split(message)]}


def _split(message: Any) -> list[Any]:
    parts = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
    groups = [list(group) for _, group in groupby(parts, _is_own_part)] if isinstance(parts, list) else []
    return [{**message, "content": group} for group in groups] if len(groups) > 1 else [message]


def _is_own(message: Message) -> bool:
    return message.get("role") == "user" and _is_own_text(message.get("content"))


def _is_own_part(part: object) -> bool:
    return isinstance(part, dict) and _is_own_text(part.get("text"))


def _is_own_text(text: object) -> bool:
    from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN  # noqa: PLC0415 - imports much

    return isinstance(text, str) and text.startswith(HISTORY_OPEN) and text.endswith(HISTORY_CLOSE)


def _warn(result: str, error: Exception) -> None:
    """Log an error of ours, with its trace unless it says itself what to do."""
    _logger.warning("%s: %s", result, error, exc_info=not isinstance(error, BrimfulError))
