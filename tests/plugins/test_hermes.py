"""The plugin for Hermes Agent, called as Hermes calls it. `tests/programs` has the same with Hermes itself."""

import copy
import json
import logging
import re
import sys
from abc import ABC, abstractmethod
from itertools import pairwise
from types import ModuleType

import pytest

from brimful.core.labels import HISTORY_OPEN
from brimful.errors import InvalidValue, UnknownPolicy
from brimful.plugins import hermes
from brimful.testing import find_violations

TASK = "Read every page and say which of them mentions the lighthouse. The code is QX-4417."
WIRES = {"chat_completions": "openai", "anthropic_messages": "anthropic"}
WINDOW = 12_000
LINE = re.compile(r"(r\d+) read_page\(page=(\d+)\)")
PARAMETERS = {"type": "object", "properties": {"page": {"type": "integer"}}}
MODULES = ("agent", "agent.context_engine", "hermes_cli", "hermes_cli.config")


class ContextEngine(ABC):
    """What Hermes' own class has, as far as it calls it."""

    last_prompt_tokens = last_completion_tokens = last_total_tokens = 0
    threshold_tokens = context_length = compression_count = 0
    threshold_percent = 0.75

    @property
    @abstractmethod
    def name(self): ...

    @abstractmethod
    def update_from_response(self, usage): ...

    @abstractmethod
    def should_compress(self, prompt_tokens=None): ...

    @abstractmethod
    def compress(self, messages, current_tokens=None, focus_topic=None, *, force=False): ...


class Hermes:
    """What a plugin registers, and the plugins' part of the configuration."""

    def __init__(self):
        self.engine = self.middleware = None
        self.config = {"plugins": {"enabled": ["brimful"]}}

    def register_context_engine(self, engine):
        assert isinstance(engine, ContextEngine)
        self.engine = engine

    def register_middleware(self, kind, middleware):
        assert kind == "llm_request"
        self.middleware = middleware

    def load(self, **options):
        self.config["plugins"]["entries"] = {"brimful": options}
        hermes.register(self)
        return self


class Agent:
    """An agent of Hermes: its own engine, a history in OpenAI's form, and requests in the form of its API."""

    def __init__(self, host, session="s1", mode="chat_completions", model="gpt-4o", window=WINDOW):
        self.host, self.session, self.mode, self.model = host, session, mode, model
        self.history = [{"role": "user", "content": TASK, "_db_persisted": True, "api_content": TASK}]
        self.requests = []
        self.engine = copy.deepcopy(host.engine)
        self.engine.update_model(
            model=model, context_length=window, base_url="", api_key="", provider="custom", api_mode=mode
        )
        self.engine.bind_session_state(session_db=None, session_id=session)
        self.engine.on_session_start(session, platform="cli", model=model, context_length=window)

    @property
    def wire(self):
        return WIRES[self.mode]

    def send(self):
        """Send the history, trimmed by the middleware."""
        request = self.write_request()
        before = copy.deepcopy(request)
        result = self.host.middleware(
            request=request,
            original_request=before,
            session_id=self.session,
            api_mode=self.mode,
            model=self.model,
            provider="custom",
            platform="cli",
            api_call_count=len(self.requests) + 1,
        )
        assert request == before
        self.requests.append(result["request"] if result else request)
        return self.requests[-1]

    def write_request(self):
        schemas = [
            *self.engine.get_tool_schemas(),
            {"name": "read_page", "description": "Read a page.", "parameters": PARAMETERS},
        ]
        if self.mode == "anthropic_messages":
            tools = [{**rest, "input_schema": rest.pop("parameters")} for rest in map(dict, schemas)]
            system = [{"type": "text", "text": "You read.", "cache_control": {"type": "ephemeral"}}]
            messages = to_anthropic(self.history)
            return {"model": self.model, "system": system, "messages": messages, "tools": tools, "max_tokens": 1_000}
        tools = [{"type": "function", "function": schema} for schema in schemas]
        messages = [{"role": "system", "content": "You read."}, *copy.deepcopy(self.history)]
        for message in messages:
            message.pop("_db_persisted", None)
            message.pop("api_content", None)
        return {"model": self.model, "messages": messages, "tools": tools, "max_completion_tokens": 1_000}

    def read_pages(self, pages):
        for page in pages:
            self.send()
            self.answer(page)

    def answer(self, page):
        self.engine.update_from_response({"prompt_tokens": 9_000, "completion_tokens": 9, "total_tokens": 9_009})
        self.history += make_step(page)
        assert not self.engine.should_compress(10**6)

    def recall(self, handle):
        answered = self.engine.handle_tool_call("recall", {"handle": handle}, messages=self.history)
        return json.loads(answered)["result"]

    def compress(self, **options):
        """Shorten the history as Hermes does: user messages that are strings are joined."""
        shorter = self.engine.compress(copy.deepcopy(self.history), **options)
        changed, merged = shorter != self.history, []
        for message in shorter:
            joins = merged and all(each["role"] == "user" for each in (message, merged[-1]))
            if joins and isinstance(message["content"], str) and isinstance(merged[-1]["content"], str):
                merged[-1]["content"] += "\n\n" + message["content"]
            else:
                merged.append(message)
        self.history = merged
        return changed


def make_step(page):
    text = "\n".join(f"{page}-{line} the keeper wrote {page * 7919 + line} words" for line in range(40))
    call = {"name": "read_page", "arguments": json.dumps({"page": page})}
    id = f"call_{page}"
    result = json.dumps({"output": f"Page {page}, seal K{page:03}\n{text}"})
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": id, "content": result, "_db_persisted": True},
    ]


def to_anthropic(history):
    """Translate a history, joining messages of the user as Hermes does."""
    messages = []
    for message in history:
        role, content = message["role"], message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}] * bool(content)
        if role == "tool":
            role = "user"
            blocks = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]
        for call in message.get("tool_calls", []):
            function = call["function"]
            arguments = json.loads(function["arguments"])
            blocks = [{"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": list(blocks)})
    return messages


def count_ledgers(request):
    return json.dumps(request["messages"]).count(json.dumps(HISTORY_OPEN)[1:-1])


def find_lines(request):
    return LINE.findall(json.dumps(request["messages"]))


@pytest.fixture
def host(monkeypatch):
    hermes_now = Hermes()
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["agent.context_engine"].ContextEngine = ContextEngine
    sys.modules["hermes_cli.config"].load_config = lambda: hermes_now.config
    return hermes_now


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", WIRES)
def test_a_long_run_fits_with_one_ledger_and_every_page_can_be_recalled(host, mode):
    agent = Agent(host.load(max_prompt_tokens=6_000), mode=mode)
    agent.read_pages(range(60))
    for request in agent.requests:
        assert find_violations(request, agent.wire) == []
        assert TASK in json.dumps(request["messages"])
        assert count_ledgers(request) <= 1
        assert len(json.dumps(request["messages"])) < 6_000 * 4
    assert len(agent.history) == 1 + 2 * 60
    lines = find_lines(agent.requests[-1])
    assert len(dict(lines)) == len(lines) > 40
    for handle, page in lines:
        assert f"seal K{int(page):03}" in agent.recall(handle)


def test_a_request_that_fits_goes_out_as_it_is(host, caplog):
    agent = Agent(host.load())
    request = {**agent.write_request(), "timeout": object(), "extra_headers": {"x": "y"}}
    with caplog.at_level(logging.WARNING, logger="brimful"):
        assert host.middleware(request=request, session_id="s1", api_mode="chat_completions") is None
    assert caplog.text == ""


def test_other_arguments_of_a_trimmed_request_stay(host):
    agent, timeout = Agent(host.load(max_prompt_tokens=3_000)), object()
    agent.history += [message for page in range(20) for message in make_step(page)]
    request = {**agent.write_request(), "timeout": timeout, "extra_headers": {"x": "y"}}
    trimmed = host.middleware(request=request, session_id="s1", api_mode="chat_completions")["request"]
    assert len(trimmed["messages"]) < len(request["messages"])
    assert trimmed["timeout"] is timeout
    assert trimmed["extra_headers"] == {"x": "y"}


def test_each_conversation_has_a_window_and_handles_of_its_own(host):
    host.load()
    small, large = Agent(host, "small", window=6_000), Agent(host, "large", window=100_000)
    for page in range(30):
        small.read_pages([page])
        large.read_pages([page + 100])
    assert count_ledgers(small.requests[-1]) == 1
    assert count_ledgers(large.requests[-1]) == 0
    assert "seal K000" in small.recall("r3")
    assert "seal K100" in large.recall("r3")


def test_a_smaller_window_holds_from_the_next_request_on(host):
    agent = Agent(host.load(), window=100_000)
    agent.read_pages(range(30))
    agent.engine.update_model(model="gpt-4o", context_length=6_000, api_mode="chat_completions")
    assert count_ledgers(agent.requests[-1]) == 0
    assert count_ledgers(agent.send()) == 1


def test_a_copy_of_the_engine_has_numbers_of_its_own(host):
    first = Agent(host.load(), window=5_000)
    second = copy.deepcopy(first.engine)
    second.update_model(model="other", context_length=9_000, api_mode="chat_completions")
    second.bind_session_state(session_id="s2")
    assert (first.engine.context_length, first.engine.threshold_tokens) == (5_000, 5_000)
    first.read_pages(range(20))
    assert count_ledgers(first.requests[-1]) == 1


def test_without_the_engine_requests_stay_as_they_are(host):
    agent = Agent(host.load(max_prompt_tokens=2_000))
    agent.history += [message for page in range(20) for message in make_step(page)]
    for given in ({"session_id": "unknown", "api_mode": "chat_completions"}, {"session_id": "s1"}):
        assert host.middleware(request=agent.write_request(), **given) is None


@pytest.mark.parametrize("messages", [5, [5], [{"role": "user", "content": "word " * 9_000}]])
def test_a_request_that_cannot_be_fitted_goes_out_as_it_was_and_is_logged(host, caplog, messages):
    agent = Agent(host.load(max_prompt_tokens=100))
    request = {**agent.write_request(), "messages": messages}
    with caplog.at_level(logging.WARNING, logger="brimful"):
        assert host.middleware(request=request, session_id="s1", api_mode="chat_completions") is None
    assert "The request is sent as it was" in caplog.text


# -- a shorter history -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", WIRES)
@pytest.mark.parametrize("rotates", [False, True])
def test_after_a_refusal_the_history_is_shorter_and_the_run_goes_on_with_one_ledger(host, mode, rotates):
    agent = Agent(host.load(), mode=mode)
    agent.read_pages(range(20))
    agent.send()
    before = len(agent.history)
    assert agent.compress()
    assert len(agent.history) < before
    assert not any(key in message for message in agent.history for key in ("_db_persisted", "api_content"))
    if rotates:
        agent.session = "s2"
        agent.engine.on_session_start("s2", boundary_reason="compression", old_session_id="s1")
    agent.read_pages(range(20, 60))
    for request in agent.requests[-40:]:
        assert find_violations(request, agent.wire) == []
        assert count_ledgers(request) == 1
        assert TASK in json.dumps(request["messages"])
    lines = find_lines(agent.requests[-1])
    assert len(dict(lines)) == len(lines) > 40
    for handle, page in lines:
        assert f"seal K{int(page):03}" in agent.recall(handle)


def test_a_history_gets_shorter_with_each_refusal(host):
    agent = Agent(host.load())
    agent.read_pages(range(40))
    sizes = [len(json.dumps(agent.history))]
    for _ in range(3):
        agent.send()
        assert agent.compress()
        sizes.append(len(json.dumps(agent.history)))
    assert all(after < before * 0.7 for before, after in pairwise(sizes))
    assert agent.engine.compression_count == 3


def test_the_history_stays_whole_unless_a_request_was_refused_or_the_user_wants_it_shorter(host):
    agent = Agent(host.load())
    agent.read_pages(range(20))
    assert not agent.compress()
    assert agent.compress(force=True)


def test_a_history_that_cannot_be_shortened_stays_and_is_logged(host, caplog):
    agent = Agent(host.load())
    agent.history = [{"role": "user"}]
    with caplog.at_level(logging.WARNING, logger="brimful"):
        assert agent.engine.compress(agent.history, force=True) == agent.history
    assert "The history stays as it is" in caplog.text


def test_without_trimmed_requests_the_history_is_shortened_at_the_window(host):
    agent = Agent(host.load())
    agent.engine.update_model(model="m", context_length=WINDOW, api_mode="bedrock_converse")
    assert not agent.engine.should_compress(WINDOW - 1)
    assert agent.engine.should_compress(WINDOW)
    agent.history += [message for page in range(20) for message in make_step(page)]
    assert agent.compress()


# -- recall and options ------------------------------------------------------------------------------------------------


def test_a_recall_with_wrong_arguments_gets_an_answer_that_says_what_to_do(host):
    agent = Agent(host.load())
    assert "error" in json.loads(agent.engine.handle_tool_call("recall", {"handle": "r3"}, messages=[]))
    agent.read_pages(range(3))
    assert "seal K000" in agent.recall("r3")
    assert "no such handle" in agent.recall("r999")
    assert "pass a handle" in agent.recall(["r3"])
    assert "handle" in json.loads(agent.engine.handle_tool_call("recall", "no JSON"))["result"]


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"max_prompt_tokens": "many"}, InvalidValue),
        ({"max_prompt_tokens": -1}, InvalidValue),
        ({"policy": "nonesuch"}, UnknownPolicy),
        ({"policy": 5}, InvalidValue),
    ],
)
def test_a_wrong_option_is_an_error_when_hermes_starts(entry, error):
    with pytest.raises(error):
        hermes.read_options({"plugins": {"entries": {"brimful": entry}}})


def test_without_options_or_with_a_damaged_configuration_defaults_apply():
    for config in (None, [], {}, {"plugins": None}, {"plugins": {"entries": []}}):
        assert hermes.read_options(config) == {}


def test_an_unknown_option_is_logged_and_ignored(caplog):
    entry = {"max_tokens": 5, "policy": "fit"}
    with caplog.at_level(logging.WARNING, logger="brimful"):
        assert hermes.read_options({"plugins": {"entries": {"brimful": entry}}}) == {"policy": "fit"}
    assert "only max_prompt_tokens and policy are options" in caplog.text


def test_an_option_chooses_the_policy(host):
    agent = Agent(host.load(policy="fit", max_prompt_tokens=3_000))
    agent.read_pages(range(30))
    assert count_ledgers(agent.requests[-1]) == 0
    assert len(agent.requests[-1]["messages"]) < 30
