"""A wire format that nobody speaks: what it takes to add one, in one file.

    {"model": "m", "tools": [{"name": "look_up", "about": "…", "takes": {}}], "lines": [{"by": "user", "says": "Hi"}]}

An answer is a line, too; a stream has one JSON object in each line.
"""

import msgspec
import pytest

from brimful.core.chat_rules import OPENING
from brimful.core.content import Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.records import Usage
from brimful.records.reply import ReplyChunk
from brimful.wires import Wire, register, unregister
from brimful.wires.event_stream import Lines
from brimful.wires.normalize import is_tool_name, normalize_messages, with_name_in_text
from brimful.wires.replies import Draft, as_object, as_objects, as_string, make_usage, split_words
from brimful.wires.rounds import BETWEEN, PieceAnswer, add_usage
from brimful.wires.rules import CallPairing, Report, check_tools
from brimful.wires.tools import arguments_object, object_schema
from brimful.wires.wire import ReasoningRule, WirePaths, read_call

ROLES = {"system": "system", "user": "user", "bot": "assistant", "tool": "tool"}
SPEAKERS = {role: speaker for speaker, role in ROLES.items()}


# -- requests that we write --------------------------------------------------------------------------------------------


def write_tool(tool):
    return {"name": tool.name, "about": tool.description, "takes": object_schema(tool.parameters)}


def write_lines(message):
    if message.role == "tool":
        return [{"by": "tool", "id": part.id, "says": part.content} for part in message.parts]
    says = "".join(part.text for part in message.parts if isinstance(part, Text))
    line = {"by": SPEAKERS[message.role], "says": says}
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    uses = [{"id": call.id, "name": call.name, "with": arguments_object(call.arguments)} for call in calls]
    return [line | {"uses": uses} if uses else line]


def write(prompt, window):
    messages = map(with_name_in_text, normalize_messages(prompt.messages, lambda _: False))
    lines = [line for message in messages for line in write_lines(message)]
    request = {"model": prompt.model, "lines": lines or [{"by": "user", "says": OPENING}], "window": window}
    tools = {"tools": [write_tool(tool) for tool in prompt.tools]} if prompt.tools else {}
    limit = {} if prompt.max_output is None else {"max_tokens": prompt.max_output}
    return request | tools | limit


def read(request):
    names = {call["id"]: call["name"] for line in request["lines"] for call in line.get("uses", ())}
    return Prompt(
        model=request["model"],
        messages=tuple(message for line in request["lines"] for message in read_line(line, names)),
        tools=tuple(read_tools(request)),
        max_output=request.get("max_tokens"),
    )


def find_violations(request):
    report = Report()
    body = report.require_object("request", request)
    if body is None:
        return report.violations
    report.require_nonblank("model", body.get("model"))
    if body.get("max_tokens") is not None:
        report.require_positive("max_tokens", body["max_tokens"])
    if "tools" in body:
        tools = list(report.require_objects("tools", body["tools"]))
        check_tools(report, iter(tools))
        for path, tool in tools:
            report.require_string(f"{path}.about", tool.get("about"))
            report.require_object(f"{path}.takes", tool.get("takes"))
    pairing = CallPairing(report)
    for path, line in report.require_objects("lines", body.get("lines")):
        if line.get("by") != "tool":
            pairing.close()
        check_line(report, pairing, path, line)
    pairing.close()
    return report.violations


def check_line(report, pairing, path, line):
    report.require_one_of(f"{path}.by", line.get("by"), tuple(ROLES))
    report.require_string(f"{path}.says", line.get("says"))
    if line.get("by") == "tool" and report.require_nonblank(f"{path}.id", line.get("id")):
        pairing.result(path, line["id"])
    for at, call in report.require_objects(f"{path}.uses", line["uses"]) if "uses" in line else ():
        report.require_object(f"{at}.with", call.get("with"))
        if not is_tool_name(call.get("name")):
            report.add(f"{at}.name", "must be the name of a tool")
        if report.require_nonblank(f"{at}.id", call.get("id")):
            pairing.call(at, call["id"])


# -- requests that clients write ---------------------------------------------------------------------------------------


def read_tools(offered):
    for tool in as_objects(offered.get("tools")):
        about, takes = as_string(tool.get("about")), as_object(tool.get("takes"))
        yield Tool(name=as_string(tool.get("name")) or "tool", description=about, parameters=takes)


def read_line(line, names):
    role, says = ROLES.get(line.get("by"), "user"), as_string(line.get("says"))
    if role == "tool":
        id = as_string(line.get("id"))
        return [Message(role="tool", parts=(ToolResult(id=id, content=says, name=names.get(id, "")),))]
    texts = (Text(text=says),) if says else ()
    return [Message(role=role, parts=(*texts, *read_calls(line)))]


def read_calls(line):
    for call in as_objects(line.get("uses")):
        arguments = msgspec.json.encode(as_object(call.get("with"))).decode()
        yield ToolCall(id=as_string(call.get("id")), name=as_string(call.get("name")), arguments=arguments)


# -- replies -----------------------------------------------------------------------------------------------------------


class ToyDraft(Draft):
    def add(self, data):
        line, cost = as_object(data.get("line")), as_object(data.get("cost"))
        self.has_started = True
        for call in read_calls(line):
            self.add_call(None, id=call.id, name=call.name, arguments=call.arguments)
        if cost:
            self.finish, self.usage = "stop", make_usage(prompt=cost["in"], completion=cost["out"])
        return ReplyChunk(text=self.add_text(as_string(line.get("says"))))


class ToyAnswer(PieceAnswer):
    splitter = Lines

    def __init__(self):
        self._seen = []
        super().__init__()

    def _line(self):
        lines = [as_object(piece.get("line")) for piece in self._pieces]
        uses = [call for line in lines for call in as_objects(line.get("uses"))]
        return {"by": "bot", "says": "".join(as_string(line.get("says")) for line in lines), "uses": uses}

    def step(self, results):
        return [self._line(), *({"by": "tool", "id": call.id, "says": results[call.id]} for call in self.calls)]

    def whole(self, body):
        own = self._without_recalls(body)
        says = BETWEEN.join([*self._seen, self._text(own)])
        return self._with_usage(own | {"line": own["line"] | {"says": says}})

    def _remember(self):
        super()._remember()
        self._seen.append(self._line()["says"])

    def _calls_in(self, piece):
        return as_objects(as_object(piece.get("line")).get("uses"))

    def _read_call(self, call, default_id):
        return next(read_calls({"uses": [{"id": default_id, **call}]}))

    def _is_end(self, data):
        return "cost" in data

    def _text(self, piece):
        return as_string(as_object(piece.get("line")).get("says"))

    def _without_recalls(self, piece):
        own = [call for call in self._calls_in(piece) if call["name"] not in self.answered]
        line = {key: own if key == "uses" else value for key, value in as_object(piece.get("line")).items()}
        return piece | {"line": {key: value for key, value in line.items() if key != "uses" or own}}

    def _after_a_gap(self, piece):
        return piece | {"line": piece["line"] | {"says": BETWEEN + self._text(piece)}}

    def _own_usage(self):
        return as_object(self._pieces[-1].get("cost")) if self._pieces else {}

    def _with_usage(self, piece):
        return piece | {"cost": add_usage(self._usage, piece["cost"])} if "cost" in piece else piece

    def _frame(self, piece):
        return msgspec.json.encode(piece) + b"\n"


def write_reply(reply):
    usage = reply.usage or Usage(prompt=10, completion=2)
    cost = {"cost": {"in": usage.prompt, "out": usage.completion}}
    calls = [{"id": call.id, "name": call.name, "with": arguments_object(call.arguments)} for call in reply.calls]
    pieces = [{"line": {"by": "bot", "says": word}} for word in split_words(reply.text)]
    pieces += [{"line": {"by": "bot", "says": "", "uses": [call]}} for call in calls]
    whole = {"by": "bot", "says": reply.text} | ({"uses": calls} if calls else {})
    lines = [msgspec.json.encode(piece) + b"\n" for piece in [*pieces, {"line": {"by": "bot", "says": ""}, **cost}]]
    return {"line": whole, **cost}, lines


TOY = Wire(
    name="toy",
    provider="toy",
    write=write,
    read=read,
    find_violations=find_violations,
    read_turn=lambda line, *, current: tuple(read_line(line, {})),  # noqa: ARG005
    message_field="lines",
    needs_role=False,
    is_message=lambda line: "says" in line,
    read_tools=read_tools,
    write_text=lambda role, text: {"by": SPEAKERS[role], "says": text},
    get_role=lambda line: ROLES.get(line.get("by"), "user"),
    reasoning=ReasoningRule(is_removable=False, why="there is none", source="https://example.com/toy"),
    write_tool=write_tool,
    make_draft=ToyDraft,
    is_json_lines=True,
    join_rounds=ToyAnswer,
    get_path=lambda request, stream: "/toy/talk",  # noqa: ARG005
    paths=WirePaths(root="/toy", completions=("/toy/talk",), is_whole=True, has_one_version=True, prefixes=("/toy/",)),
    read_call=read_call,
    write_reply=write_reply,
    error_frame=(b"\n", b"\n"),
)


@pytest.fixture(scope="module")
def toy():
    """Register the format for the tests of a module."""
    register(TOY)
    yield TOY
    unregister("toy")
