"""The plugin of opencode and pi, called by Node as these programs call it, with messages that were recorded there."""

import asyncio
import copy
import json
import re
import shutil
import subprocess
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest

from brimful.core.labels import HISTORY_OPEN
from brimful.counting import counter_for
from brimful.models import default_registry
from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.stores import connect
from brimful.testing import find_violations
from brimful.wires.incoming import read_incoming
from server.upstream import serving

PLUGIN = str(files("brimful.plugins") / "brimful.js")
FOLDER = Path(__file__).parent
TASK = "QX-4417"
LEDGER = HISTORY_OPEN.splitlines()[0]
BUDGET = 3_500
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")


def page(number):
    lines = [f"{line:02} at {number * 7919 + line * 104729} the keeper saw a light in the fog" for line in range(30)]
    return "\n".join([f"Page {number}, seal K{number:03}", *lines])


class Opencode:
    """Messages of opencode: a call and its result are one part."""

    name = "opencode"

    def __init__(self):
        recorded = json.loads((FOLDER / "opencode.json").read_text())
        self.host, self.messages = recorded["host"], recorded["messages"]
        for message in self.messages:
            if "tokens" in message["info"]:
                message["info"]["tokens"] = {"input": 0, "output": 0, "cache": {"read": 0, "write": 0}}
        self.step = self.messages[1]

    def add_step(self, number, output):
        message = copy.deepcopy(self.step)
        message["info"]["id"] = f"msg_{number:06}"
        tool = message["parts"][1]
        tool |= {"id": f"prt_{number:06}", "callID": f"call_{number:06}", "messageID": f"msg_{number:06}"}
        tool["state"] |= {"output": output, "input": {"command": f"cat page_{number}.txt"}}
        self.messages.append(message)

    def ask(self, text):
        message = copy.deepcopy(self.messages[6])
        message["info"]["id"] = f"msg_ask_{len(self.messages)}"
        message["parts"][0]["text"] = text
        self.messages.append(message)

    def ids(self, messages):
        return [message["info"]["id"] for message in messages]

    def is_ledger(self, message):
        return message["info"]["role"] == "user" and LEDGER in message["parts"][-1]["text"]

    def set_window(self, tokens):
        self.host["providers"][0]["models"]["gpt-4o"]["limit"] = {"context": tokens, "output": 100}

    def request(self, messages):
        """Return the request that opencode makes of messages."""
        wires = [wire for message in messages for wire in self._wires(message)]
        tools = [{"name": t["id"], "description": t["description"], "parameters": t["parameters"]} for t in self._tools]
        return make_request(self.host["system"], wires, tools)

    @property
    def _tools(self):
        return self.host["tools"]

    def _wires(self, message):
        if message["info"]["role"] == "user":
            yield {"role": "user", "content": [_user_part(part) for part in message["parts"]]}
            return
        parts, tools = message["parts"], [part for part in message["parts"] if part["type"] == "tool"]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        calls = [make_call(part["callID"], part["tool"], part["state"]["input"]) for part in tools]
        yield {"role": "assistant", "content": "\n".join(texts) or None} | ({"tool_calls": calls} if calls else {})
        for part in tools:
            state = part["state"]
            content = [{"type": "text", "text": state.get("output", state.get("error"))}]
            content += [make_image(each["url"]) for each in state.get("attachments", ())]
            yield {"role": "tool", "tool_call_id": part["callID"], "content": content}


def _user_part(part):
    return make_image(part["url"]) if part["type"] == "file" else {"type": "text", "text": part["text"]}


class Pi:
    """Messages of pi: results are messages of their own."""

    name = "pi"

    def __init__(self):
        recorded = json.loads((FOLDER / "pi.json").read_text())
        self.host, self.messages = recorded["host"], recorded["messages"]
        self.step = self.messages[1:3]

    def add_step(self, number, output):
        call, result = copy.deepcopy(self.step)
        call["content"][0] |= {"id": f"call_{number:06}", "arguments": {"command": f"cat page_{number}.txt"}}
        result |= {"toolCallId": f"call_{number:06}", "content": [{"type": "text", "text": output}]}
        self.messages += [call, result]

    def ask(self, text):
        self.messages.append({"role": "user", "content": text, "timestamp": 1_795_051_150_000})

    def ids(self, messages):
        return [json.dumps(message) for message in messages]

    def is_ledger(self, message):
        return message["role"] == "user" and LEDGER in json.dumps(message)

    def set_window(self, tokens):
        self.host["model"] |= {"contextWindow": tokens, "maxTokens": 100}

    def request(self, messages):
        """Return the request that pi makes of messages."""
        return make_request(self.host["system"], [self._wire(message) for message in messages], self.host["tools"])

    def _wire(self, message):
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [part if part["type"] == "text" else _pi_image(part) for part in parts if part["type"] != "toolCall"]
        if message["role"] == "toolResult":
            return {"role": "tool", "tool_call_id": message["toolCallId"], "content": texts}
        calls = [make_call(part["id"], part["name"], part["arguments"]) for part in parts if part["type"] == "toolCall"]
        return {"role": message["role"], "content": texts or None} | ({"tool_calls": calls} if calls else {})


def _pi_image(part):
    return make_image(f"data:{part['mimeType']};base64,{part['data']}")


PROGRAMS = [Opencode, Pi]


def make_request(system, wires, tools):
    definitions = [{"type": "function", "function": tool} for tool in tools]
    return {"model": "gpt-4o", "messages": [{"role": "system", "content": system}, *wires], "tools": definitions}


def make_call(id, name, arguments):
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))},
    }


def make_image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def count(request):
    counter = counter_for(default_registry().resolve("gpt-4o"), "exact")
    return counter.prompt(read_incoming(request, "openai").prompt).tokens


@pytest.fixture(scope="module")
def node():
    """Start Node once: that takes longer than what most tests do with it."""
    with subprocess.Popen(
        [NODE, str(FOLDER / "host.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={}
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def call_plugin(node):
    """Return a function that lets Node call the plugin, and returns what Node printed about the plugin's work."""

    def call(program, url, rounds=None, *, recalls=(), **options):
        settings = {"url": url, "budget": BUDGET} | options
        names = {"url": "BRIMFUL_URL", "budget": "BRIMFUL_BUDGET", "apiKey": "BRIMFUL_API_KEY"}
        scenario = {
            "plugin": PLUGIN,
            "program": program.name,
            "environment": {names[key]: str(value) for key, value in settings.items() if value is not None},
            "options": settings,
            "host": program.host,
            "messages": program.messages,
            "rounds": [len(program.messages)] if rounds is None else list(rounds),
            "recalls": list(recalls),
        }
        node.stdin.write(json.dumps(scenario) + "\n")
        node.stdin.flush()
        printed = node.stdout.readline()
        assert printed, "Node has ended: standard error says why"
        return json.loads(printed)

    return call


@contextmanager
def running(folder, empty, *, wrap=lambda app: app, **config):
    """Run the server with an empty store; yield its address."""
    shutil.copy(empty, folder / "brimful.db")
    settings = parse_config({"store": f"sqlite:///{folder}/brimful.db"} | config, "brimful.toml")
    with serving(wrap(create_app(settings, environ={}))) as (address, _):
        yield address


@pytest.fixture
def server(tmp_path, empty_sqlite):
    with running(tmp_path, empty_sqlite) as address:
        warm_up(address, make_request("", [{"role": "user", "content": "Hi"}], []))
        yield address


def warm_up(address, request, **headers):
    """Let a server load what it needs to trim a request: a busy machine may need more than two seconds for that."""
    body = {"request": request, "max_prompt_tokens": BUDGET}
    httpx2.post(f"{address}/brimful/v1/fit", json=body, headers=headers, timeout=60).raise_for_status()


@pytest.fixture(params=PROGRAMS, ids=lambda each: each.name)
def program(request):
    return request.param()


@pytest.fixture
def agent(program):
    """A program after 40 more steps, with several times the tokens of the budget."""
    for number in range(1, 41):
        program.add_step(number, page(number))
    return program


def rounds_of(program):
    """Return after how many messages the model was asked: after each result, and the user's messages."""
    return [len(program.messages[: at + 1]) for at in range(len(program.messages)) if is_asked(program, at)]


def is_asked(program, at):
    following = program.messages[at + 1] if at + 1 < len(program.messages) else None
    role = following and (following.get("role") or following["info"]["role"])
    return role in (None, "assistant")


def test_a_growing_conversation_always_fits(agent, server, call_plugin):
    assert count(agent.request(agent.messages)) > 3 * BUDGET
    done = call_plugin(agent, server, rounds_of(agent))
    assert (done["warnings"], done["exports"]) == ([], [])
    requests = [agent.request(each["messages"]) for each in done["results"]]
    ledgers = []
    for number, (each, request) in enumerate(zip(done["results"], requests, strict=True)):
        text = json.dumps(request)
        assert each["isSameList"]
        assert count(request) <= BUDGET, number
        assert find_violations(request, "openai") == [], number
        assert text.count(TASK) == 1, number
        ledgers.append(text.count(LEDGER))
    assert ledgers == sorted(ledgers)
    assert (ledgers[0], ledgers[-1]) == (0, 1)


def test_messages_that_stay_are_the_programs_own(agent, server, call_plugin):
    result = call_plugin(agent, server, rounds_of(agent)[-2:])["results"][-1]
    before, after = agent.ids(agent.messages), agent.ids(result["messages"])
    assert len(after) < len(before) / 2
    changed = [each for each in result["messages"] if each not in agent.messages]
    assert all(each in before for each in after) or agent.name == "pi"
    assert result["messages"][-1] == agent.messages[-1]
    assert 1 <= len(changed) < len(after)
    for message in changed:
        assert agent.is_ledger(message) or "recall" in json.dumps(message), message


def test_a_conversation_that_fits_is_not_changed(program, server, call_plugin):
    done = call_plugin(program, server, rounds_of(program))
    assert done["warnings"] == []
    for result, round in zip(done["results"], rounds_of(program), strict=True):
        assert result["messages"] == program.messages[:round]


def test_each_handle_of_the_ledger_leads_to_its_result(agent, server, call_plugin):
    result = call_plugin(agent, server, rounds_of(agent))["results"][-1]
    text = json.dumps(agent.request(result["messages"]))
    lines = re.findall(r"\\n(r\d+) bash\(command=cat page_(\d+).txt\)", text)
    assert len(lines) >= 20
    recalls = [{"handle": f'recall "{handle}"', "max_tokens": 4000} for handle, _ in lines]
    assert call_plugin(agent, server, recalls=recalls)["recalled"] == [page(int(number)) for _, number in lines]


def test_the_model_recalls_by_words_and_hears_what_is_wrong(agent, server, call_plugin):
    wrong = [{"handle": "r999"}, {"query": "zebra"}, {}, {"handle": "r12", "max_tokens": "many"}]
    found, *answers = call_plugin(agent, server, recalls=[{"query": "seal K003"}, *wrong])["recalled"]
    assert "seal K003" in found
    assert answers[0].startswith("Error: ")
    assert answers[1].startswith("Nothing that was left out matches.")
    assert answers[2].startswith("Error: ")
    assert answers[3]
    [early] = call_plugin(agent, server, rounds=[], recalls=[{"handle": "r3"}])["recalled"]
    assert early == "Nothing was left out of this conversation."


# -- failures ----------------------------------------------------------------------------------------------------------


class Answers:
    """A server in front of the real one. It answers a fit as `change` says, where it returns something."""

    def __init__(self, app, change):
        self.app, self.change, self.fits = app, change, 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].endswith("/fit"):
            return await self.app(scope, receive, send)
        self.fits += 1
        answer = await self.change(self.fits)
        if answer is None:
            return await self.app(scope, receive, send)
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        await send({"type": "http.response.start", "status": status, "headers": []})
        return await send({"type": "http.response.body", "body": body if isinstance(body, bytes) else encode(body)})


def encode(value):
    return json.dumps(value).encode()


def fitted(**changes):
    """Return an answer for two messages, the system prompt and the user's."""
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    answer = {"id": "ctx-1", "tokens": 9, "positions": [0, 1], "shortened": [], "ledger": ""}
    return answer | {"request": {"messages": messages}} | changes


BAD_ANSWERS = {
    "error": (400, {"error": {"message": "the required parts do not fit", "code": "context_length_exceeded"}}),
    "busy": (503, b""),
    "page": (200, b"<html>Welcome to nginx</html>"),
    "null": (200, None),
    "list": (200, []),
    "empty": (200, {}),
    "unknown position": fitted(positions=[0, 999]),
    "position twice": fitted(positions=[1, 1]),
    "position is no number": fitted(positions=[0, "x"]),
    "too few messages": fitted(positions=[0, 1, 2]),
    "too many messages": fitted(positions=[0]),
    "no ledger": fitted(ledger="<history>…</history>"),
    "part of a step": fitted(positions=[0, 4]),
    "no content": fitted(shortened=[1], request={"messages": [{"role": "system", "content": ""}, {"role": "user"}]}),
    "other parts": fitted(
        shortened=[1],
        request={"messages": [{"role": "system", "content": ""}, {"role": "user", "content": [{"type": "text"}] * 9}]},
    ),
    "no list": fitted(request={"messages": {}}),
}


def always(answer):
    async def change(_):
        return answer

    return change


@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_bad_answer_leaves_the_messages_alone(answer, program, call_plugin):
    if program.name == "pi" and answer == BAD_ANSWERS["part of a step"]:
        answer = fitted(positions=[0, 500])
    with serving(Answers(None, always(answer))) as (address, _):
        done = call_plugin(program, address, rounds_of(program)[:3])
    for result, round in zip(done["results"], rounds_of(program)[:3], strict=True):
        assert (result["messages"], result["isSameList"]) == (program.messages[:round], True)
    assert len(done["warnings"]) == 1
    assert done["warnings"][0].startswith("Brimful did not fit this request, which is sent as it is: ")


def test_without_a_server_the_messages_stay_with_one_warning(program, call_plugin):
    with serving(Answers(None, always({}))) as (address, _):
        pass  # the port is free again
    done = call_plugin(program, address, rounds_of(program), recalls=[{"handle": "r3"}])
    assert [each["messages"] for each in done["results"]] == [program.messages[:n] for n in rounds_of(program)]
    runs = 2 if program.name == "opencode" else 1  # the recorded conversation has two messages of the user
    assert len(done["warnings"]) == runs


def test_a_server_that_hangs_gets_two_seconds(program, call_plugin):
    async def hang(scope, receive, _):
        while scope["type"] == "http" and (await receive())["type"] != "http.disconnect":
            pass

    with serving(hang) as (address, _):
        done = call_plugin(program, address)
    [result] = done["results"]
    assert result["messages"] == program.messages
    assert 1.9 < result["seconds"] < 4
    assert "no answer from http://127.0.0.1:" in done["warnings"][0]
    assert len(done["warnings"]) == 1


def test_a_server_that_fails_in_the_middle_is_used_again(agent, tmp_path, empty_sqlite, call_plugin):
    rounds = rounds_of(agent)

    async def fail(number):
        return (502, b"") if 10 <= number < 20 else None

    with running(tmp_path, empty_sqlite, wrap=lambda app: Answers(app, fail)) as address:
        done = call_plugin(agent, address, rounds)
    kept = [each["messages"] == agent.messages[:round] for each, round in zip(done["results"], rounds, strict=True)]
    assert kept[9:19] == [True] * 10
    assert not any(kept[19:])
    assert all(count(agent.request(each["messages"])) <= BUDGET for each in done["results"][19:])
    assert len(done["warnings"]) == 1


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_environment_is_read_and_options_win(program, tmp_path, empty_sqlite, call_plugin):
    for number in range(1, 13):
        program.add_step(number, page(number))
    assert count(program.request(program.messages)) > BUDGET
    with running(tmp_path, empty_sqlite, require_keys=True) as address:
        key = asyncio.run(add_key(tmp_path))
        warm_up(address, program.request(program.messages), authorization=f"Bearer {key}")
        refused = call_plugin(program, address)
        [fitted] = call_plugin(program, f"{address}/", apiKey=key)["results"]
    assert "key" in refused["warnings"][0]
    assert refused["results"][0]["messages"] == program.messages
    assert count(program.request(fitted["messages"])) <= BUDGET


async def add_key(folder):
    async with connect(f"sqlite:///{folder}/brimful.db") as database:
        return (await database.api_keys("acme").create(name="pi", scopes=["chat"], at=1.0))[1]


def test_without_a_budget_the_window_of_the_model_is_the_limit(agent, server, call_plugin):
    whole = count(agent.request(agent.messages))
    [result] = call_plugin(agent, server, budget=None)["results"]
    assert result["messages"] == agent.messages
    agent.set_window(whole)
    rounds = [len(agent.messages) - 1, len(agent.messages)] if agent.name == "opencode" else None
    result = call_plugin(agent, server, rounds, budget=None)["results"][-1]
    assert count(agent.request(result["messages"])) < 0.95 * whole


# -- messages of each program ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [Opencode], ids=["opencode"], indirect=True)
def test_tokens_that_opencode_does_not_show_are_taken_off_the_limit(agent, server, call_plugin):
    """Definitions of MCP servers' tools are in what the provider bills, but not among the tools that opencode lists."""
    bill = agent.messages[-2]["info"]["tokens"]
    rounds = [len(agent.messages) - 2, len(agent.messages) - 1, len(agent.messages)]
    before = call_plugin(agent, server, rounds)["results"][-1]["messages"]
    bill |= {"input": 400, "cache": {"read": 2 * BUDGET, "write": 0}}
    assert call_plugin(agent, server, rounds)["results"][-1]["messages"] != before
    agent.messages[-1]["info"]["tokens"] = {"input": BUDGET + 1_000, "cache": {"read": 0, "write": 0}}
    after = call_plugin(agent, server, [*rounds[:2], rounds[2]])["results"][-1]["messages"]
    assert count(agent.request(after)) <= BUDGET / 2


@pytest.mark.parametrize("program", [Opencode], ids=["opencode"], indirect=True)
def test_the_first_request_leaves_room_for_the_system_prompt_of_opencode(agent, server, call_plugin):
    done = call_plugin(agent, server, [len(agent.messages)] * 2)
    assert done["warnings"] == []
    first, second = done["results"]
    assert count(agent.request(first["messages"])) < 0.6 * BUDGET
    assert count(agent.request(second["messages"])) > 0.7 * BUDGET


@pytest.mark.parametrize("program", [Opencode], ids=["opencode"], indirect=True)
def test_parts_of_opencode_are_counted_as_they_are_sent(program, server, call_plugin):
    user, step = program.messages[0], program.messages[1]
    user["parts"] += [
        {"type": "text", "text": "hidden", "ignored": True},
        {"type": "file", "mime": "text/plain", "url": "file:///notes.txt", "filename": "notes.txt"},
        {"type": "file", "mime": "application/pdf", "url": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"},
        {"type": "compaction", "auto": True},
        {"type": "subtask", "prompt": "x"},
    ]
    states = [
        {"status": "running", "input": {"command": "make"}},
        {"status": "error", "input": {}, "error": "no", "metadata": {"interrupted": True, "output": "half"}},
        {"status": "completed", "input": {}, "output": page(1), "time": {"compacted": 1}, "metadata": {}},
    ]
    for number, state in enumerate(states):
        message = copy.deepcopy(step)
        message["parts"][1] |= {"state": state, "callID": f"odd_{number}"}
        program.messages.append(message)
    failed, aborted = copy.deepcopy(step), copy.deepcopy(step)
    failed["info"]["error"] = {"name": "APIError", "data": {}}
    aborted["info"]["error"] = {"name": "MessageAbortedError", "data": {}}
    failed["parts"][1]["callID"], aborted["parts"][1]["callID"] = "failed", "aborted"
    thought = copy.deepcopy(step)
    thought["parts"] = [{"type": "reasoning", "text": "Hm."}]
    program.messages += [failed, aborted, thought, {"info": step["info"], "parts": []}]
    program.ask("And now?")
    bodies = []
    with running_with_log(bodies, server) as address:
        [result] = call_plugin(program, address, budget=None)["results"]
    assert result["messages"] == program.messages
    sent = bodies[0]["request"]["messages"]
    assert [part.get("text", part["type"]) for part in sent[1]["content"]][-3:] == [
        "file",
        "What did we do so far?",
        "The following tool was executed by the user",
    ]
    results = {each["tool_call_id"]: each["content"][0]["text"] for each in sent if each["role"] == "tool"}
    assert results["odd_0"] == "[Tool execution was interrupted]"
    assert results["odd_1"] == "half"
    assert results["odd_2"] == "[Old tool result content cleared]"
    assert "aborted" in results
    assert "failed" not in results
    assert "hidden" not in json.dumps(sent)


@pytest.mark.parametrize("program", [Pi], ids=["pi"], indirect=True)
def test_messages_of_pis_own_are_counted_as_they_are_sent(program, server, call_plugin):
    program.messages += [
        {"role": "bashExecution", "command": "ls", "output": "a.txt", "exitCode": 2, "timestamp": 1},
        {"role": "bashExecution", "command": "secret", "output": "", "excludeFromContext": True, "timestamp": 1},
        {"role": "custom", "customType": "note", "content": "Mind the tide.", "timestamp": 1},
        {"role": "branchSummary", "summary": "We tried the north.", "timestamp": 1},
        {"role": "compactionSummary", "summary": "We read ten pages.", "timestamp": 1},
        {"role": "assistant", "content": [{"type": "text", "text": "broken off"}], "stopReason": "error"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}], "stopReason": "stop"},
        {"role": "user", "content": "And now?", "timestamp": 2},
    ]
    bodies = []
    with running_with_log(bodies, server) as address:
        [result] = call_plugin(program, address, budget=None)["results"]
    assert result["messages"] == program.messages
    sent = json.dumps(bodies[0]["request"]["messages"])
    assert all(each in sent for each in ("a.txt", "code 2", "Mind the tide.", "the north", "ten pages", "Hm."))
    assert not any(each in sent for each in ("secret", "broken off"))


def test_half_characters_do_not_stop_a_fit(agent, server, call_plugin):
    """A program that cuts a text may leave half of a character, which is not valid in UTF-8."""
    agent.add_step(99, page(99) + "\ud83d")
    done = call_plugin(agent, server)
    assert done["warnings"] == []
    assert count(agent.request(done["results"][0]["messages"])) <= BUDGET


@contextmanager
def running_with_log(bodies, server):
    """Run a server that passes requests on to another one, and keeps their bodies."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        bodies.append(json.loads(body))
        answer = httpx2.post(server + scope["path"], content=body, headers={"content-type": "application/json"})
        await send({"type": "http.response.start", "status": answer.status_code, "headers": []})
        await send({"type": "http.response.body", "body": answer.content})

    with serving(app) as (address, _):
        yield address
