"""Gemini: what is written, and what is refused."""

import pytest

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.wires import find_wire

gemini = find_wire("gemini")


def rendered(*messages, model="gemini-3-pro", **fields):
    return gemini.render(Prompt(model=model, messages=messages, **fields), window=1_000_000)


def text_message(role, text, **fields):
    return Message(role=role, parts=(Text(text=text),), **fields)


UNIT = (
    Message(role="assistant", parts=(ToolCall(id="c1", name="look_up"), ToolCall(id="c2", name="2fa"))),
    Message(role="tool", parts=(ToolResult(id="c2", content="no", is_error=True), ToolResult(id="c1", content="tea"))),
)


def test_a_whole_request_key_by_key():
    request = rendered(
        text_message("system", "Be kind."),
        text_message("user", "Hi"),
        *UNIT,
        tools=(Tool(name="look_up"),),
        max_output=500,
    )
    assert list(request) == ["model", "generationConfig", "tools", "systemInstruction", "contents"]
    schema = {"properties": {}, "type": "object"}
    assert request["tools"] == [{"functionDeclarations": [{"name": "look_up", "parametersJsonSchema": schema}]}]
    assert request["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
    assert request["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"id": "c1", "name": "look_up", "args": {}},
                    "thoughtSignature": "skip_thought_signature_validator",
                },
                {"functionCall": {"id": "c2", "name": "_2fa", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "look_up", "response": {"output": "tea"}}},
                {"functionResponse": {"id": "c2", "name": "_2fa", "response": {"error": "no"}}},
            ],
        },
    ]


PICTURE = {"modality": "image", "url": "https://example.org/cat.png", "media_type": "image/png"}


@pytest.mark.parametrize(
    ("model", "detail", "level"),
    [
        ("gemini-3-pro", "low", "MEDIA_RESOLUTION_LOW"),
        ("gemini-flash-latest", "ultra", "MEDIA_RESOLUTION_ULTRA_HIGH"),
        ("gemini-3-pro", "auto", None),
        ("gemini-2.5-pro", "low", None),
    ],
)
def test_a_picture_has_a_resolution_of_its_own_where_the_model_takes_one(model, detail, level):
    picture = Media(**PICTURE, detail=detail)
    request = rendered(Message(role="user", parts=(picture, Text(text="Look"))), model=model)
    part, text = request["contents"][0]["parts"]
    assert part.get("mediaResolution") == (level and {"level": level})
    assert text == {"text": "Look"}
    assert gemini.parse(request).messages[0].parts[0].detail == (detail if level else "auto")


@pytest.mark.parametrize(("model", "signed"), [("gemini-2.5-pro", False), ("gemini-4", True), ("gemini-10-pro", True)])
def test_only_models_with_thought_signatures_get_one(model, signed):
    call = rendered(text_message("user", "Hi"), *UNIT, model=model)["contents"][1]["parts"][0]
    assert ("thoughtSignature" in call) is signed


def test_neighbouring_texts_of_a_turn_are_joined():
    contents = rendered(text_message("user", "Hi", name="Ada"), text_message("user", "Hello", name="Bob"))["contents"]
    assert contents == [{"role": "user", "parts": [{"text": "Ada: Hi\n\nBob: Hello"}]}]


def test_media_of_every_kind_are_carried():
    parts = (
        Media(modality="image", data="iVBORw0KGgo"),
        Media(modality="audio", url="https://a.example/a.wav"),
        Media(modality="video", url="gs://bucket/v.mp4"),
        Media(modality="image", url="ftp://a.example/cat.png"),
    )
    assert rendered(Message(role="user", parts=parts))["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo"}},
        {"fileData": {"mimeType": "audio/wav", "fileUri": "https://a.example/a.wav"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/v.mp4"}},
        {"text": "[image: ftp://a.example/cat.png]"},
    ]


def test_reading_takes_calls_without_ids_and_any_response():
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "f"}}, {"functionCall": {"name": "f", "args": {"a": 1}}}],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "response": {"degrees": 21}}},
                {"functionResponse": {"name": "f", "response": {"output": "x", "more": 1}}},
            ],
        },
    ]
    read = gemini.parse({"model": "gemini-2.5-pro", "contents": contents})
    assert [part.arguments for part in read.messages[1].parts] == ["{}", '{"a":1}']
    assert [part.content for part in read.messages[2].parts] == ['{"degrees":21}', '{"output":"x","more":1}']


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def call(**fields):
    return {"functionCall": {"name": "f", **fields}}


def answer(**fields):
    return {"functionResponse": {"name": "f", "response": {}, **fields}}


HI = user({"text": "Hi"})
ONE_OF = "must have exactly one of text, inlineData, fileData, functionCall, functionResponse"
NAME = "must be a letter or _ and up to 63 of a-z, A-Z, 0-9, _, ., : and -"
INVALID_CONTENTS = [
    ([], "contents: must not be empty"),
    (None, "contents: must be a list, but is missing"),
    ([model({"text": "Hi"}), HI], "contents[0]: the first turn must be the user's"),
    ([HI, HI], "contents[1]: two user turns in a row"),
    ([HI, model({"text": "Hi"})], "contents: the last turn must be the user's"),
    ([{"role": "assistant", "parts": []}, HI], "contents[0].role: must be one of user, model, not 'assistant'"),
    ([user()], "contents[0].parts: must not be empty"),
    ([{"role": "user", "parts": "Hi"}], "contents[0].parts: must be a list, not a string"),
    ([user({"text": ""})], "contents[0].parts[0].text: must not be empty"),
    ([user({})], f"contents[0].parts[0]: {ONE_OF}"),
    ([user({"text": "Hi", "fileData": {}})], f"contents[0].parts[0]: {ONE_OF}"),
    ([user(call())], "contents[0].parts[0]: functionCall is not allowed in a user turn"),
    ([user(answer())], "contents[0].parts[0].functionResponse: tool result for 'f' without its call"),
    ([HI, model(call(id="c1")), HI], "contents[1].parts[0].functionCall: tool call 'c1' without its result"),
    ([HI, model(call(), call()), user(answer())],
     "contents[1].parts[1].functionCall: tool call 'f' without its result"),
    ([HI, model(call(id="c1"), call(id="c1")), user(answer(id="c1"), answer(id="c1"))],
     "contents[1].parts[1].functionCall: tool call id 'c1' is used twice"),
    ([HI, model(call(name="2fa", id="c1", args=[])), user(answer(id="c1"))],
     f"contents[1].parts[0].functionCall.name: {NAME}, not '2fa'",
     "contents[1].parts[0].functionCall.args: must be an object, not a list"),
    ([HI, model(call()), user(answer(response="ok"))],
     "contents[2].parts[0].functionResponse.response: must be an object, not a string"),
    ([user({"inlineData": {"mimeType": "text/html", "data": ""}})],
     "contents[0].parts[0].inlineData.mimeType: must be a type of image, audio or video, not 'text/html'",
     "contents[0].parts[0].inlineData.data: must not be empty"),
    ([user({"fileData": {"mimeType": "image/png"}})],
     "contents[0].parts[0].fileData.fileUri: must be a string, but is missing"),
]  # fmt: skip


@pytest.mark.parametrize("case", INVALID_CONTENTS, ids=lambda case: case[1])
def test_invalid_contents_are_named(case):
    contents, *violations = case
    assert gemini.check({"model": "m", "contents": contents}) == violations


RESOLUTIONS = ", ".join(f"MEDIA_RESOLUTION_{level}" for level in ("LOW", "MEDIUM", "HIGH", "ULTRA_HIGH"))
INVALID_REQUESTS = [
    ({"model": None}, "model: must be a string, but is missing"),
    ({"generationConfig": {"maxOutputTokens": 0}},
     "generationConfig.maxOutputTokens: must be a positive integer"),
    ({"generationConfig": []}, "generationConfig: must be an object, not a list"),
    ({"systemInstruction": "Be kind."}, "systemInstruction: must be an object, not a string"),
    ({"systemInstruction": {"parts": [{"inlineData": {}}]}},
     "systemInstruction.parts[0]: inlineData is not allowed in a system turn"),
    ({"contents": [{"role": "user", "parts": [{"text": "Hi", "mediaResolution": {"level": "LOW"}}]}]},
     f"contents[0].parts[0].mediaResolution.level: must be one of {RESOLUTIONS}, not 'LOW'"),
    ({"tools": [{}]}, "tools[0].functionDeclarations: must be a list, but is missing"),
    ({"tools": [{"functionDeclarations": [{"name": "2fa"}]}]},
     "tools[0].functionDeclarations[0].name: must start with a letter or _, not '2fa'"),
    ({"tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": 1}]}]},
     "tools[0].functionDeclarations[0].parametersJsonSchema: must be an object, not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "violation"), INVALID_REQUESTS)
def test_invalid_requests_are_named(changed, violation):
    assert gemini.check({"model": "m", "contents": [HI], **changed}) == [violation]
