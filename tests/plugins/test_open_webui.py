"""The filter for Open WebUI, loaded and called as Open WebUI does it: its text is executed, and `valves` are set."""

import asyncio
import inspect
import logging
import types

import pytest
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.plugins.open_webui_api import FILE

QUESTION = "Which of them mentions the lighthouse?"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def load(**valves):
    """Return the filter as Open WebUI makes it: from the text, in a module without a file of its own."""
    module = types.ModuleType("function_brimful_0")
    exec(FILE.read_text(encoding="utf-8"), module.__dict__)  # noqa: S102 - our own
    made = module.Filter()
    made.valves = module.Filter.Valves(**valves)
    return made


def call(made, name, body, **extra):
    """Call a method with those of the extra arguments that it has, as Open WebUI does."""
    handler = getattr(made, name)
    known = {key: value for key, value in extra.items() if key in inspect.signature(handler).parameters}
    return asyncio.run(handler(body=body, **known))


def count(request):
    """Count a request anew: a context of it alone."""
    return brimful.fit({"model": request["model"], "messages": request["messages"]}, window=1_000_000).tokens


def make_chat(turns, question=QUESTION, **fields):
    messages = [{"role": "system", "content": "Be brief."}]
    for number in range(turns):
        messages.append({"role": "user", "content": f"Page {number}: {'the harbour and the ships. ' * 20}"})
        messages.append({"role": "assistant", "content": f"I have read page {number}."})
    messages.append({"role": "user", "content": question})
    return {"model": "gpt-4o", "stream": True, "messages": messages, "metadata": {"user": object()}, **fields}


def test_the_first_lines_say_what_open_webui_shows_and_installs():
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert lines[0] == '"""'
    assert f"version: {brimful.__version__}" in lines
    assert "requirements: brimful" in lines


def test_a_long_chat_fits_its_window_and_nothing_else_changes():
    chat = make_chat(80)
    before = [dict(each) for each in chat["messages"]]
    sent = call(load(window=3_000), "request", chat, __chat_id__="c1", __model__={"id": "gpt-4o"}, __user__={})
    assert count(sent) <= 3_000
    assert len(sent["messages"]) < len(chat["messages"])
    assert sent["messages"][0] == before[0]
    assert sent["messages"][-1] == before[-1]
    assert {key: value for key, value in sent.items() if key != "messages"} == {
        key: value for key, value in chat.items() if key != "messages"
    }
    assert chat["messages"] == before


def test_a_chat_that_fits_is_passed_on_as_it_is():
    chat = make_chat(3)
    assert call(load(), "request", chat, __chat_id__="c1") is chat


def test_an_image_in_the_question_stays():
    question = [{"type": "text", "text": QUESTION}, IMAGE]
    sent = call(load(window=3_000), "request", make_chat(80, question), __chat_id__="c1")
    assert sent["messages"][-1]["content"] == question


def test_the_next_request_of_a_chat_begins_like_the_one_before_it():
    made = load(window=3_000)
    first = make_chat(80)
    more = [{"role": "assistant", "content": "Page 7 does."}, {"role": "user", "content": "And page 8?"}]
    second = {**first, "messages": [*first["messages"], *more]}
    sent = [call(made, "request", each, __chat_id__="c1")["messages"] for each in (first, second)]
    assert len(sent[0]) < len(first["messages"])
    assert sent[1] == [*sent[0], *more]


def test_calls_keep_their_results_in_a_tool_loop():
    chat = make_chat(2, tools=[{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}])
    for number in range(40):
        function = {"name": "read", "arguments": f'{{"page": {number}}}'}
        chat["messages"] += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
            },
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": f"Page {number}. " + "Ships and more ships. " * 30,
            },
        ]
    sent = call(load(window=4_000), "request", chat, __chat_id__="c1")["messages"]
    called = [each["id"] for message in sent for each in message.get("tool_calls", ())]
    assert called == [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert called[-1] == "c39"
    assert len(called) < 40
    assert QUESTION in str(sent)


def test_the_window_of_ollama_and_the_base_of_a_workspace_model_are_used():
    long = make_chat(80, model="my-assistant", options={"num_ctx": 3_000})
    assert len(call(load(), "request", long, __chat_id__="c1")["messages"]) < len(long["messages"])
    based = {"info": {"base_model_id": "gpt-4"}}
    huge = make_chat(80, model="my-assistant")
    sent = call(load(), "request", huge, __chat_id__="c1", __model__=based)
    assert len(sent["messages"]) < len(huge["messages"])
    assert sent["model"] == "my-assistant"


def test_a_model_with_an_unknown_window_is_left_alone_and_the_log_says_what_to_set(caplog):
    chat = make_chat(800, model="nobody-knows-it")
    assert call(load(), "request", chat, __chat_id__="c1") is chat
    assert "set the valve `window`" in caplog.text


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"model": "gpt-4o"},
        {"model": None, "messages": []},
        {"model": "gpt-4o", "messages": "hello"},
        {"model": "gpt-4o", "messages": [{"role": "user"}, 3]},
        make_chat(0, question="A long question. " * 5_000),
    ],
)
@pytest.mark.parametrize("chat", ["c1", "", None])
def test_after_an_error_the_request_is_sent_as_it_was(broken, chat, caplog):
    made = load(window=500)
    made.valves.policy = "fit" if "messages" in broken else "no-such-policy"
    with caplog.at_level(logging.WARNING):
        sent = call(made, "request", broken, __chat_id__=chat, __model__=None)
    assert sent is broken or len(str(sent)) <= len(str(broken))


def test_a_policy_that_does_not_exist_is_logged(caplog):
    chat = make_chat(80)
    assert call(load(window=3_000, policy="no-such-policy"), "request", chat, __chat_id__="c1") is chat
    assert "no-such-policy" in caplog.text


def test_a_request_without_a_chat_fits():
    chat = make_chat(80)
    sent = call(load(window=3_000), "request", chat, __chat_id__=None)
    assert count(sent) <= 3_000
    assert len(sent["messages"]) < len(chat["messages"])


def test_with_a_store_requests_and_their_usage_are_recorded(tmp_path):
    url = f"sqlite:///{tmp_path / 'chats.db'}"
    made = load(window=3_000, store=url)
    call(made, "request", make_chat(80), __chat_id__="c1")
    usage = {"prompt_tokens": 2_345, "completion_tokens": 12, "total_tokens": 2_357}
    answer = {"role": "assistant", "content": "Page 7.", "usage": usage}
    body = {"chat_id": "c1", "id": "m1", "model": "gpt-4o", "messages": [answer]}
    assert call(made, "outlet", body) is body
    assert call(made, "outlet", {"chat_id": "c2", "messages": [answer]})["chat_id"] == "c2"
    made.open_store().close()  # Open WebUI never does
    printed = CliRunner().invoke(app, ["stats", "--db", url, "--room", "c1"]).output
    assert "Total Contexts Built:     1\n" in printed
    assert "Prompt tokens:            2,345 " in printed


def test_a_store_that_cannot_be_opened_stops_no_chat(tmp_path, caplog):
    chat = make_chat(80)
    made = load(window=3_000, store=f"sqlite:///{tmp_path}/no/such/folder/chats.db")
    assert call(made, "request", chat, __chat_id__="c1") is chat
    assert "not trimmed" in caplog.text
    assert call(made, "outlet", {"chat_id": "c1", "messages": None}) == {"chat_id": "c1", "messages": None}
