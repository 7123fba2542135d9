"""A format that is added in one file works everywhere: `fit`, replay, and the proxy with streams and recall."""

import json

import httpx2
import pytest

import brimful
from brimful.core.content import Text, ToolCall
from brimful.errors import InvalidRequest
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.server.app import create_app
from brimful.server.config import Config, UpstreamConfig
from brimful.testing import ScriptedServer
from server.upstream import serving
from toy_wire import toy

__all__ = ["toy"]
pytestmark = pytest.mark.usefixtures("toy")
FIRST = "code-0"
RECALL = Reply(
    parts=(
        Text(text="Let me look."),
        ToolCall(id="r1", name="recall", arguments=json.dumps({"handle": "msg-000000"})),
    ),
    usage=Usage(prompt=100, completion=10),
)
DONE = Reply(parts=(Text(text="It was code-0."),), usage=Usage(prompt=200, completion=20))


def request(count=40, **more):
    lines = []
    for turn in range(count):
        lines += [
            {"by": "user", "says": f"code-{turn * 7919} " + "word " * 60, "mood": turn},
            {"by": "bot", "says": "Noted. " * 20},
        ]
    return {"model": "gpt-4o", "lines": [*lines, {"by": "user", "says": "What was the first code?"}]} | more


def test_fit_keeps_the_newest_lines_as_they_are():
    given = request()
    context = brimful.fit(given, wire="toy", max_prompt_tokens=1000)
    lines = context.request["lines"]
    assert 0 < len(lines) < len(given["lines"])
    assert lines[-1] == given["lines"][-1]
    assert all(line in given["lines"] for line in lines)
    assert context.tokens <= 1000


def test_a_tool_call_stays_with_its_result():
    called = {"by": "bot", "says": "", "uses": [{"id": "c1", "name": "look_up", "with": {"q": "tea"}}]}
    answered = {"by": "tool", "id": "c1", "says": "Green. " * 400}
    given = request(3, lines=[*request(3)["lines"], called, answered, {"by": "user", "says": "And?"}])
    sent = brimful.fit(given, wire="toy", max_prompt_tokens=300).request["lines"]
    assert (called in sent) == any(line["by"] == "tool" for line in sent)


def test_a_context_is_recorded_and_replayed():
    context = brimful.fit(request(), wire="toy", max_prompt_tokens=1000, now=1.0)
    stored = brimful.Context.from_json(context.to_json())
    assert stored == context
    assert brimful.replay(stored).request == context.request


def test_assemble_writes_the_format():
    packages = brimful.conversation([{"role": "user", "content": "Hi"}], model="gpt-4o")
    context = brimful.assemble(packages, model="gpt-4o", wire="toy")
    assert context.request["lines"] == [{"by": "user", "says": "Hi"}]


def test_the_tool_for_recalling_has_the_form_of_the_format():
    context = brimful.fit(request(), wire="toy", max_prompt_tokens=1000, overrides={"recall": "tool"})
    assert [tool["name"] for tool in context.request["tools"]] == ["recall"]
    assert brimful.recall_tool(context).schema == context.request["tools"][0]


def test_invalid_requests_are_refused():
    with pytest.raises(InvalidRequest, match=r"toy would refuse this request: lines: must be a list of messages"):
        brimful.fit({"model": "gpt-4o", "lines": 7}, wire="toy")


@pytest.fixture
def proxy(tmp_path):
    """Start a scripted model and a proxy before it; return a client of the proxy, and the model."""
    model = ScriptedServer([RECALL, DONE])
    with serving(model, lifespan="off") as (address, _):
        upstream = UpstreamConfig(name="toy", url=address, wires=("toy",), window=2000)
        config = Config(upstreams=(upstream,), store=f"sqlite:///{tmp_path}/brimful.db")
        with serving(create_app(config, environ={})) as (url, _), httpx2.Client(base_url=url, timeout=120) as client:
            yield client, model


RECALLING = {"x-brimful-recall": "tool"}


def test_the_proxy_answers_recalls(proxy):
    client, model = proxy
    answer = client.post("/toy/talk", json=request(), headers=RECALLING).json()
    assert answer["line"] == {"by": "bot", "says": "Let me look.\n\nIt was code-0."}
    assert answer["cost"] == {"in": 300, "out": 30}
    called, result = model.requests[1]["lines"][-2:]
    assert called["uses"][0]["name"] == "recall"
    assert f"{FIRST} " in result["says"]


def test_the_proxy_joins_the_streams_of_rounds(proxy):
    client, _ = proxy
    answer = client.post("/toy/talk", json=request(stream=True), headers=RECALLING)
    pieces = [json.loads(line) for line in answer.text.splitlines()]
    assert "".join(piece["line"]["says"] for piece in pieces) == "Let me look.\n\nIt was code-0."
    assert not any("uses" in piece["line"] for piece in pieces)
    assert pieces[-1]["cost"] == {"in": 300, "out": 30}
    context = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")
    assert context.status_code == 200


def test_the_proxy_words_errors_in_the_format(proxy):
    client, _ = proxy
    answer = client.post("/toy/talk", json=request(lines=7))
    assert (answer.status_code, answer.json()) == (400, {"error": "lines: must be a list of messages, not 7"})
