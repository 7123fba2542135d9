"""Compaction in `fit` mode: by rules or by a model, the same from request to request."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from starlette.responses import JSONResponse

from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.stores import connect
from server.upstream import chat_answer, message_answer, serving

CHAT = "/v1/chat/completions"
RULES = {"compaction": "rules"}
MODEL = {"compaction": "model"}
WRITTEN = "The user asked for the status of tickets, and the assistant answered."


def says(role, text):
    return {"role": role, "content": text}


def chat(turns, words=40):
    messages = [says("system", "Be brief.")]
    for turn in range(turns):
        messages += [says("user", f"What is the status of ticket T-{1_000 + turn}? " + "word " * words)]
        messages += [says("assistant", f"Ticket T-{1_000 + turn} is done. " + "word " * words)]
    return [*messages, says("user", "And now?")]


def body(messages, **more):
    return {"model": "gpt-4o", "max_tokens": 100, "messages": messages, **more}


def is_summary_request(sent):
    return sent["messages"][0]["content"].startswith("You summarize the earlier steps")


def answering(summary=WRITTEN):
    """Return an answer of the upstream: this one if it is asked to summarize, and else the usual one."""

    def answer(sent):
        if is_summary_request(sent):
            return summary() if callable(summary) else summary if isinstance(summary, tuple) else chat_answer(summary)
        return chat_answer()

    return answer


def sent_chats(upstream):
    return [sent for sent in upstream.bodies if not is_summary_request(sent)]


def record_of(client, answer):
    """Return the record of an answer. The server waits for it for two seconds; a busy machine may need longer."""
    for _ in range(30):
        record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")
        if record.status_code == 200:
            break
    return record.json()


def test_rules_summarize_what_is_left_out(start, upstream):
    client = start(upstream={"window": 2000}, fit=RULES)
    messages = chat(60)
    answer = client.post(CHAT, json=body(messages))
    [sent] = [each["messages"] for each in upstream.bodies]
    assert sent[0] == messages[0]
    assert sent[1]["role"] == "user"
    assert sent[1]["content"].startswith("<history>\nA summary of earlier steps")
    assert "T-1030" in sent[1]["content"]
    assert sent[2:] == messages[-len(sent) + 2 :]
    record = record_of(client, answer)
    assert record["tokens"] <= record["hard_limit"]
    decisions = {each["id"]: each for each in record["decisions"]}
    assert decisions["msg-000001"]["outcome"] == "replaced"
    assert "summary-000001" in decisions["msg-000001"]["why"]
    recalled = client.get(f"/brimful/v1/contexts/{record['id']}/recall", params={"handle": "msg-000001"}).json()
    assert recalled["text"] == messages[1]["content"]
    assert answer.headers["x-brimful-dropped"].startswith(f"messages={len(messages) - len(sent) + 1} ")


def test_requests_of_a_conversation_keep_their_summary_until_the_next_trim(start, upstream):
    client = start(upstream={"window": 2000}, fit=RULES)
    messages = chat(60)
    before, summaries = [], []
    for turn in range(30):
        client.post(CHAT, json=body(messages))
        sent = upstream.bodies[-1]["messages"]
        if summaries and sent[1] == summaries[-1]:
            assert sent[: len(before)] == before
        else:
            summaries.append(sent[1])
        before = sent
        messages = [*messages, says("assistant", "word " * 20), says("user", f"Turn {turn}: " + "word " * 20)]
    assert 1 < len(summaries) < 10


@pytest.mark.parametrize("where", ["header", "policy", "configuration"])
def test_compaction_is_chosen_by_header_configuration_or_policy(start, upstream, where, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ncompaction = "rules"\n[completion]\ntokens = 100\n[[pools]]\nname = "recent"\nkinds = ["*"]\n'
        'order = "newest"\ncontiguous = true\n'
    )
    fit = {"policy": str(tmp_path / "mine.toml")} if where == "policy" else RULES if where == "configuration" else {}
    client = start(upstream={"window": 2000}, fit=fit)
    client.post(CHAT, json=body(chat(60)), headers={"x-brimful-compaction": "Rules"} if where == "header" else {})
    assert upstream.bodies[-1]["messages"][1]["content"].startswith("<history")
    client.post(CHAT, json=body(chat(60)), headers={"x-brimful-compaction": "off"})
    assert "<history" not in json.dumps(upstream.bodies[-1])


def test_a_wrong_choice_is_refused(start):
    client = start(upstream={"window": 2000})
    answer = client.post(CHAT, json=body(chat(60)), headers={"x-brimful-compaction": "always"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "x-brimful-compaction: must be off, rules or model, not 'always'"


def test_nothing_is_summarized_if_everything_fits(start, upstream):
    client = start(fit=MODEL)
    client.post(CHAT, json=body(chat(3)))
    assert [each["messages"] for each in upstream.bodies] == [chat(3)]


def test_a_model_writes_the_summary(start, upstream):
    client = start(upstream={"window": 2000}, fit=MODEL | {"compaction_wait": 60})
    upstream.answers = [answering()]
    answer = client.post(CHAT, json=body(chat(60)))
    asked = [each for each in upstream.bodies if is_summary_request(each)]
    [sent] = sent_chats(upstream)
    assert 1 <= len(asked) <= 4
    assert {each["model"] for each in asked} == {"gpt-4o"}
    assert sent["messages"][1]["content"].splitlines()[2] == WRITTEN
    assert "values: " in sent["messages"][1]["content"]
    assert record_of(client, answer)["warnings"] == []


def test_the_usage_of_a_summary_is_part_of_the_cost_and_teaches_nothing(upstream, tmp_path):
    upstream.answers = [answering()]
    config = {
        "store": f"sqlite:///{tmp_path}/brimful.db",
        "upstreams": [{"name": "local", "url": f"{upstream.address}/v1", "window": 2000}],
        "fit": MODEL | {"summarizer": "gpt-4o-mini", "compaction_wait": 60},
    }
    with serving(create_app(parse_config(config, "brimful.toml"), environ={})) as (address, _):
        httpx2.post(f"{address}{CHAT}", json=body(chat(60)), timeout=120)
    asked = sum(map(is_summary_request, upstream.bodies))

    async def read():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            store = database.tenant("default")
            reports = [each for each in await store.usage_reports(summaries=True) if each.kind == "summary"]
            return reports, await store.statistics(), await store.usage_reports("gpt-4o-mini"), await store.accuracy()

    reports, [statistics], learned, accuracy = asyncio.run(read())
    assert {(each.model, each.reported, each.completion) for each in reports} == {("gpt-4o-mini", 12, 3)}
    assert (
        (statistics.summaries.total, statistics.summaries.prompt) == (len(reports), 12 * asked) == (asked, 12 * asked)
    )
    assert statistics.answers.prompt == 12
    assert learned == []
    assert [each.model for each in accuracy] == ["gpt-4o"]


def test_another_model_may_write_it(start, upstream):
    client = start(upstream={"window": 2000}, fit=MODEL | {"summarizer": "gpt-4o-mini", "compaction_wait": 60})
    upstream.answers = [answering()]
    client.post(CHAT, json=body(chat(60)))
    assert {each["model"] for each in upstream.bodies if is_summary_request(each)} == {"gpt-4o-mini"}


def test_anthropics_requests_are_compacted(start, upstream):
    client = start(upstream={"window": 2000}, fit=MODEL | {"compaction_wait": 60})

    def answer(sent):
        return message_answer(WRITTEN if "You summarize" in json.dumps(sent.get("system")) else "Hello.")

    upstream.answers = [answer]
    request = {"model": "claude-sonnet-4-5", "max_tokens": 100, "system": "Be brief.", "messages": chat(60)[1:]}
    client.post("/v1/messages", json=request)
    assert upstream.bodies[-1]["messages"][0]["content"].splitlines()[2] == WRITTEN


def test_requests_of_the_responses_api_are_compacted(start, upstream):
    client = start(upstream={"window": 2000}, fit=MODEL | {"compaction_wait": 60})

    def answer(sent):
        text = WRITTEN if str(sent.get("instructions")).startswith("You summarize") else "Hello."
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        return {"id": "resp_1", "object": "response", "status": "completed", "model": "up", "output": [message]}

    upstream.answers = [answer]
    answered = client.post("/v1/responses", json={"model": "gpt-4o", "max_output_tokens": 100, "input": chat(60)})
    assert answered.status_code == 200
    assert upstream.bodies[-1]["input"][1]["content"].splitlines()[2] == WRITTEN
    assert "max_output_tokens" in upstream.bodies[0]


@pytest.mark.parametrize("failure", [(500, {"error": "down"}), "", "word " * 5_000, "Lorem ipsum dolor sit amet."])
def test_rules_replace_a_model_that_fails(start, upstream, failure):
    client = start(upstream={"window": 2000, "limits": {"max_attempts": 1}}, fit=MODEL | {"compaction_wait": 60})
    upstream.answers = [answering(failure)]
    answer = client.post(CHAT, json=body(chat(60)))
    assert answer.status_code == 200
    summary = sent_chats(upstream)[-1]["messages"][1]["content"]
    assert "asked earlier" in summary
    assert [each["kind"] for each in record_of(client, answer)["warnings"]] == ["summarizer-failed"]


class Late(JSONResponse):
    """A response that waits until it is released."""

    def __init__(self, content, released):
        super().__init__(content)
        self.released = released

    async def __call__(self, scope, receive, send):
        await asyncio.to_thread(self.released.wait, 60)
        await super().__call__(scope, receive, send)


def test_a_request_does_not_wait_long_and_the_next_trim_has_the_text_of_the_model(start, upstream):
    client = start(upstream={"window": 2000}, fit=MODEL | {"compaction_wait": 0.05, "summarizer": "gpt-4o-mini"})
    released, done = threading.Event(), threading.Event()

    def late():
        if released.is_set():
            done.set()
        return Late(chat_answer(WRITTEN), released)

    upstream.answers = [answering(late)]
    messages = chat(60)
    answer = client.post(CHAT, json=body(messages))
    first = sent_chats(upstream)[-1]["messages"][1]
    assert "asked earlier" in first["content"]
    assert record_of(client, answer)["warnings"][0]["kind"] == "summarizer-failed"
    released.set()
    for turn in range(40):
        messages = [*messages, says("assistant", "word " * 20), says("user", f"Turn {turn}: " + "word " * 20)]
        client.post(CHAT, json=body(messages))
        if sent_chats(upstream)[-1]["messages"][1] != first:
            break
    assert done.wait(60)
    asked = [each for each in upstream.bodies if is_summary_request(each)]
    assert any(WRITTEN in each["messages"][-1]["content"] for each in asked)


def test_two_requests_of_a_conversation_share_the_summary(start, upstream):
    client = start(fit=MODEL | {"compaction_wait": 60})
    both, started = threading.Barrier(2), threading.Event()
    released = threading.Event()

    def late():
        started.set()
        return Late(chat_answer(WRITTEN), released)

    upstream.answers = [answering(late)]

    def post(text):
        both.wait(60)
        request = body([*chat(60), says("assistant", "Well."), says("user", text)])
        return client.post(CHAT, json=request, headers={"x-brimful-max-prompt-tokens": "1900"})

    with ThreadPoolExecutor(2) as pool:
        posted = [pool.submit(post, text) for text in ("One?", "Two?")]
        assert started.wait(60)
        released.set()
        assert [each.result().status_code for each in posted] == [200, 200]
    assert len({each["messages"][1]["content"] for each in sent_chats(upstream)}) == 1
    assert sum(map(is_summary_request, upstream.bodies)) == 1


def test_a_huge_request(start, upstream):
    client = start(upstream={"window": 8000}, fit=RULES)
    messages = chat(500, words=1_000)
    assert len(json.dumps(messages)) > 5_000_000
    assert client.post(CHAT, json=body(messages)).status_code == 200
    assert "T-1400" in upstream.bodies[0]["messages"][1]["content"]


def test_the_model_may_recall_what_a_summary_stands_for(start, upstream):
    client = start(upstream={"window": 2000}, fit=RULES | {"recall": "tool"})
    call = {"id": "r1", "type": "function", "function": {"name": "recall", "arguments": '{"handle": "msg-000001"}'}}
    upstream.answers = [chat_answer(None, tool_calls=[call]), chat_answer("T-1000 is done.")]
    answer = client.post(CHAT, json=body(chat(60)))
    assert answer.json()["choices"][0]["message"]["content"] == "T-1000 is done."
    first, second = (each["messages"] for each in upstream.bodies)
    assert first[1]["content"].startswith("<history")
    assert second[: len(first)] == first
    assert "T-1000" in second[-1]["content"]


def test_at_the_daily_limit_the_rules_write_the_summary_and_the_request_is_sent(start, upstream):
    upstream.answers = [answering()]
    client = start(upstream={"window": 2000}, fit=MODEL | {"compaction_wait": 60.0}, own_calls={"tokens_per_day": 15})
    first, second = (client.post(CHAT, json=body(chat(60, words=words))) for words in (40, 50))
    assert (first.status_code, second.status_code) == (200, 200)
    assert len([each for each in upstream.bodies if is_summary_request(each)]) == 1
    written, by_rules = (sent["messages"][1]["content"] for sent in sent_chats(upstream))
    assert WRITTEN in written
    assert WRITTEN not in by_rules
    assert by_rules.startswith("<history>\nA summary of earlier steps")
    [warning] = [each for each in record_of(client, second)["warnings"] if "by rules" in str(each)]
    assert "own calls have reached their daily limit" in str(warning)
    spent = client.get("/brimful/v1/statistics").json()["own_calls"]
    (kind,) = spent["kinds"]
    assert (kind["kind"], kind["calls"], spent["tokens_per_day"]) == ("compact", 1, 15)
    assert kind["prompt"] + kind["completion"] == spent["tokens_today"] == 15
    assert spent["reserved_tokens"] == 0
