"""The MCP server: tools, resources and prompts over an engine, for every transport of the SDK."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_types import Tool as ToolDefinition

import brimful
from brimful.errors import BrimfulError, UnknownRecord
from brimful.mcp.handshake import INSTRUCTIONS, NAME, TITLE
from brimful.mcp.tools import (
    DEFAULT_MODEL,
    PIN,
    SCHEME,
    AskUser,
    Explain,
    Memories,
    Recall,
    Tool,
    Toolbox,
    read_arguments,
    select_tools,
)

if TYPE_CHECKING:
    from brimful.engine import Engine

RESOURCE_BUDGET: Final = 10_000  # tokens of a resource; clients put it into a prompt as a whole
_PROMPT_BUDGET: Final = 2_000  # tokens
_PINNED: Final = f"{SCHEME}memories/pinned"
_TEMPLATES: Final = {
    "contexts/{id}": ("context", "What a model saw in a context, and what was left out."),
    "contexts/{id}/{item}": ("decision", "What happened to one message or memory in a context, and why."),
    "memories/{id}": ("memory", "A memory."),
    "messages/{id}": ("message", "A message."),
}
_PROMPTS: Final = {
    "recall": Prompt(
        name="recall",
        title="Recall",
        description="Bring what was said and remembered about a topic into the conversation.",
        arguments=[PromptArgument(name="topic", description="What to look for.", required=True)],
    ),
    "about-me": Prompt(
        name="about-me",
        title="What do you know about me?",
        description="Bring the newest memories about a user into the conversation.",
        arguments=[PromptArgument(name="user", description="The id of the user.", required=False)],
    ),
}

_log = logging.getLogger("brimful.mcp")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a request is served: how to get the tenant's engine, and what the client may do.

    With a `user`, it may see and change only what belongs to that user.
    """

    engine: "Callable[[], Awaitable[Engine]]"
    can_write: bool = False
    write_hint: str = "this server is read-only: start it with --write"
    user: str | None = None
    persona: str | None = None
    model: str = DEFAULT_MODEL
    describe_error: Callable[[BrimfulError], str] = str


FindSession = Callable[[Any], Session]
"""Returns the session of a request: the HTTP request, or None for standard input."""


class LazyEngine:
    """An engine that is imported and opened when it is first needed, so that the server starts quickly."""

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url
        self._options = options
        self._engine: Engine | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> "Engine":
        """Return the open engine. If it cannot be opened, the next call tries again."""
        async with self._opening:
            if self._engine is None:
                module = await asyncio.to_thread(import_module, "brimful.engine")
                self._engine = await module.Engine(self._url, **self._options).open()
            return self._engine

    async def close(self) -> None:
        """Close the engine if it was opened."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()


def create_server(
    find_session: FindSession,
    *,
    tools: Mapping[str, Tool] | None = None,
    on_close: Callable[[], Awaitable[None]] | None = None,
) -> Server[None]:
    """Return a server that offers these tools; `on_close` is called when it ends."""
    offered = select_tools(None) if tools is None else tools

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if on_close is not None:
                await on_close()

    handlers = _Handlers(find_session, offered)
    return Server(
        NAME,
        title=TITLE,
        version=brimful.__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


class _Handlers:
    """One method for each method of the protocol."""

    def __init__(self, find_session: FindSession, tools: Mapping[str, Tool]) -> None:
        self._find_session = find_session
        self._tools = tools

    async def _open(self, session: Session, ask_user: AskUser | None = None) -> Toolbox:
        """Return the tools of a session, with an open engine."""
        return Toolbox(
            await session.engine(),
            user=session.user,
            persona=session.persona,
            model=session.model,
            can_pin=PIN in self._tools,
            ask_user=ask_user,
        )

    # -- tools -------------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Any, _: object) -> ListToolsResult:
        can_write = self._find_session(ctx.request).can_write
        return ListToolsResult(tools=[define(tool) for tool in self._tools.values() if can_write or not tool.writes])

    async def call_tool(self, ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name[:200]}")
        session = self._find_session(ctx.request)
        if tool.writes and not session.can_write:
            return _tool_result(session.write_hint, is_error=True)
        try:
            toolbox = await self._open(session, partial(_ask_user, ctx))
            return _tool_result(await tool.run(toolbox, read_arguments(tool, params.arguments)))
        except BrimfulError as error:
            return _tool_result(session.describe_error(error), is_error=True)
        except Exception:  # noqa: BLE001 - the edge of the process: details are for the log, not for a model
            _log.exception("the tool %s failed", tool.name)
            return _tool_result("internal error; see the log of the server", is_error=True)

    # -- resources ---------------------------------------------------------------------------------------------------

    async def list_resources(self, ctx: Any, _: object) -> ListResourcesResult:
        session = self._find_session(ctx.request)
        async with _protocol_errors(session):
            builds = await (await self._open(session)).list_contexts()
        pinned = Resource(
            uri=_PINNED, name="pinned-memories", title="Pinned memories", description="Memories in every context."
        )
        contexts = [
            Resource(
                uri=f"{SCHEME}contexts/{quote(build.id, safe='')}",
                name=build.id,
                description=f"Context for room {build.room}, {build.model}: {build.tokens:,} tokens.",
            )
            for build in builds
        ]
        return ListResourcesResult(resources=[pinned, *contexts])

    async def list_templates(self, ctx: Any, _: object) -> ListResourceTemplatesResult:
        del ctx
        templates = [
            ResourceTemplate(uri_template=SCHEME + path, name=name, description=description, mime_type="text/plain")
            for path, (name, description) in _TEMPLATES.items()
        ]
        return ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, ctx: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri, session = str(params.uri), self._find_session(ctx.request)
        async with _protocol_errors(session, uri=uri):
            text = await _read(await self._open(session), uri)
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="text/plain", text=text)])

    # -- prompts -----------------------------------------------------------------------------------------------------

    async def list_prompts(self, ctx: Any, _: object) -> ListPromptsResult:
        del ctx
        return ListPromptsResult(prompts=list(_PROMPTS.values()))

    async def get_prompt(self, ctx: Any, params: GetPromptRequestParams) -> GetPromptResult:
        prompt, arguments = _PROMPTS.get(params.name), params.arguments or {}
        if prompt is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {params.name[:200]}")
        session = self._find_session(ctx.request)
        async with _protocol_errors(session):
            toolbox = await self._open(session)
            if prompt.name == "recall":
                topic = arguments.get("topic", "")
                text = await toolbox.recall(Recall(query=topic, budget=_PROMPT_BUDGET))
                heading = f"What was said and remembered about {topic!r}:"
            else:
                text = await toolbox.memories(Memories(user=arguments.get("user", ""), budget=_PROMPT_BUDGET))
                heading = "What you know about me:"
        message = PromptMessage(role="user", content=TextContent(text=f"{heading}\n\n{text}"))
        return GetPromptResult(description=prompt.description, messages=[message])


def define(tool: Tool) -> ToolDefinition:
    """Return the definition of a tool that clients get."""
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=ToolAnnotations(destructive_hint=tool.destructive)
        if tool.writes
        else ToolAnnotations(read_only_hint=True),
    )


async def _ask_user(ctx: Any, question: str) -> str:
    """Let the client ask its user. Returns an empty string if it cannot."""
    if not ctx.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability())):
        return ""
    try:
        answer = await ctx.session.elicit_form(question, {"type": "object", "properties": {}}, ctx.request_id)
    except MCPError:
        return ""
    return str(answer.action)


def _tool_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


async def _read(toolbox: Toolbox, uri: str) -> str:
    match [unquote(part) for part in uri.removeprefix(SCHEME).split("/")] if uri.startswith(SCHEME) else []:
        case ["memories", "pinned"]:
            return await toolbox.memories(Memories(pinned=True, budget=RESOURCE_BUDGET))
        case ["contexts", str(id)] if id:
            return await toolbox.explain(Explain(context=id, budget=RESOURCE_BUDGET))
        case ["contexts", str(id), str(item)] if id and item:
            return await toolbox.explain(Explain(context=id, item=item, budget=RESOURCE_BUDGET))
        case ["memories" | "messages", str(id)] if id:
            return await toolbox.show_record(id, RESOURCE_BUDGET)
        case _:
            raise UnknownRecord("resource", uri[:200])


@asynccontextmanager
async def _protocol_errors(session: Session, **data: str) -> AsyncGenerator[None, None]:
    """Turn our errors into errors of the protocol."""
    try:
        yield
    except BrimfulError as error:
        code = INVALID_PARAMS if isinstance(error, ValueError | LookupError) else INTERNAL_ERROR
        raise MCPError(code=code, message=session.describe_error(error), data=data or None) from None
