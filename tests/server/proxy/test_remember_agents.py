"""Agents in `remember` mode: the same ledger and the same prefix as in `fit` mode, with what was stored in addition."""

import json
from bisect import bisect_left
from functools import cached_property
from itertools import pairwise

import pytest

from server.upstream import chat_answer, message_answer

TASK = "I am mia_li_3668. Refund each broken order to the card that paid for it."
STEPS, READS = 40, 24  # tool calls; the first ones read an order each, and the others need what was read
FUNCTIONS = {"get_order": "order", "refund": "card"}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def order(number):
    note = " ".join(f"{number}.{at} left at the door" for at in range(20))
    state = "broken" if number % 3 == 1 else "fine"
    return json.dumps({"order": f"W{7000 + number}", "state": state, "card": f"card_{71 * number}", "note": note})


def call(at):
    """The call of a step, and the value that it needs."""
    if at < READS:
        return "get_order", {"order": f"W{7000 + at}"}, ""
    card = f"card_{71 * (7 * at % READS)}"
    return "refund", {"card": card}, card


def result(at):
    return order(at) if at < READS else json.dumps({"refunded": True, "note": "it is on its way " * 15})


class Chat:
    """Chat completions."""

    path = CHAT

    def request(self, turns):
        tools = [
            {"type": "function", "function": {"name": name, "parameters": {"properties": {field: {}}}}}
            for name, field in FUNCTIONS.items()
        ]
        return {"model": "gpt-4o", "max_tokens": 300, "messages": turns, "tools": tools}

    def step(self, at):
        name, arguments, _ = call(at)
        made = {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": f"c{at}", "content": result(at)},
        ]

    def recall(self, **arguments):
        function = {"name": "recall", "arguments": json.dumps(arguments)}
        return [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c_r", "type": "function", "function": function}],
            }
        ]

    def answer(self, message):
        if isinstance(message, str):
            return chat_answer(message)
        return chat_answer(None, tool_calls=message["tool_calls"])

    def turn(self, role, text):
        return {"role": role, "content": text}

    def messages(self, body):
        return body["messages"]

    def last_result(self, body):
        last = body["messages"][-1]
        return last["content"] if last["role"] == "tool" else ""


class Anthropic:
    """Anthropic's messages."""

    path = MESSAGES

    def request(self, turns):
        schemas = {name: {"type": "object", "properties": {field: {}}} for name, field in FUNCTIONS.items()}
        tools = [{"name": name, "input_schema": schema} for name, schema in schemas.items()]
        return {"model": "claude-sonnet-4-5", "max_tokens": 300, "messages": turns, "tools": tools}

    def step(self, at):
        name, arguments, _ = call(at)
        use = {"type": "tool_use", "id": f"c{at}", "name": name, "input": arguments}
        block = {"type": "tool_result", "tool_use_id": f"c{at}", "content": result(at)}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]

    def recall(self, **arguments):
        use = {"type": "tool_use", "id": "c_r", "name": "recall", "input": arguments}
        return [{"role": "assistant", "content": [use]}]

    def answer(self, message):
        if isinstance(message, str):
            return message_answer(message)
        return message_answer() | {"content": message["content"], "stop_reason": "tool_use"}

    def turn(self, role, text):
        return {"role": role, "content": text}

    def messages(self, body):
        return body["messages"]

    def last_result(self, body):
        return body["messages"][-1]["content"][-1].get("content", "")


class Responses:
    """OpenAI's Responses API."""

    path = "/v1/responses"

    def request(self, turns):
        tools = [
            {"type": "function", "name": name, "parameters": {"type": "object", "properties": {field: {}}}}
            for name, field in FUNCTIONS.items()
        ]
        return {"model": "gpt-4o", "max_output_tokens": 300, "input": turns, "tools": tools, "store": False}

    def turn(self, role, text):
        return {"role": role, "content": text}

    def step(self, at):
        name, arguments, _ = call(at)
        thought = {"type": "reasoning", "id": f"rs_{at}", "summary": [], "encrypted_content": f"thought-{at}"}
        called = {
            "type": "function_call",
            "id": f"fc_{at}",
            "call_id": f"c{at}",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        output = {"type": "function_call_output", "call_id": f"c{at}", "output": result(at)}
        return [thought, called, output]

    def recall(self, **arguments):
        thought = {"type": "reasoning", "id": "rs_r", "summary": [], "encrypted_content": "thought-r"}
        called = {
            "type": "function_call",
            "id": "fc_r",
            "call_id": "c_r",
            "name": "recall",
            "arguments": json.dumps(arguments),
        }
        return [thought, called]

    def answer(self, *items):
        if isinstance(items[0], str):
            content = [{"type": "output_text", "text": items[0], "annotations": []}]
            items = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]
        usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
        return {"id": "resp", "object": "response", "status": "completed", "output": list(items), "usage": usage}

    def messages(self, body):
        return body["input"]

    def last_result(self, body):
        return body["input"][-1].get("output", "")


class Gemini:
    """Gemini's own API, whose calls have no ids."""

    path = "/v1beta/models/gemini-2.5-pro:generateContent"

    def request(self, turns):
        functions = [
            {"name": name, "parameters": {"type": "object", "properties": {field: {"type": "string"}}}}
            for name, field in FUNCTIONS.items()
        ]
        tools = [{"functionDeclarations": functions}]
        return {"contents": turns, "generationConfig": {"maxOutputTokens": 300}, "tools": tools}

    def turn(self, role, text):
        return {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}

    def step(self, at):
        name, arguments, _ = call(at)
        called = {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": f"signature-{at}"}
        response = {"functionResponse": {"name": name, "response": {"output": result(at)}}}
        return [{"role": "model", "parts": [called]}, {"role": "user", "parts": [response]}]

    def recall(self, **arguments):
        called = {"functionCall": {"name": "recall", "args": arguments}, "thoughtSignature": "signature-r"}
        return [{"role": "model", "parts": [called]}]

    def answer(self, content):
        content = self.turn("assistant", content) if isinstance(content, str) else content
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
        return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}

    def messages(self, body):
        return body["contents"]

    def last_result(self, body):
        return body["contents"][-1]["parts"][-1].get("functionResponse", {}).get("response", {}).get("output", "")


class Ollama:
    """Ollama's own API, whose calls have no ids."""

    path = "/api/chat"

    def request(self, turns):
        tools = [
            {
                "type": "function",
                "function": {"name": name, "description": name, "parameters": {"properties": {field: {}}}},
            }
            for name, field in FUNCTIONS.items()
        ]
        options = {"num_predict": 300}
        return {"model": "qwen3:8b", "stream": False, "messages": turns, "tools": tools, "options": options}

    def step(self, at):
        name, arguments, _ = call(at)
        made = {"function": {"name": name, "arguments": arguments}}
        return [
            {"role": "assistant", "content": "", "thinking": f"thought-{at}", "tool_calls": [made]},
            {"role": "tool", "tool_name": name, "content": result(at)},
        ]

    def recall(self, **arguments):
        made = {"function": {"name": "recall", "arguments": arguments}}
        return [{"role": "assistant", "content": "", "thinking": "thought-r", "tool_calls": [made]}]

    def answer(self, message):
        message = {"role": "assistant", "content": message} if isinstance(message, str) else message
        return {"model": "m", "message": message, "done": True, "prompt_eval_count": 10, "eval_count": 2}

    def turn(self, role, text):
        return {"role": role, "content": text}

    def messages(self, body):
        return body["messages"]

    def last_result(self, body):
        last = body["messages"][-1]
        return last["content"] if last["role"] == "tool" else ""


WIRES = pytest.mark.parametrize(
    "wire",
    [Chat(), Anthropic(), Responses(), Gemini(), Ollama()],
    ids=["chat", "anthropic", "responses", "gemini", "ollama"],
)


NOT_TEXT = ("cache_control", "id", "tool_call_id", "thoughtSignature")  # fields that no model sees


def without_marks(value):
    if isinstance(value, dict):
        return {key: without_marks(each) for key, each in value.items() if key not in NOT_TEXT}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


def common_start(one, other):
    """Return how many characters two long strings have in common at their start."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])  # noqa: FBT003 - what to find


class Run:
    """What a scripted run sent: the needed values that requests had, and how much of each repeats the one before."""

    def __init__(self, wire, client, upstream, *, every=STEPS, **headers):
        turns, self.needed, self.results = [wire.turn("user", TASK)], [], [""]
        headers = {"x-brimful-conversation": "run", "x-brimful-user": "mia"} | headers
        for at in range(STEPS):
            if at and at % every == 0:
                self._send(wire, client, upstream, turns, f"I did {at} steps.", headers)
                self.needed.append("")
                self.results.append("")
                turns += [
                    wire.turn("assistant", f"I did {at} steps."),
                    wire.turn("user", f"Good. Now the next {every} steps, please."),
                ]
            step = wire.step(at)
            self._send(wire, client, upstream, turns, step[:-1], headers)
            turns += step
            self.needed.append(call(at)[2])
            self.results.append(result(at))
        self.bodies = [body for path, _, body in upstream.requests if path == wire.path]
        self.texts = [
            json.dumps([without_marks(body.get("system")), without_marks(wire.messages(body))]) for body in self.bodies
        ]

    def _send(self, wire, client, upstream, turns, reply, headers):
        upstream.answers = [wire.answer(reply) if isinstance(reply, str) else wire.answer(*reply)]
        answer = client.post(wire.path, json=wire.request(turns), headers=headers)
        assert answer.status_code == 200, answer.text

    @property
    def values(self):
        return sum(bool(value) and value in text for value, text in zip(self.needed, self.texts, strict=True))

    @property
    def tasks(self):
        return sum(TASK in text for text in self.texts)

    @cached_property
    def shares(self):
        """How much of each request begins as the one before it."""
        return [common_start(before, after) / len(after) for before, after in pairwise(self.texts)]

    @property
    def prefix(self):
        return sum(self.shares) / len(self.shares)

    @property
    def billed(self):
        """What the run costs in characters, if those of a cached prefix cost a tenth."""
        return sum(len(text) * (1 - 0.9 * share) for text, share in zip(self.texts, [0, *self.shares], strict=True))


# In one loop, and with a turn of the user after every ten steps: both where calls have ids, and where they have none.
@pytest.mark.parametrize(
    ("wire", "every"),
    [
        (Chat(), STEPS),
        (Chat(), 10),
        (Gemini(), STEPS),
        (Gemini(), 10),
        (Anthropic(), 10),
        (Responses(), STEPS),
        (Ollama(), 10),
    ],
    ids=lambda each: str(each) if isinstance(each, int) else type(each).__name__.lower(),
)
def test_an_agent_is_served_as_in_fit_mode(start, upstream, wire, every):
    runs = {}
    for mode in ("fit", "remember"):
        upstream.requests.clear()
        client = start(mode=mode, upstream={"window": 3_500})
        runs[mode] = Run(wire, client, upstream, every=every)
    fit, remember = runs["fit"], runs["remember"]
    assert remember.values >= fit.values > 10
    assert remember.tasks == len(remember.texts)
    assert remember.prefix >= fit.prefix - 0.07
    assert remember.billed <= (1.1 if every == STEPS else 1.3) * fit.billed
    shown = [result in wire.last_result(body) for result, body in zip(remember.results, remember.bodies, strict=False)]
    assert all(shown)


@WIRES
def test_search_results_stay_in_place_in_a_tool_loop(start, upstream, wire):
    client = start(mode="remember", upstream={"window": 60_000})
    for at in range(12):
        memory = {"id": f"m{at}", "content": f"mia_li_3668 wants refunds of broken orders on card {at}.", "user": "mia"}
        assert client.post("/brimful/v1/memories", json=memory).status_code == 201
    turns = [wire.turn("user", TASK)]
    for at in range(4):
        step = wire.step(at)
        upstream.answers = [wire.answer(*step[:-1])]
        assert client.post(
            wire.path,
            json=wire.request(turns),
            headers={"x-brimful-conversation": "run", "x-brimful-user": "mia"},
        ).is_success
        turns += step
        new = {"id": f"new{at}", "content": f"mia_li_3668 wants a refund of broken order {at}.", "user": "mia"}
        client.post("/brimful/v1/memories", json=new)
    sent = [without_marks(wire.messages(body)) for body in upstream.bodies]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
        assert len(after) == len(before) + len(wire.step(0))
    assert "on card 7" in json.dumps(sent[0])
    assert "broken order 0" not in json.dumps(sent[-1])


@WIRES
def test_a_model_that_recalls_in_a_tool_loop_is_answered_and_its_request_goes_on(start, upstream, wire):
    client = start(mode="remember", upstream={"window": 4_500}, remember={"recall": "tool"})
    headers = {"x-brimful-conversation": "run", "x-brimful-user": "mia"}
    turns = [wire.turn("user", TASK), *[item for at in range(READS) for item in wire.step(at)]]
    upstream.answers = [wire.answer(*wire.recall(handle="r9", query="W7003 3.9", max_tokens=320)), wire.answer("Done.")]
    answer = client.post(wire.path, json=wire.request(turns), headers=headers)
    assert answer.status_code == 200, answer.text
    assert "Done." in answer.text
    assert "recall" not in answer.text
    first, second = (without_marks(wire.messages(body)) for body in upstream.bodies)
    assert second[: len(first)] == first
    added = json.dumps(second[len(first) :])
    assert "recall" in added
    assert "door 3.9 left" in added
    assert "door 3.9 left" not in json.dumps(first)
    upstream.answers = [wire.answer(*wire.step(READS)[:-1])]
    turns += [wire.turn("assistant", "Done."), wire.turn("user", "Thanks. Go on.")]
    assert client.post(wire.path, json=wire.request(turns), headers=headers).status_code == 200
    last = json.dumps(wire.messages(upstream.bodies[-1]))
    assert '"recall"' not in last
    stored = client.get("/brimful/v1/rooms/run/messages?limit=200").json()["messages"]
    assert len(stored) == 2 * READS + 4
    assert "recall" not in json.dumps(stored)


def test_memories_that_are_forgotten_are_gone_at_the_next_step(start, upstream):
    wire = Chat()
    client = start(mode="remember")
    client.post("/brimful/v1/memories", json={"id": "m", "content": "mia_li_3668 paid with card_9.", "user": "mia"})
    headers = {"x-brimful-conversation": "run", "x-brimful-user": "mia"}
    turns = [{"role": "user", "content": TASK}]
    upstream.answers = [wire.answer(wire.step(0)[0])]
    client.post(CHAT, json=wire.request(turns), headers=headers)
    assert client.delete("/brimful/v1/memories/m").is_success
    client.post(CHAT, json=wire.request([*turns, *wire.step(0)]), headers=headers)
    first, second = (json.dumps(body) for body in upstream.bodies)
    assert "card_9" in first
    assert "card_9" not in second


def test_the_configured_policy_is_used_for_tools_too(start, upstream):
    client = start(mode="remember", remember={"policy": "window"})
    answer = client.post(
        CHAT, json=Chat().request([{"role": "user", "content": TASK}]), headers={"x-brimful-user": "m"}
    )
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["policy"] == "window"
    assert upstream.bodies
