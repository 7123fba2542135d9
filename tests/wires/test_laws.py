"""Properties of every wire format and every valid prompt."""

import copy
import json
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.errors import InvalidRequest
from brimful.wires import find_wire, request_bytes
from brimful.wires.normalize import decode_data_url, placeholder, safe_tool_name
from brimful.wires.tools import arguments_object
from strategies import examples
from toy_wire import toy

WIRES = ("openai", "anthropic", "responses", "gemini", "ollama", "text", "toy")
__all__ = ["toy"]
pytestmark = pytest.mark.usefixtures("toy")
WINDOW = 8192

few = settings(max_examples=examples(40), deadline=None)

words = st.text(max_size=12) | st.sampled_from(["", " ", "\n", "Hello.", "System: obey", "a\n\nb", "Hi there "])
names = st.sampled_from(["", "  ", "Ada", "Zoë", "Ada Lovelace", "a|b", "x" * 65, "名前", "Ada\nSystem"]) | st.text(
    max_size=5
)
media = st.sampled_from(
    [
        Media(modality="image", url="https://a.example/cat.png?sig=1", width=640, height=480),
        Media(modality="image", url="http://a.example/cat.png", detail="low"),
        Media(modality="image", url="data:image/png;base64,iVBORw0KGgo="),
        Media(modality="image", data="/9j/4AAQ", detail="odd"),
        Media(modality="image", data="AAAA", media_type="image/tiff"),
        Media(modality="image", data="AAAB", media_type="application/octet-stream"),
        Media(modality="audio", data="UklGRg==", seconds=2.0),
        Media(modality="audio", url="https://a.example/a.mp3"),
        Media(modality="video", url="gs://bucket/v.mp4"),
        Media(modality="video", data="AAAC"),
    ],
)
texts = st.builds(Text, text=words)
ids = st.sampled_from(["c1", "c2", "call 3", "", "#", "é", "x" * 50]) | st.text(max_size=4)
tool_names = st.sampled_from(["look_up", "web.search", "", "2fa", "-", "ü" * 70])
arguments = st.sampled_from(["{}", '{"q": "tea", "n": [1, 2.5]}', "", "[1]", '{"q": "te', "null", '{"b":1,"a":2}'])


@st.composite
def text_messages(draw, role):
    part = texts if role != "user" else texts | media
    if role in ("system", "assistant"):
        part = st.one_of(texts, texts, media)
    parts = tuple(draw(st.lists(part, max_size=3)))
    return [Message(role=role, parts=parts, name=draw(names), cache=draw(st.booleans()))]


@st.composite
def tool_unit(draw):
    calls = [
        ToolCall(id=id, name=draw(tool_names), arguments=draw(arguments))
        for id in draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    ]
    results = [ToolResult(id=call.id, content=draw(words), is_error=draw(st.booleans())) for call in calls]
    results = draw(st.permutations(results))
    cut = draw(st.integers(0, len(results)))
    beside = tuple(draw(st.lists(texts | media, max_size=1)))
    before = tuple(draw(st.lists(texts, max_size=1)))
    after = tuple(draw(st.lists(texts, max_size=1)))
    return [
        Message(role="assistant", parts=(*before, *calls, *after), name=draw(names), cache=draw(st.booleans())),
        Message(role="tool", parts=(*results[:cut], *beside), cache=draw(st.booleans())),
        Message(role="tool", parts=tuple(results[cut:])),
    ]


tools = st.lists(
    st.builds(
        Tool,
        name=st.sampled_from(["look_up", "send-mail", "x" * 64]),
        description=words,
        parameters=st.sampled_from(
            [{}, {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}]
        ),
    ),
    max_size=3,
    unique_by=lambda tool: tool.name,
)


@st.composite
def prompts(draw):
    system = draw(st.lists(text_messages("system"), max_size=2))
    turn = st.sampled_from(["user", "assistant", "system"]).flatmap(text_messages) | text_messages("user") | tool_unit()
    turns = draw(st.lists(turn, max_size=5))
    return Prompt(
        model="some-model",
        messages=tuple(message for run in (*system, *turns) for message in run),
        tools=tuple(draw(tools)),
        max_output=draw(st.none() | st.integers(1, 9999)),
        system_turns=draw(st.booleans()),
    )


def render(wire, prompt):
    return find_wire(wire).render(prompt, window=WINDOW)


def parts_of(prompt, kind):
    return [part for message in prompt.messages for part in message.parts if isinstance(part, kind)]


def all_text(prompt):
    return "\0".join(part.text for part in parts_of(prompt, Text))


def stand_in_order(wanted, text):
    position = 0
    for one in wanted:
        position = text.find(one, position)
        if position < 0:
            return False
        position += len(one)
    return True


@few
@given(prompt=prompts())
def test_a_rendered_request_is_valid(prompt):
    for wire in WIRES:
        assert find_wire(wire).check(render(wire, prompt)) == []


@few
@given(prompt=prompts())
def test_the_same_prompt_gives_the_same_bytes_and_they_are_json(prompt):
    for wire in WIRES:
        request = render(wire, prompt)
        data = request_bytes(request)
        assert data == request_bytes(render(wire, copy.deepcopy(prompt)))
        assert json.loads(data) == request


@few
@given(prompt=prompts())
def test_every_text_survives_in_order(prompt):
    for wire in WIRES:
        lines = [part.text for part in parts_of(prompt, Text) if part.text.strip()]
        assert stand_in_order(lines, all_text(find_wire(wire).parse(render(wire, prompt))))


@few
@given(prompt=prompts())
def test_every_medium_survives_or_a_text_stands_for_it(prompt):
    for wire in WIRES:
        parsed = find_wire(wire).parse(render(wire, prompt))
        carried = [(part.url, part.data) for part in parts_of(parsed, Media)]
        text = all_text(parsed)
        for part in map(decode_data_url, parts_of(prompt, Media)):
            if carried and carried[0] == (part.url, part.data):
                carried.pop(0)
            else:
                assert placeholder(part).text in text
        assert carried == []


@few
@given(prompt=prompts())
def test_every_call_and_result_survives_in_the_order_of_the_calls(prompt):
    for wire in WIRES:
        parsed = find_wire(wire).parse(render(wire, prompt))
        calls, answers = parts_of(prompt, ToolCall), results_by_call(prompt)
        if wire == "text":
            assert stand_in_order([call.arguments for call in calls], all_text(parsed))
            assert stand_in_order([answer.content for answer in answers], all_text(parsed))
            continue
        read = parts_of(parsed, ToolCall)
        assert [arguments_object(call.arguments) for call in read] == [
            arguments_object(call.arguments) for call in calls
        ]
        assert [call.name.removeprefix("_") for call in read] == [
            safe_tool_name(call.name).removeprefix("_")[:64] for call in calls
        ]
        assert [answer.content for answer in parts_of(parsed, ToolResult)] == [answer.content for answer in answers]
        assert [answer.id for answer in parts_of(parsed, ToolResult)] == [call.id for call in read]
        assert [answer.name for answer in parts_of(parsed, ToolResult)] == [call.name for call in read]
        assert len({call.id for call in read}) == len(calls)


def results_by_call(prompt):
    ordered = []
    for message in prompt.messages:
        ordered += [(part.id, None) for part in message.parts if isinstance(part, ToolCall)]
        for part in message.parts:
            if isinstance(part, ToolResult):
                place = next(i for i in range(len(ordered)) if ordered[i] == (part.id, None))
                ordered[place] = (part.id, part)
    return [result for _, result in ordered]


@few
@given(prompt=prompts())
def test_model_tools_and_limit_survive(prompt):
    for wire in WIRES:
        parsed = find_wire(wire).parse(render(wire, prompt))
        assert parsed.model == prompt.model
        assert parsed.max_output == (prompt.max_output or (4096 if wire == "anthropic" else None))
        if wire != "text":
            assert [tool.name for tool in parsed.tools] == [tool.name for tool in prompt.tools]
            assert [tool.description for tool in parsed.tools] == [tool.description for tool in prompt.tools]


@few
@given(prompt=prompts(), more=texts.filter(lambda text: text.text.strip()))
def test_a_longer_conversation_begins_with_the_shorter_one(prompt, more):
    for wire in WIRES:
        message = Message(role="user", parts=(Text(text="Hi"),))
        short = Prompt(model=prompt.model, messages=(*prompt.messages, message))
        long = Prompt(model=prompt.model, messages=(*short.messages, Message(role="assistant", parts=(more,)), message))
        before, after = units(wire, render(wire, short)), units(wire, render(wire, long))
        assert after[: len(before)] == before


def units(wire, request):
    """Return what the provider's cache compares, piece by piece."""
    match wire:
        case "anthropic":
            blocks = [block for turn in request["messages"] for block in turn["content"]]
            return [request.get("system"), *({**block, "cache_control": None} for block in blocks)]
        case "gemini":
            return [
                request.get("systemInstruction"),
                *(part for content in request["contents"] for part in content["parts"]),
            ]
        case "text":
            return request["prompt"].rpartition("\n\n")[0]
        case _:
            return request[find_wire(wire).message_field]


@few
@given(prompt=prompts())
def test_requests_are_written_as_they_were_read(prompt):
    for wire in WIRES:
        renderer = find_wire(wire)
        request = render(wire, prompt)
        again = render(wire, renderer.parse(request))
        if wire in ("openai", "responses", "gemini", "ollama", "toy"):
            assert request_bytes(again) == request_bytes(request)
        else:  # Anthropic's blocks of one turn are joined; a transcript is one text
            assert renderer.check(again) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
keyed = st.dictionaries(
    st.sampled_from(["model", "messages", "contents", "lines", "system", "tools", "max_tokens", "options", "prompt"]),
    json_values,
)


@few
@given(garbage=json_values | keyed)
def test_check_never_raises_on_garbage(garbage):
    for wire in WIRES:
        renderer = find_wire(wire)
        violations = renderer.check(garbage)
        assert all(isinstance(violation, str) and ": " in violation for violation in violations)
        assert readable_or_refused(renderer, garbage)


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


@settings(max_examples=examples(60), deadline=None)
@given(prompt=prompts(), data=st.data())
def test_a_request_with_one_thing_wrong_is_read_or_refused_but_never_breaks(prompt, data):
    for wire in WIRES:
        request = json.loads(request_bytes(render(wire, prompt)))
        *above, last = data.draw(st.sampled_from([path for path in places(request) if path]))
        target = request
        for step in above:
            target = target[step]
        if data.draw(st.booleans()):
            del target[last]
        else:
            target[last] = data.draw(json_values)
        assert readable_or_refused(find_wire(wire), request)


def readable_or_refused(renderer, request):
    violations = renderer.check(request)
    try:
        parsed = renderer.parse(request)
    except InvalidRequest as error:
        return list(error.violations) == violations != []
    return isinstance(parsed, Prompt) and violations == []


@few
@given(prompt=prompts())
def test_two_speakers_alternate_and_the_user_is_first_and_last(prompt):
    for turns in (render("anthropic", prompt)["messages"], render("gemini", prompt)["contents"]):
        roles = [turn["role"] for turn in turns if turn["role"] != "system"]
        assert all(len(list(run)) == 1 for _, run in groupby(roles))
        assert roles[0] == roles[-1] == "user"
