"""Requests in Gemini's format: what stays is unchanged, calls keep their responses, and turns keep their order."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import brimful
from brimful.assembly.compact import compact_now
from brimful.assembly.fit import fit
from brimful.core.context import Context
from brimful.errors import BudgetExceeded, InvalidRequest, InvalidValue
from brimful.testing import find_violations
from strategies import examples

NOW = 1_700_000_000
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LONG = " ".join(f"Line {at} says what was found there." for at in range(400))
ROWS = [{"id": f"row-{at}", "name": f"Name number {at}", "price": at} for at in range(300)]
SIGNATURE = "c2lnbmF0dXJl" * 12
IMAGE = {"inlineData": {"mimeType": "image/png", "data": PNG}}
TOOLS = [{"functionDeclarations": [{"name": "look_up", "description": "Look up.", "parameters": {"type": "OBJECT"}}]}]


def user(*parts):
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts):
    return {"role": "model", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def call(name="look_up", *, signed=True, **more):
    arguments = {"functionCall": {"name": name, "args": {"q": "tea"}, **more}}
    return {**arguments, "thoughtSignature": SIGNATURE} if signed else arguments


def response(name="look_up", value=None, **more):
    return {"functionResponse": {"name": name, "response": value or {"output": "Green."}, **more}}


def body(*contents, **more):
    return {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": list(contents),
        "generationConfig": {"maxOutputTokens": 64},
        **more,
    }


def fitted(request, tokens=None, *, name="gemini-3-pro-preview", **options):
    context = fit(request, wire="gemini", model=name, max_prompt_tokens=tokens, now=NOW, **options)
    assert find_violations(context.request, "gemini") == []
    assert brimful.replay(Context.from_json(context.to_json())).request == context.request
    return context


def chat(turns):
    return [each for at in range(turns) for each in (user(f"Question {at}. " + "word " * 40), model("word " * 40))]


ODD = body(
    user("Look:", IMAGE, {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://bucket/a.pdf"}}),
    model({"text": "I think.", "thought": True}, {"text": "A cat.", "thoughtSignature": SIGNATURE}),
    user("Run it."),
    model(
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        "One.",
    ),
    user("And look it up twice."),
    model(call(), call(signed=False)),
    user(response(), response(value={"rows": ROWS[:2]}), "Go on."),
    tools=[*TOOLS, {"googleSearch": {}}],
    toolConfig={"functionCallingConfig": {"mode": "AUTO"}},
    safetySettings=[],
)


def snake(value):
    """The same data with keys in snake_case, as Google's SDK writes them."""
    if isinstance(value, dict):
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake(each) for key, each in value.items()}
    return [snake(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("request_", [ODD, snake(ODD)], ids=["camelCase", "snake_case"])
def test_a_request_that_fits_is_passed_on_as_it_is(request_):
    context = fitted(request_)
    assert json.dumps(context.request) == json.dumps(request_)
    assert context.positions == tuple(range(7))


def test_both_spellings_cost_the_same():
    request = {**ODD, "tools": TOOLS}
    assert fitted(request).tokens == fitted(snake(request)).tokens


def test_everything_in_a_request_is_counted():
    whole = fitted(ODD).tokens
    for field in ("systemInstruction", "tools"):
        assert fitted({key: value for key, value in ODD.items() if key != field}).tokens < whole
    for at, content in enumerate(ODD["contents"]):
        for part in range(len(content["parts"])):
            parts = [each for number, each in enumerate(content["parts"]) if number != part]
            contents = [{**each, "parts": parts} if each is content else each for each in ODD["contents"]]
            context = fit({**ODD, "contents": contents}, wire="gemini", model="gemini-3-pro-preview", now=NOW)
            assert context.tokens < whole, (at, part)


def test_the_oldest_turns_go_first_and_the_rest_is_unchanged():
    contents = [*chat(20), user("And now?")]
    context = fitted(body(*contents), 800)
    assert context.request["contents"][-len(context.positions) :] == [contents[at] for at in context.positions]
    assert context.positions[-1] == 40
    assert 0 not in context.positions
    assert context.request["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_a_conversation_still_begins_with_the_user():
    contents = [*chat(20), user("And now?")]
    for tokens in range(300, 700, 40):
        first = fitted(body(*contents), tokens).request["contents"][0]
        assert first in contents or first == user("(conversation continues)")


def test_calls_stay_with_their_responses_by_id():
    contents = [user("Go.")]
    for at in range(12):
        ids = [f"c{at}-{number}" for number in range(3)]
        contents.append(model(*(call(id=id, signed=not number) for number, id in enumerate(ids))))
        contents.append(user(*(response(id=id, value={"output": "word " * 20}) for id in reversed(ids))))
    context = fitted(body(*contents, model("Done."), user("And now?")), 600)
    assert 0 < len(context.positions) < len(contents)


@pytest.mark.parametrize("ids", [(True, False), (False, True), (False, False)], ids=["calls", "responses", "none"])
def test_calls_without_ids_are_paired_by_name_and_order(ids):
    contents = [user("Go.")]
    for at in range(12):
        called = {"id": f"c{at}"} if ids[0] else {}
        answered = {"id": f"r{at}"} if ids[1] else {}
        contents += [
            model(call(**called), call("other", signed=False), call(signed=False)),
            user(response(**answered), response(), response("other", {"rows": ROWS[:3]})),
        ]
    for tokens in range(300, 2_000, 100):
        fitted(body(*contents, model("Done."), user("And now?")), tokens)


@pytest.mark.parametrize(
    "value",
    [{"output": LONG}, {"result": LONG}, {"error": LONG}, {"rows": ROWS}, {"text": LONG, "ok": True}, {"any": LONG}],
)
def test_a_large_last_response_is_shortened_and_stays_an_object(value):
    contents = [user("What is there?"), model(call()), user(response(value=value))]
    context = fitted(body(*contents), 700)
    answer = context.request["contents"][2]["parts"][0]["functionResponse"]
    assert context.shortened == (2,)
    assert isinstance(answer["response"], dict)
    assert "Line" in json.dumps(answer) or "row-" in json.dumps(answer)
    assert context.request["contents"][:2] == contents[:2]


def test_each_of_parallel_responses_is_shortened():
    calls = [call(signed=not at) for at in range(12)]
    contents = [user("Go."), model(*calls), user(*(response(value={"output": f"{at}. {LONG}"}) for at in range(12)))]
    parts = fitted(body(*contents), 1_600).request["contents"][2]["parts"]
    assert all(f"{at}. Line" in json.dumps(part) for at, part in enumerate(parts))


def test_signed_texts_and_thoughts_are_never_shortened():
    contents = [user("Go."), model({"text": LONG, "thoughtSignature": SIGNATURE}), user("And now?")]
    assert fitted(body(*contents), 500).positions == (2,)
    contents = [user("Go."), model({"text": LONG, "thought": True}, call()), user(response())]
    with pytest.raises(BudgetExceeded):
        fitted(body(*contents), 500)


def test_images_are_left_out_before_messages():
    contents = [user("Look:", IMAGE), model("A cat."), user("And what is the weather?")]
    for request in (body(*contents), snake(body(*contents))):
        context = fitted(request, 120)
        assert context.shortened == (0,)
        line = context.request["contents"][0]["parts"][1]
        assert list(line) == ["text"]
        assert "image" in line["text"]


def test_images_in_a_response_leave_no_text_there():
    parts = [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    contents = [user("Draw."), model(call()), user(response(parts=parts)), model("Done."), user("And the weather?")]
    context = fitted(body(*contents), 150)
    assert context.request["contents"][2]["parts"][0]["functionResponse"]["parts"] == []
    written = fitted(snake(body(*contents)), 150).request["contents"][2]["parts"][0]
    assert written["function_response"]["parts"] == []


def test_the_output_limit_is_the_reserve():
    for config in ({"maxOutputTokens": 300}, {"max_output_tokens": 300}):
        assert fitted({**body(user("Hi")), "generationConfig": config}).budget.completion == 300
    without = {"contents": [user("Hi")]}
    assert fitted(without, completion=50).request["generationConfig"] == {"maxOutputTokens": 50}
    assert fitted(body(user("Hi")), completion=50).request["generationConfig"] == {"maxOutputTokens": 64}


def test_the_arguments_of_googles_sdk_are_accepted():
    config = {"system_instruction": "Be brief.", "tools": snake(TOOLS), "max_output_tokens": 70}
    request = {"model": "gemini-3-pro-preview", "contents": [*snake(chat(20)), user("And now?")], "config": config}
    context = fit(request, wire="gemini", now=NOW, max_prompt_tokens=500)
    assert context.request["config"] == config
    assert context.budget.completion == 70
    assert context.tokens > fit({**request, "config": {}}, wire="gemini", now=NOW, max_prompt_tokens=480).tokens - 400
    assert context.decision("system").outcome == "kept"
    assert fit({**request, "config": {}}, wire="gemini", now=NOW, completion=9).request["config"] == {
        "max_output_tokens": 9
    }


def test_the_model_may_have_its_prefix():
    request = body(user("Hi"), model="models/gemini-3-pro-preview")
    assert fit(request, wire="gemini", now=NOW).inputs.model.id == "gemini-3-pro-preview"


def test_cached_content_is_not_counted_and_noticed():
    for request in (
        body(user("Hi"), cachedContent="cachedContents/1"),
        body(user("Hi"), config={"cached_content": "c"}),
    ):
        assert [notice.kind for notice in fitted(request).warnings] == ["unknown-size"]
    assert fitted(body(user("Hi"))).warnings == ()


@pytest.mark.parametrize(
    "contents", ["Hi", [], [1], None, {"parts": []}], ids=["text", "empty", "number", "none", "object"]
)
def test_contents_must_be_a_list(contents):
    with pytest.raises(InvalidRequest, match="contents"):
        fit({"contents": contents}, wire="gemini", model="gemini-3-pro-preview")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"parts": None},
        {"parts": "Hi"},
        {"parts": {"text": "Hi"}},
        {"role": 3, "parts": [None, 1, "Hi", {}, {"text": 1}, {"functionCall": {}}, {"functionResponse": {"name": 1}}]},
        {"role": "user", "parts": [{"functionCall": {"name": "f", "args": [1]}}, {"inlineData": {"data": 1}}]},
        {"role": "model", "parts": [{"functionResponse": {"name": "f"}}, {"fileData": {"fileUri": ""}}]},
        {"role": "function", "parts": [response()]},
    ],
)
def test_odd_contents_are_passed_on(content):
    request = {"contents": [content, user("Hi")]}
    context = fit(request, wire="gemini", model="gemini-3-pro-preview", now=NOW)
    assert context.request == request
    assert brimful.replay(context).request == request


class Blob(BaseModel):
    """The fields of google-genai 3.1's types, of which a client has only some."""

    data: bytes
    mime_type: str


class SdkPart(BaseModel):
    text: str | None = None
    inline_data: Blob | None = None
    function_call: dict[str, Any] | None = None
    function_response: dict[str, Any] | None = None
    thought_signature: bytes | None = None


class SdkContent(BaseModel):
    parts: list[SdkPart] | None = None
    role: str | None = None


class SdkConfig(BaseModel):
    system_instruction: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None


def test_the_config_of_googles_sdk_is_taken_as_it_is():
    config = SdkConfig(system_instruction="Be brief.", max_output_tokens=70)
    context = fitted({"contents": [user("Hi")], "config": config})
    assert context.request["config"] == {"system_instruction": "Be brief.", "max_output_tokens": 70}
    assert context.budget.completion == 70
    assert context.decision("system").outcome == "kept"


def test_contents_of_googles_sdk_are_taken_as_they_are():
    contents = [
        SdkContent(
            role="user",
            parts=[SdkPart(text="Look."), SdkPart(inline_data=Blob(data=b"\x89PNG", mime_type="image/png"))],
        ),
        SdkContent(role="model", parts=[SdkPart(function_call={"name": "f", "args": {}}, thought_signature=b"sign")]),
        {"role": "user", "parts": [SdkPart(function_response={"name": "f", "response": {"output": "Yes."}})]},
    ]
    written = fitted({"contents": contents}).request["contents"]
    assert written == [
        {"role": "user", "parts": [{"text": "Look."}, {"inline_data": {"data": "iVBORw==", "mime_type": "image/png"}}]},
        {
            "role": "model",
            "parts": [{"function_call": {"name": "f", "args": {}}, "thought_signature": "c2lnbg=="}],
        },
        {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"output": "Yes."}}}]},
    ]
    with pytest.raises(InvalidValue, match=r"contents\[0\]: must be a message"):
        fitted({"contents": [Blob(data=b"", mime_type="")]})


@st.composite
def runs(draw):
    """A run of an agent: tasks, parallel calls with or without ids, responses of all forms."""
    contents, count = [], 0
    values = [{"output": LONG[:100]}, {"output": LONG}, {"rows": ROWS}, {"error": "Not found."}, {"a": {"b": LONG}}]
    for task in range(draw(st.integers(1, 3))):
        contents.append(user(f"Task {task}. " + "word " * draw(st.integers(1, 80))))
        for _ in range(draw(st.integers(0, 4))):
            names = draw(st.lists(st.sampled_from(["look_up", "other"]), min_size=1, max_size=3))
            ids = [{"id": f"c{count + at}"} if draw(st.booleans()) else {} for at in range(len(names))]
            count += len(names)
            calls = [call(name, signed=not at, **id) for at, (name, id) in enumerate(zip(names, ids, strict=True))]
            answers = [response(name, draw(st.sampled_from(values)), **id) for name, id in zip(names, ids, strict=True)]
            contents += [model(*draw(st.sampled_from([[], ["I look."]])), *calls), user(*answers)]
        contents.append(model("Done. " * draw(st.integers(1, 40))))
    contents.append(user("And now?"))
    return contents[: draw(st.integers(1, len(contents)))]


@given(runs(), st.integers(700, 3_000), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_runs_of_agents_stay_valid_and_fit(contents, tokens, snakes):
    contents = contents[:-1] if contents[-1]["role"] == "model" else contents
    request = snake(body(*contents)) if snakes else body(*contents)
    context = fitted(request, tokens)
    assert context.tokens <= tokens
    whole = [request["contents"][at] for at in context.positions if at not in context.shortened]
    assert all(content in context.request["contents"] for content in whole)


def test_a_summary_stands_for_what_was_left_out():
    contents = [*chat(20), user("And now?")]
    summary = compact_now(fitted(body(*contents), 800))
    written = fitted(body(*contents), 800, compaction=summary).request["contents"]
    assert any(summary.text in content["parts"][0]["text"] for content in written)
