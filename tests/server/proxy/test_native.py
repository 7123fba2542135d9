"""Gemini's and Ollama's own APIs: requests are trimmed, streamed, recalled and recorded like all others."""

import json
import re
from types import SimpleNamespace

import pytest
from starlette.responses import JSONResponse, Response

from brimful.core.content import Text, ToolCall
from brimful.errors import ContextOverflow, ProviderError
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.server.config import parse_config
from brimful.server.proxy.upstreams import Upstreams
from brimful.testing import ScriptedServer, find_violations
from brimful.wires.registry import served_wires
from server.upstream import serving

FIRST = "code-0"


def turns(count):
    for turn in range(count):
        yield "user", f"code-{turn * 7919} " + "word " * 60
        yield "assistant", "Noted. " * 20
    yield "user", "What was the first code?"


class GeminiClient:
    """Sends requests as gemini-cli does."""

    def __init__(self, http, model="gemini-2.5-pro"):
        self.http = http
        self.model = model

    def body(self, count=40, **more):
        contents = [
            {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}
            for role, text in turns(count)
        ]
        return {"contents": contents, "generationConfig": {"maxOutputTokens": 50}, **more}

    def send(self, body=None, method="generateContent", **more):
        return self.http.post(
            f"/v1beta/models/{self.model}:{method}", json=self.body() if body is None else body, **more
        )

    def stream(self, body=None, headers=None):
        answer = self.send(body, "streamGenerateContent?alt=sse", headers=headers)
        return answer, [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]

    def text(self, *pieces):
        parts = [part for piece in pieces for part in piece["candidates"][0]["content"]["parts"]]
        return "".join(part.get("text", "") for part in parts)

    def calls(self, *pieces):
        parts = [part for piece in pieces for part in piece["candidates"][0]["content"]["parts"]]
        return [part["functionCall"]["name"] for part in parts if "functionCall" in part]

    def is_end(self, piece):
        return "finishReason" in piece["candidates"][0]

    def usage(self, piece):
        return piece["usageMetadata"]["promptTokenCount"], piece["usageMetadata"]["candidatesTokenCount"]

    def messages(self, request):
        return request["contents"]

    def result(self, request):
        return request["contents"][-1]["parts"][0]["functionResponse"]["response"]["output"]

    def offered(self, request):
        return [each["name"] for tool in request.get("tools", ()) for each in tool["functionDeclarations"]]

    def tool(self, name):
        return {"functionDeclarations": [{"name": name, "description": name}]}

    def error(self, answer):
        return answer.json()["error"]["message"]


class OllamaClient:
    """Sends requests as Ollama's command line does."""

    def __init__(self, http, model="qwen3:8b"):
        self.http = http
        self.model = model

    def body(self, count=40, **more):
        messages = [{"role": role, "content": text} for role, text in turns(count)]
        return {"model": self.model, "messages": messages, "options": {"num_predict": 50}, **more}

    def send(self, body=None, **more):
        return self.http.post("/api/chat", json=(self.body() if body is None else body) | {"stream": False}, **more)

    def stream(self, body=None, headers=None):
        answer = self.http.post("/api/chat", json=self.body() if body is None else body, headers=headers)
        return answer, [json.loads(line) for line in answer.text.splitlines() if line]

    def text(self, *pieces):
        return "".join(piece["message"]["content"] for piece in pieces)

    def calls(self, *pieces):
        return [call["function"]["name"] for piece in pieces for call in piece["message"].get("tool_calls", ())]

    def is_end(self, piece):
        return piece["done"]

    def usage(self, piece):
        return piece["prompt_eval_count"], piece["eval_count"]

    def messages(self, request):
        return request["messages"]

    def result(self, request):
        return request["messages"][-1]["content"]

    def offered(self, request):
        return [tool["function"]["name"] for tool in request.get("tools", ())]

    def tool(self, name):
        return {"type": "function", "function": {"name": name, "description": name, "parameters": {}}}

    def error(self, answer):
        return answer.json()["error"]


CLIENTS = {"gemini": GeminiClient, "ollama": OllamaClient}


def call(name="recall", **arguments):
    return ToolCall(id="c", name=name, arguments=json.dumps(arguments))


def reply(*parts, prompt=100, completion=10):
    texts = (Text(text=part) if isinstance(part, str) else part for part in parts)
    return Reply(parts=tuple(texts), usage=Usage(prompt=prompt, completion=completion))


RECALL = reply("Let me look.", call(handle="r0"))
DONE = reply("It was code-0.", prompt=200, completion=20)


@pytest.fixture(params=CLIENTS)
def serve(start, request):
    """Return a function that starts a scripted model, a proxy before it, and a client."""
    running = []

    def begin(*script, upstream=None, **config):
        model = ScriptedServer(script)
        entered = serving(model, lifespan="off")
        address, _ = entered.__enter__()
        running.append(entered)
        local = {"url": address, "window": 2000, "limits": {"max_attempts": 1}} | (upstream or {})
        client = CLIENTS[request.param](start(upstream=local, **config))
        return SimpleNamespace(model=model, client=client, http=client.http, wire=request.param)

    yield begin
    for each in reversed(running):
        each.__exit__(None, None, None)


def wait_for_records(http, count=1):
    """Return the stored contexts, oldest first, with their answers, which are recorded after they were forwarded."""
    found = []
    while len(found) < count or not all(each["answers"] for each in found):
        listed = http.get("/brimful/v1/contexts").json()["contexts"]
        found = [http.get(f"/brimful/v1/contexts/{each['id']}").json() for each in reversed(listed)]
    return found


def test_a_request_that_fits_is_forwarded_byte_for_byte(serve):
    proxy = serve("Hello.")
    body = proxy.client.body(1, options={"num_ctx": 2000})
    answer = proxy.client.send(body)
    assert proxy.client.text(answer.json()) == "Hello."
    (request,) = proxy.model.requests
    assert {key: value for key, value in request.items() if key != "stream"} == body
    assert answer.headers["x-brimful-context"].startswith("ctx-")
    assert "x-brimful-dropped" not in answer.headers


@pytest.mark.parametrize("streams", [False, True])
def test_a_request_that_is_too_long_is_trimmed_and_recorded(serve, streams):
    proxy = serve(reply("Thursday, I think.", prompt=1500, completion=7))
    if streams:
        answer, pieces = proxy.client.stream()
    else:
        answer = proxy.client.send()
        pieces = [answer.json()]
    assert proxy.client.text(*pieces) == "Thursday, I think."
    (request,) = proxy.model.requests
    assert len(proxy.client.messages(request)) < 81
    assert proxy.client.messages(request)[-1] == proxy.client.messages(proxy.client.body())[-1]
    assert re.fullmatch(r"messages=\d+ tokens=\d+", answer.headers["x-brimful-dropped"])
    (record,) = wait_for_records(proxy.http)
    assert record["id"] == answer.headers["x-brimful-context"]
    (response,) = record["answers"]
    assert (response["usage"]["prompt"], response["usage"]["completion"], response["finish"]) == (1500, 7, "stop")


def test_a_stream_passes_through_unchanged(serve):
    proxy = serve("It is Thursday.")
    answer, pieces = proxy.client.stream(proxy.client.body(1))
    assert len(pieces) == 4
    assert proxy.client.text(*pieces) == "It is Thursday."
    kind = answer.headers["content-type"]
    assert kind.startswith("text/event-stream" if isinstance(proxy.client, GeminiClient) else "application/x-ndjson")


def test_a_model_recalls_and_the_client_sees_one_answer(serve):
    proxy = serve(RECALL, DONE, fit={"recall": "tool"})
    answer = proxy.client.send().json()
    assert proxy.client.text(answer) == "Let me look.\n\nIt was code-0."
    assert proxy.client.calls(answer) == []
    assert proxy.client.usage(answer) == (300, 30)
    first, second = proxy.model.requests
    assert proxy.client.offered(first) == proxy.client.offered(second) == ["recall"]
    assert f"{FIRST} " in proxy.client.result(second)
    answers = [record["answers"][0] for record in wait_for_records(proxy.http, 2)]
    recalled = [[each["facts"] for each in answer["notices"] if each["kind"] == "recalled"] for answer in answers]
    assert [[each["handle"] for each in facts] for facts in recalled] == [["r0"], []]


@pytest.mark.parametrize("others", [[], [call("refund", order=7)]])
def test_a_model_recalls_in_a_stream(serve, others):
    proxy = serve(reply(*RECALL.parts, *others), DONE, fit={"recall": "tool"})
    _, pieces = proxy.client.stream(proxy.client.body(tools=[proxy.client.tool("refund")]))
    assert [proxy.client.is_end(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert proxy.client.text(*pieces) == "Let me look.\n\nIt was code-0."
    assert proxy.client.calls(*pieces) == []
    assert proxy.client.usage(pieces[-1]) == (300, 30)
    assert f"{FIRST} " in json.dumps(proxy.client.messages(proxy.model.requests[1])[-2:])
    assert find_violations(proxy.model.requests[1], proxy.wire) == []


@pytest.mark.parametrize("streams", [False, True])
def test_calls_of_the_clients_tools_reach_it(serve, streams):
    proxy = serve(reply("One moment.", call("refund", order=7)), fit={"recall": "tool"})
    body = proxy.client.body(tools=[proxy.client.tool("refund")])
    pieces = proxy.client.stream(body)[1] if streams else [proxy.client.send(body).json()]
    assert proxy.client.text(*pieces) == "One moment."
    assert proxy.client.calls(*pieces) == ["refund"]
    assert proxy.client.offered(proxy.model.requests[0]) == ["refund", "recall"]


@pytest.mark.parametrize("streams", [False, True])
def test_a_recall_in_the_last_round_is_removed(serve, streams):
    again = reply("And again.", call(handle="r0"), call("refund", order=7))
    proxy = serve(RECALL, again, fit={"recall": "tool", "recall_rounds": 1})
    body = proxy.client.body(tools=[proxy.client.tool("refund")])
    pieces = proxy.client.stream(body)[1] if streams else [proxy.client.send(body).json()]
    assert proxy.client.text(*pieces) == "Let me look.\n\nAnd again."
    assert proxy.client.calls(*pieces) == ["refund"]
    assert proxy.client.offered(proxy.model.requests[1]) == ["refund"]


def test_structured_output_is_never_joined(serve):
    proxy = serve("{}", fit={"recall": "tool"})
    config = {"maxOutputTokens": 50, "responseMimeType": "application/json"}
    proxy.client.send(proxy.client.body(format="json", generationConfig=config))
    assert proxy.client.offered(proxy.model.requests[0]) == []


@pytest.mark.parametrize("streams", [False, True])
def test_an_overflow_is_learned_and_the_request_sent_again(serve, streams):
    reason = "the prompt is longer than the context length currently available"  # Ollama's words
    proxy = serve(ContextOverflow("up", reason, window=900, prompt=1600, status=400), "Thursday.")
    pieces = proxy.client.stream()[1] if streams else [proxy.client.send().json()]
    assert proxy.client.text(*pieces) == "Thursday."
    first, second = proxy.model.requests
    assert len(proxy.client.messages(second)) < len(proxy.client.messages(first))


def test_errors_have_the_format_of_the_api(serve):
    proxy = serve(ProviderError("up", "no such thing", status=404))
    answer = proxy.client.send(proxy.client.body(1))
    assert answer.status_code == 404
    assert "no such thing" in proxy.client.error(answer)
    invalid = proxy.client.send({})
    assert (invalid.status_code, invalid.headers["content-type"]) == (400, "application/json")
    assert "must be a list" in proxy.client.error(invalid)
    refused = proxy.client.send(headers={"x-brimful-max-prompt-tokens": "1"})
    assert refused.status_code == 400
    assert "the required parts alone do not fit" in proxy.client.error(refused)


def test_a_stream_that_breaks_off_ends_with_an_error(start, upstream):
    for wire, kind, first in (
        ("gemini", "text/event-stream", 'data: {"candidates":[{"content":{"parts":[{"text":"Thurs"}]}}]}\r\n\r\n'),
        ("ollama", "application/x-ndjson", '{"message":{"role":"assistant","content":"Thurs"},"done":false}\n'),
    ):
        upstream.answers = [Response(first, media_type=kind)]
        client = CLIENTS[wire](start(upstream={"url": upstream.address}))
        _, (piece, error) = client.stream(client.body(1))
        assert client.text(piece) == "Thurs"
        assert "broke off" in str(error["error"])


TALK = {"x-brimful-mode": "remember", "x-brimful-conversation": "tea"}


@pytest.mark.parametrize("streams", [False, True])
def test_conversations_are_remembered(serve, streams):
    proxy = serve("It was code-0.", "You are welcome.")
    body = proxy.client.body()
    answer, pieces = proxy.client.stream(body, TALK) if streams else (proxy.client.send(body, headers=TALK), [])
    assert proxy.client.text(*pieces or [answer.json()]) == "It was code-0."
    (field,) = {"contents", "messages"} & body.keys()
    thanks = proxy.client.body(0)[field][-1:]
    proxy.client.send(body | {field: thanks}, headers=TALK)
    first, second = proxy.model.requests
    assert len(proxy.client.messages(first)) < 81
    assert "It was code-0." in json.dumps(proxy.client.messages(second)[-2])
    assert {key: value for key, value in second.items() if key not in (field, "stream")} == {
        key: value for key, value in body.items() if key != field
    } | ({"options": {"num_predict": 50, "num_ctx": 2000}} if "options" in body else {})
    stored = proxy.http.get("/brimful/v1/rooms/tea/messages?limit=200").json()["messages"]
    assert len(stored) == 84


def test_parts_that_cannot_be_stored_are_refused_with_their_position(start):
    http = start(mode="remember")
    audio = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
    for contents, path in (
        ([{"role": "user", "parts": [{"text": "Hi"}, audio]}], "contents[0].parts[1]"),
        ([{"role": "user", "parts": [{"text": " "}]}], "contents[0].parts"),
        ([{"role": "tool", "parts": [{"text": "Hi"}]}], "contents[0].role"),
        ([{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}], "contents[0]"),
    ):
        answer = GeminiClient(http).send({"contents": contents}, headers=TALK)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(f"{path}: ")
    for messages, path in (
        ([{"role": "user", "content": ["Hi"]}], "messages[0].content"),
        ([{"role": "user", "content": ""}], "messages[0].content"),
        ([{"role": "weird", "content": "Hi"}], "messages[0].role"),
    ):
        answer = OllamaClient(http).send({"model": "qwen3", "messages": messages}, headers=TALK)
        assert (answer.status_code, answer.json()["error"].startswith(f"{path}: ")) == (400, True)


def test_a_single_response_answers_a_stored_call_by_its_name(start, upstream):
    client = GeminiClient(start(mode="remember", upstream={"url": upstream.address}))
    calls = [{"functionCall": {"name": "look_up", "args": {"at": at}}, "thoughtSignature": f"s{at}"} for at in (1, 2)]
    parts = [{"text": "Hm.", "thought": True}, *calls]
    upstream.answers = [JSONResponse({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}), None]
    client.send({"contents": [{"role": "user", "parts": [{"text": "Look."}]}]}, headers=TALK)
    responses = [{"functionResponse": {"name": "look_up", "response": {"output": f"tea {at}"}}} for at in (1, 2)]
    client.send({"contents": [{"role": "user", "parts": responses}]}, headers=TALK)
    _, called, answered = upstream.bodies[-1]["contents"]
    ids = [part["functionCall"]["id"] for part in called["parts"]]
    assert [part["functionCall"]["args"]["at"] for part in called["parts"]] == [1, 2]
    assert [part["functionResponse"]["id"] for part in answered["parts"]] == ids
    assert [part["functionResponse"]["response"]["output"] for part in answered["parts"]] == ["tea 1", "tea 2"]


def test_thoughts_and_signatures_of_a_tool_loop_are_sent_as_they_came(start, upstream):
    client = GeminiClient(start(mode="remember", upstream={"url": upstream.address}))
    call = {"functionCall": {"name": "look_up", "args": {}}, "thoughtSignature": "signed"}
    contents = [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look_up", "response": {"output": "tea"}}}]},
    ]
    client.send({"contents": contents}, headers=TALK)
    assert upstream.bodies[-1]["contents"] == contents
    stored = client.http.get("/brimful/v1/rooms/tea/messages").json()["messages"]
    assert "Hm." not in json.dumps(stored)
    assert "signed" not in json.dumps(stored)


def test_api_keys_of_the_server_are_accepted_in_googles_header(start, upstream):
    answer = GeminiClient(start(require_keys=True, upstream={"url": upstream.address})).send(
        headers={"x-goog-api-key": "bf-wrong"}
    )
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == "unknown or revoked API key"
    assert answer.json()["error"]["status"] == "UNAUTHENTICATED"


@pytest.mark.parametrize(("asked", "window"), [({}, 2000), ({"num_ctx": 1200}, 1200)])
def test_ollama_is_asked_for_the_window_that_the_request_is_fitted_into(start, upstream, asked, window):
    upstream.answers = [JSONResponse({"message": {"role": "assistant", "content": "Hi."}, "done": True})]
    client = OllamaClient(start(upstream={"url": upstream.address, "window": 2000}))
    context = client.send(client.body(options={"num_predict": 50} | asked)).headers["x-brimful-context"]
    assert upstream.bodies[0]["options"] == {"num_predict": 50, "num_ctx": window}
    assert wait_for_records(client.http)[0]["id"] == context
    assert client.http.get(f"/brimful/v1/contexts/{context}").json()["window"] == window


# -- what is forwarded -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", ["server", "client"])
def test_keys_in_the_query_are_forwarded_only_if_asked(start, upstream, next_log_line, authorization):
    client = GeminiClient(start(upstream={"url": upstream.address, "authorization": authorization}))
    client.send(client.body(1), "generateContent?key=AIza-of-a-client&trace=1")
    line = next_log_line()
    client.http.get("/v1beta/models?key=AIza-of-a-client&pageSize=5")
    query = "?key=AIza-of-a-client&" if authorization == "client" else "?"
    assert upstream.targets[0] == f"POST /v1beta/models/gemini-2.5-pro:generateContent{query}trace=1"
    assert "AIza" not in str(line)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1beta/models/gemini-2.5-pro:countTokens"),
        ("POST", "/v1beta/models/gemini-2.5-pro:embedContent"),
        ("GET", "/v1beta/models/gemini-2.5-pro"),
        ("GET", "/v1beta/files/f1"),
        ("POST", "/api/show"),
        ("GET", "/api/tags"),
        ("GET", "/api/version"),
        ("POST", "/api/embed"),
    ],
)
def test_other_paths_are_forwarded(start, upstream, method, path):
    upstream.answers = [JSONResponse({"totalTokens": 7})]
    client = start(upstream={"url": upstream.address, "models": ["gemini-*", "qwen3*"]})
    body = {"contents": []} if method == "POST" else None
    assert client.request(method, path, json=body).json() == {"totalTokens": 7}
    assert upstream.targets == [f"{method} {path}"]


@pytest.mark.parametrize("path", ["/v1beta/%2e%2e/admin", "/api/..%2fadmin"])
def test_paths_cannot_leave_the_upstream(start, upstream, path):
    assert start(upstream={"url": upstream.address}).post(path, json={}).status_code == 404
    assert upstream.requests == []


def test_a_stream_as_an_array_is_forwarded_and_recorded(start, upstream):
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 2}
    last = {"candidates": [{"content": {"parts": [{"text": "sday."}]}, "finishReason": "STOP"}], "usageMetadata": usage}
    upstream.answers = [JSONResponse([{"candidates": [{"content": {"parts": [{"text": "Thur"}]}}]}, last])]
    client = GeminiClient(start(upstream={"url": upstream.address, "window": 2000}, fit={"recall": "tool"}))
    answer = client.send(method="streamGenerateContent")
    assert client.text(*answer.json()) == "Thursday."
    assert client.offered(upstream.bodies[0]) == []
    (record,) = wait_for_records(client.http)
    assert record["answers"][0]["usage"]["prompt"] == 9


GOOGLE, LOCAL = "https://generativelanguage.googleapis.com", "http://localhost:11434"
OPENAI = "https://api.openai.com"


@pytest.mark.parametrize(
    ("url", "wires"),
    [
        (GOOGLE, {"gemini": f"{GOOGLE}/v1beta"}),
        (f"{GOOGLE}/v1beta", {"gemini": f"{GOOGLE}/v1beta"}),
        (f"{GOOGLE}/v1beta/openai", dict.fromkeys(("openai", "responses"), f"{GOOGLE}/v1beta/openai")),
        (f"{OPENAI}/v1", dict.fromkeys(("openai", "responses"), f"{OPENAI}/v1")),
        *(
            (url, dict.fromkeys(("openai", "responses"), f"{LOCAL}/v1") | dict.fromkeys(("anthropic", "ollama"), LOCAL))
            for url in (LOCAL, f"{LOCAL}/v1")
        ),
        (
            "http://127.0.0.1:8081/v1",
            dict.fromkeys(("openai", "responses"), "http://127.0.0.1:8081/v1")
            | dict.fromkeys(("anthropic", "ollama"), "http://127.0.0.1:8081")
            | {"gemini": "http://127.0.0.1:8081/v1beta"},
        ),
    ],
)
def test_the_formats_and_base_urls_of_an_upstream(url, wires):
    config = parse_config({"upstreams": [{"name": "up", "url": url}]}, "brimful.toml")
    upstreams = Upstreams(config, environ={})
    spoken = {wire.name: each.connection.url for wire, _ in served_wires() for each in upstreams.of(wire)}
    assert spoken == wires
