"""Limits of what API keys and users may use of models, in every mode and wire format."""

import asyncio
import re
from contextlib import nullcontext, suppress
from decimal import Decimal

import httpx2
import pytest

from brimful.core.content import Text, ToolCall
from brimful.errors import InvalidConfig, StoreUnavailable
from brimful.models import default_registry
from brimful.models.costs import usage_cost
from brimful.records import Persona, Room, Usage
from brimful.records.limits import UsageLimits
from brimful.records.reply import Reply
from brimful.server.access import Client
from brimful.server.app import create_app
from brimful.server.background import BackgroundTasks
from brimful.server.config import parse_config
from brimful.server.limits import LOOKUP_SECONDS, KnownLimits, Limiter
from brimful.server.proxy.upstreams import Upstreams
from brimful.stores import connect
from brimful.testing import ScriptedServer
from brimful.wires import find_wire
from server.upstream import chat_answer, chat_events, message_events, serving

CHAT = "/v1/chat/completions"
HI = {"model": "gpt-4o", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}], "user": "ada"}
RESERVED = 18  # tokens for HI: 8 of the prompt and 10 for the answer
BILLED = 15  # by the fake upstream
NOON = 1_700_000_000.0 // 86_400 * 86_400 + 43_200
EMBEDDING = {"object": "list", "data": [], "model": "up", "usage": {"prompt_tokens": 5, "total_tokens": 5}}
PRICED = 8 * 2.5e-6 + 10 * 1e-5  # dollars for HI with GPT-4o


class Clock:
    """A clock that stands still."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def limited(start, clock):
    """Return a function that starts a server with limits for each user, and gives a client of it."""
    return lambda limits, kind="users", **config: start(clock=clock, limits={kind: limits}, **config)


@pytest.fixture
def stored(start, clock):
    """Return a function that waits for the end of all requests and returns what was used on the day."""

    def read(name="ada", kind="user", tenant="default"):
        start.wait()

        async def reading():
            async with connect(f"sqlite:///{start.store}") as database:
                return (await database.limits(tenant).used(kind, name, now=clock.now))["day"]

        return asyncio.run(reading())

    return read


def set_own(start, kind, name, limits, tenant="default"):
    async def setting():
        async with connect(f"sqlite:///{start.store}") as database:
            await database.limits(tenant).set_own(kind, name, limits)

    asyncio.run(setting())


def statuses(client, times, path=CHAT, body=HI, **more):
    return [client.post(path, json=body, **more).status_code for _ in range(times)]


def test_requests_of_a_minute_are_limited(limited, clock, upstream):
    client = limited({"requests_per_minute": 2})
    assert statuses(client, 2) == [200, 200]
    clock.now += 47
    refused = client.post(CHAT, json=HI)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "13")
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert refused.json()["error"]["message"] == (
        "rate limit: the user 'ada' may use 2 requests per minute; used so far: 2. "
        "The next minute begins at 12:01 UTC, in 13 seconds"
    )
    assert statuses(client, 1, body=HI | {"user": "bob"}) == [200]
    clock.now += 13
    assert statuses(client, 3) == [200, 200, 429]
    assert len(upstream.requests) == 5


def test_tokens_are_reserved_and_then_counted_as_they_are_billed(limited, stored):
    client = limited({"tokens_per_day": BILLED * 2 + RESERVED})
    assert statuses(client, 4) == [200, 200, 200, 402]
    assert (stored().tokens, stored().reserved_tokens) == (BILLED * 3, 0)


def test_a_reservation_counts_while_the_request_is_under_way(limited, upstream, clock):
    upstream.silent = True
    client = limited({"tokens_per_minute": RESERVED * 2 - 1})
    with pytest.raises(httpx2.TimeoutException):
        client.post(CHAT, json=HI, timeout=0.5)
    upstream.silent = False
    refused = client.post(CHAT, json=HI)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    clock.now += 60
    assert statuses(client, 1) == [200]


def test_dollars_are_limited(limited, stored, upstream):
    client = limited({"dollars_per_day": PRICED * 1.4})
    assert statuses(client, 2) == [200, 402]
    assert stored().nanodollars == pytest.approx((12 * 2.5e-6 + 3 * 1e-5) * 1e9)
    unknown = client.post(CHAT, json=HI | {"model": "my-own-model"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (403, "unknown_price")
    assert "'my-own-model'" in unknown.json()["error"]["message"]
    assert len(upstream.requests) == 1


def test_the_price_of_one_of_several_models_is_not_known(limited, upstream):
    client, several = limited({"dollars_per_day": 1}), HI | {"models": ["gpt-4o", "o3"]}
    for path, body in ((CHAT, several), ("/v1/completions", several | {"prompt": "Hi"})):
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unknown_price")
    assert upstream.requests == []
    assert statuses(limited({"tokens_per_day": 1_000}), 1, body=several) == [200]


def test_a_model_with_another_name_at_its_upstream_has_the_price_of_its_own(limited, stored):
    client = limited({"dollars_per_day": 1}, upstream={"rename": {"gpt-4o": "my-deployment"}})
    assert statuses(client, 1) == [200]
    assert stored().nanodollars == pytest.approx((12 * 2.5e-6 + 3 * 1e-5) * 1e9)


def test_a_model_that_only_the_price_list_knows_has_a_price():
    config = {"upstreams": [{"name": "openai", "url": "https://api.openai.com/v1"}]}
    environ = {"OPENAI_API_KEY": "sk-1"}
    upstream = Upstreams(parse_config(config, "brimful.toml"), environ=environ).find(find_wire("openai"), "any")
    model = upstream.resolve(default_registry(), "text-embedding-3-small")
    usage = Usage(prompt=1_000_000, completion=0)
    assert (usage_cost(model, usage, NOON), usage_cost(upstream.with_maker(model), usage, NOON)) == (
        None,
        Decimal("0.02"),
    )


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_an_upstream_whose_price_is_not_known_does_not_stand_in(limited, upstream, path):
    upstream.answers = [(503, {"error": {"message": "overloaded"}}), chat_answer()]
    local = {"name": "one", "url": f"{upstream.address}/v1", "window": 8192, "limits": {"max_attempts": 1}}
    dear = local | {"name": "two", "like": "my-own-model"}
    client = limited({"dollars_per_day": 1}, upstreams=[local, dear, local | {"name": "three"}])
    answer = client.post(path, json=HI | {"prompt": "Hi"})
    assert (answer.status_code, answer.headers["x-brimful-upstream"]) == (200, "three")
    upstream.answers = [(503, {"error": {"message": "overloaded"}})]
    assert limited({"dollars_per_day": 1}, upstreams=[local, dear]).post(path, json=HI).status_code == 503


def openai(kind, code):
    return lambda error: (error["type"], error["code"]) == (kind, code)


OPENAI = (openai("insufficient_quota", "spending_limit_reached"), openai("rate_limit_error", "rate_limit_exceeded"))
WIRES = {
    CHAT: (HI, *OPENAI),
    "/v1/responses": ({"model": "gpt-4o", "input": "Hi"}, *OPENAI),
    "/v1/messages": (
        HI,
        lambda error: error["type"] == "billing_error",
        lambda error: error["type"] == "rate_limit_error",
    ),
    "/v1beta/models/gemini-2.5-flash:generateContent": (
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        lambda error: (error["status"], error["code"]) == ("RESOURCE_EXHAUSTED", 402),
        lambda error: (error["status"], error["code"]) == ("RESOURCE_EXHAUSTED", 429),
    ),
    "/api/chat": (
        {"model": "llama3.2", "messages": HI["messages"], "stream": False},
        lambda error: error.startswith("spending limit"),
        lambda error: error.startswith("rate limit"),
    ),
}
ADA = {"x-brimful-user": "ada", "x-brimful-conversation": "tea"}


@pytest.mark.parametrize("path", WIRES)
@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_errors_have_the_format_of_their_wire(limited, upstream, path, mode):
    body, is_spending, is_rate = WIRES[path]
    headers = ADA | {"x-brimful-mode": mode}
    refused = limited({"tokens_per_day": 0}).post(path, json=body, headers=headers)
    assert (refused.status_code, is_spending(refused.json()["error"])) == (402, True)
    assert "retry-after" not in refused.headers
    text = re.sub(r"[0-9,]+(?=\. The)", "N", str(refused.json()["error"]))
    assert (
        "spending limit: the user 'ada' may use 0 tokens per day; used so far: 0; this request may need N. "
        "The day ends at 2023-11-15 00:00 UTC"
    ) in text.replace("\\", "")
    assert upstream.requests == []
    client = limited({"requests_per_minute": 1})
    client.post(CHAT, json=HI)
    refused = client.post(path, json=body, headers=headers)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert is_rate(refused.json()["error"])
    assert len(upstream.requests) == 1


def test_a_request_that_never_fits_into_a_minute_is_not_tried_again(limited, upstream):
    client = limited({"tokens_per_minute": RESERVED - 1})
    refused = client.post(CHAT, json=HI)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "limit_too_small")
    assert "may need 18" in refused.json()["error"]["message"]
    assert statuses(client, 1, body=HI | {"max_tokens": 9}) == [200]
    assert len(upstream.requests) == 1


def test_answers_tell_what_is_left_of_the_minute(limited, clock):
    client = limited({"requests_per_minute": 5, "tokens_per_minute": 1_000, "tokens_per_day": 500})
    client.post(CHAT, json=HI)
    clock.now += 20
    headers = client.post(CHAT, json=HI).headers
    assert {name: headers[name] for name in headers if name.startswith("x-ratelimit")} == {
        "x-ratelimit-limit-requests": "5",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "40s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": str(1_000 - BILLED - RESERVED),
        "x-ratelimit-reset-tokens": "40s",
    }


@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_a_stream_is_counted_as_it_is_billed(limited, stored, upstream, mode):
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}}
    *events, done = chat_events("Thurs", "day.")
    upstream.answers = [[*events, f"data: {httpx2.Response(200, json=usage).text}\n\n", done]]
    client = limited({"tokens_per_day": 1_000}, mode=mode)
    answer = client.post(CHAT, json=HI | {"stream": True}, headers=ADA)
    assert upstream.bodies[0]["stream_options"] == {"include_usage": True}
    assert answer.status_code == 200
    assert "usage" not in answer.text  # the client has not asked for it
    assert (stored().tokens, stored().reserved_tokens) == (13, 0)


def test_a_stream_that_is_cut_counts_what_was_reserved_at_least(limited, stored, upstream):
    client = limited({"tokens_per_day": 1_000})
    upstream.answers = [list(message_events("Thurs"))[:3]]  # the start reports 12 tokens of the prompt
    body = {key: value for key, value in HI.items() if key != "user"} | {"stream": True}
    client.post("/v1/messages", json=body, headers=ADA)
    assert (stored().tokens, stored().reserved_tokens) == (RESERVED, 0)
    upstream.answers, upstream.pause = [list(chat_events(*["word"] * 1_000))], 0.01
    with suppress(httpx2.ReadTimeout), client.stream("POST", CHAT, json=HI | {"stream": True}) as answer:
        next(answer.iter_raw())
    assert (stored().tokens, stored().reserved_tokens) == (RESERVED * 2, 0)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
@pytest.mark.parametrize("failed", [(500, {"error": {"message": "no"}}), (400, {"error": {"message": "no"}})])
def test_a_request_that_fails_is_not_counted(limited, stored, upstream, path, failed):
    body = HI | {"prompt": "Hi"}
    client = limited({"tokens_per_day": 1_000, "requests_per_minute": 1}, upstream={"limits": {"max_attempts": 1}})
    upstream.answers = [failed]
    assert statuses(client, 2, path, body) == [failed[0]] * 2
    assert stored().tokens == 0
    upstream.answers = [chat_answer()]
    assert statuses(client, 2, path, body) == [200, 429]


def test_an_answer_without_usage_counts_what_was_reserved(limited, stored, upstream):
    upstream.answers = [{key: value for key, value in chat_answer().items() if key != "usage"}]
    assert statuses(limited({"tokens_per_day": 1_000}), 1) == [200]
    assert (stored().tokens, stored().reserved_tokens) == (RESERVED, 0)


GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"
OLDER = "/v1/completions"
ANSWER = 3_000  # tokens that are reserved if a request does not say how long its answer may be
TEA = {"contents": [{"parts": [{"text": "Tea?"}]}]}


@pytest.mark.parametrize(
    ("path", "body", "answers"),
    [
        (CHAT, HI | {"max_tokens": 100, "n": 3}, 3),
        (GEMINI, TEA | {"generationConfig": {"maxOutputTokens": 100, "candidateCount": 2}}, 2),
        (OLDER, {"model": "gpt-4o", "max_tokens": 100, "prompt": "Hi", "n": 2, "best_of": 3}, 3),
        (OLDER, {"model": "gpt-4o", "max_tokens": 100, "prompt": ["Hi", "Ho"], "n": 2}, 4),
        (OLDER, {"model": "gpt-4o", "max_tokens": 100, "prompt": [1, 2, 3]}, 1),
        (OLDER, {"model": "gpt-4o", "prompt": "Hi", "n": 2}, 2 * ANSWER // 100),
        (OLDER, HI | {"max_tokens": 100, "prompt": "tea " * 500}, 6),
        ("/v1/embeddings", HI | {"input": "tea " * 500}, 5),
    ],
)
def test_all_of_the_answers_that_a_request_asks_for_are_reserved(limited, path, body, answers):
    """Short prompts have less than 100 tokens, and each answer 100."""
    refused = limited({"tokens_per_day": 0}).post(path, json=body, headers=ADA)
    needed = int(re.search(r"may need ([0-9,]+)", refused.text)[1].replace(",", ""))
    assert needed // 100 == answers


def test_passed_through_requests_are_limited(limited, stored, upstream):
    client = limited({"tokens_per_day": 30, "requests_per_minute": 9})
    upstream.answers = [EMBEDDING]
    body = {"model": "text-embedding-3-small", "input": "tea", "user": "ada"}
    assert statuses(client, 1, "/v1/embeddings", body) == [200]
    assert (stored().tokens, stored().reserved_tokens) == (5, 0)
    assert statuses(client, 1, "/v1/embeddings", body | {"input": "tea " * 30}) == [402]
    file = {"content": b"tea", "headers": {"content-type": "text/plain", "x-brimful-user": "ada"}}
    for more in (file, {"json": {"purpose": "batch", "user": "ada"}}):
        refused = client.post("/v1/files", **more)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_countable")
    assert len(upstream.requests) == 1
    upstream.answers = [{"totalTokens": 2}]
    counted = client.post("/v1beta/models/gemini-2.5-flash:countTokens", json={"contents": []}, headers=ADA)
    assert counted.status_code == 200
    assert client.get("/v1/files", headers=ADA).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/batches", "/v1/fine_tuning/jobs", "/v1/videos", "/v1/audio/speech", "/v1/threads/t1/runs"),
        *("/v1beta/models/veo-3:predictLongRunning", "/v1beta/openai/chat/completions"),
    ],
)
def test_what_costs_more_than_its_text_is_refused(limited, upstream, path):
    body = {"model": "gpt-4o", "input": "tea", "user": "ada"}
    refused = limited({"tokens_per_day": 10_000}).post(path, json=body)
    assert (refused.status_code, "what this request costs cannot be counted" in refused.text) == (403, True)
    assert upstream.requests == []
    assert (
        limited({"requests_per_minute": 9}).post("/v1/batches", json=body).status_code == 404
    )  # the upstream's answer
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("size", [10, 6_000_000])
def test_the_usage_at_the_end_of_an_image_is_counted(limited, stored, upstream, size):
    usage = {"input_tokens": 10, "output_tokens": 4_000, "total_tokens": 4_010}
    upstream.answers = [{"created": 1, "data": [{"b64_json": "A" * size}], "usage": usage, "quality": "low"}]
    body = {"model": "gpt-image-1", "prompt": "tea", "user": "ada"}
    assert statuses(limited({"tokens_per_day": 4_000}), 2, "/v1/images/generations", body) == [200, 402]
    assert (stored().tokens, stored().reserved_tokens) == (4_010, 0)


def test_no_model_summarizes_for_a_client_over_its_limit(limited, upstream):
    turns = [{"role": role, "content": "word " * 60} for _ in range(40) for role in ("user", "assistant")]
    client = limited({"tokens_per_day": 100}, upstream={"window": 2_000}, fit={"compaction": "model"})
    assert statuses(client, 1, body=HI | {"messages": [*turns, *HI["messages"]]}) == [402]
    assert upstream.requests == []


def test_a_response_that_continues_another_is_limited(limited, stored, upstream):
    usage = {"input_tokens": 500, "output_tokens": 4, "total_tokens": 504}
    upstream.answers = [{"id": "resp_2", "object": "response", "status": "completed", "output": [], "usage": usage}]
    client = limited({"tokens_per_day": 504})
    body = {
        "model": "gpt-4o",
        "input": "Go on",
        "previous_response_id": "resp_1",
        "max_output_tokens": 9,
        "user": "ada",
    }
    assert statuses(client, 1, "/v1/responses", body) == [200]
    assert stored().tokens == 504
    assert statuses(client, 1, "/v1/responses", body) == [402]


def test_a_chat_in_a_room_is_limited(limited, stored, start, clock, upstream):
    client = limited({"tokens_per_day": RESERVED * 2_000})

    async def fill():
        async with connect(f"sqlite:///{start.store}") as database:
            store = database.tenant("default")
            await store.put(Room(id="tea", user="ada"))
            await store.put(Persona(id="ottoline", model="gpt-4o"))
            await database.limits("default").set_own("user", "bob", {"tokens_per_day": 0})

    asyncio.run(fill())
    path, body = "/brimful/v1/rooms/tea/respond", {"persona": "ottoline", "content": "Hi"}
    assert client.post(path, json=body).status_code == 200
    assert (stored().tokens, stored().reserved_tokens) == (BILLED, 0)
    clock.now += LOOKUP_SECONDS * 20
    for more in ({}, {"stream": True}):
        refused = client.post(path, json=body | {"user": "bob"} | more)
        assert (refused.status_code, refused.json()["error"]["code"]) == (402, "spending_limit_reached")
    upstream.answers = [list(chat_events("Thurs", "day."))]
    assert "answer" in client.post(path, json=body | {"stream": True}).text
    assert stored().tokens > BILLED
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/learn", {"messages": ["I moved to Rome."], "user": "ada"}),
        ("/rooms/tea/janitor", {}),
    ],
)
def test_learning_and_the_janitor_are_limited_if_a_client_chooses_the_model(limited, stored, upstream, path, body):
    upstream.answers = [chat_answer('{"facts": []}')]
    client = limited({"tokens_per_day": 0, "requests_per_minute": 9})
    client.post("/brimful/v1/rooms", json={"id": "tea", "user": "ada"})
    for at in (*range(40), 20_000):
        message = {"content": f"Cat number {at} likes fish {at * 7}.", "at": NOON - 1_300_000 + 60 * at}
        client.post("/brimful/v1/rooms/tea/messages", json=message)
    refused = client.post(f"/brimful/v1{path}", json=body | {"model": "gpt-4o"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "spending_limit_reached")
    assert upstream.requests == []
    own = client.get("/brimful/v1/statistics").json()["own_calls"]
    assert (own["tokens_today"], [each["calls"] for each in own["kinds"]]) == (0, [0])
    client = limited({"tokens_per_day": 100_000, "requests_per_minute": 1})
    assert statuses(client, 2, f"/brimful/v1{path}", body | {"model": "gpt-4o"}) == [200, 429]
    assert stored().tokens == BILLED * len(upstream.requests) > 0


def test_a_refused_request_can_be_sent_again_in_a_conversation(limited, clock, upstream):
    client = limited({"tokens_per_day": RESERVED * 2}, mode="remember")
    assert statuses(client, 1, headers=ADA) == [200]
    texts = ["Hi", "Thursday.", "At what time?"]
    messages = [
        {"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), texts, strict=True)
    ]
    assert statuses(client, 2, body=HI | {"messages": messages}, headers=ADA) == [402, 402]
    clock.now += 86_400
    assert statuses(client, 1, body=HI | {"messages": messages}, headers=ADA) == [200]
    assert [message["content"] for message in upstream.bodies[-1]["messages"]] == texts


@pytest.mark.parametrize("streams", [False, True])
def test_each_round_of_a_recall_is_counted(limited, stored, streams):
    recall = ToolCall(id="call_r", name="recall", arguments='{"handle": "msg-000000"}')
    rounds = [
        Reply(parts=(recall,), usage=Usage(prompt=100, completion=10)),
        Reply(parts=(Text(text="It was 7."),), usage=Usage(prompt=200, completion=20)),
    ]
    turns = [
        {"role": role, "content": f"code {n} " + "word " * 60} for n in range(20) for role in ("user", "assistant")
    ]
    body = HI | {"messages": [*turns, *HI["messages"]], "stream": streams}
    model = ScriptedServer(rounds)
    with serving(model, lifespan="off") as (address, _):
        upstream = {"url": f"{address}/v1", "window": 2_000}
        client = limited({"tokens_per_day": 5_000, "requests_per_minute": 1}, upstream=upstream, fit={"recall": "tool"})
        assert client.post(CHAT, json=body).status_code == 200
    assert len(model.requests) == 2
    assert (stored().tokens, stored().reserved_tokens) == (330, 0)


def test_limits_of_one_user_take_the_place_of_the_defaults(limited, start, clock):
    client = limited({"requests_per_minute": 1})
    assert statuses(client, 2) == [200, 429]
    set_own(start, "user", "ada", {"requests_per_minute": 3})
    set_own(start, "user", "bob", {"requests_per_minute": None})
    clock.now += 60
    assert statuses(client, 4) == [200, 200, 200, 429]
    assert statuses(client, 3, body=HI | {"user": "bob"}) == [200] * 3
    assert statuses(client, 2, body=HI | {"user": "eve"}) == [200, 429]


def test_keys_are_limited_and_a_revoked_key_frees_nothing(start, clock, stored):
    async def make(user):
        async with connect(f"sqlite:///{start.store}") as database:
            return await database.api_keys("acme").create(name="test", scopes=("chat",), at=1.0, user=user)

    client = start(clock=clock, require_keys=True, limits={"keys": {"tokens_per_day": RESERVED}, "users": {}})
    (caller, key), (_, bound) = asyncio.run(make(None)), asyncio.run(make("ada"))
    headers = {"authorization": f"Bearer {key}"}
    assert statuses(client, 1, headers=headers) == [200]
    refused = client.post(CHAT, json=HI, headers=headers)
    assert refused.status_code == 402
    assert f"the API key {caller.id} may use 18 tokens per day; used so far: 15;" in refused.json()["error"]["message"]

    async def revoke():
        async with connect(f"sqlite:///{start.store}") as database:
            assert await database.api_keys("acme").revoke(caller.id, at=clock.now)

    asyncio.run(revoke())
    assert stored(caller.id, "key", "acme").tokens == BILLED
    set_own(start, "user", "ada", {"requests_per_minute": 1}, tenant="acme")
    clock.now += 60
    headers = {"authorization": f"Bearer {bound}"}
    assert statuses(client, 2, body=HI | {"user": "bob"}, headers=headers) == [200, 429]


def test_a_restart_keeps_the_count(limited, start):
    assert statuses(limited({"tokens_per_day": RESERVED}), 2) == [200, 402]
    start.stop()
    assert statuses(limited({"tokens_per_day": RESERVED}), 1) == [402]


def test_two_servers_of_one_database_let_exactly_as_many_requests_pass(upstream, postgres_url, clock):
    config = {
        "upstreams": [{"name": "local", "url": f"{upstream.address}/v1", "window": 8192}],
        "store": postgres_url,
        "records": "none",
        "limits": {"users": {"requests_per_minute": 7}, "keys": {"tokens_per_day": RESERVED * 1_000}},
    }
    app = [create_app(parse_config(config, "brimful.toml"), environ={}, clock=clock) for _ in range(2)]
    with serving(app[0]) as (one, _), serving(app[1]) as (two, _):

        async def send():
            async with httpx2.AsyncClient(timeout=120) as client:
                posts = [client.post(address + CHAT, json=HI) for address in (one, two) * 12]
                return [answer.status_code for answer in await asyncio.gather(*posts)]

        answers = asyncio.run(send())
    assert sorted(answers) == [200] * 7 + [429] * 17
    assert len(upstream.requests) == 7


class Lookups:
    """A database that counts how often limits are looked up, and may fail."""

    def __init__(self):
        self.count = 0
        self.own = {}
        self.fails = False

    def limits(self, tenant):
        del tenant
        return self

    async def has_own(self):
        self.count += 1
        if self.fails:
            raise StoreUnavailable("test", "is down", retriable=True)
        return bool(self.own)

    async def find(self, kind, name):
        if self.fails:
            raise StoreUnavailable("test", "is down", retriable=True)
        return self.own.get((kind, name), {})

    async def reserve(self, ceilings, amount):
        raise AssertionError((ceilings, amount))


def make_limiter(database, clock, tasks, known=None):
    none = UsageLimits()
    return Limiter(database, keys=none, users=none, known=known or KnownLimits(), tasks=tasks, clock=clock)


def test_without_limits_no_request_waits_for_the_store(clock):
    database, tasks = Lookups(), BackgroundTasks()
    limiter = make_limiter(database, clock, tasks)

    async def admit():
        async with limiter.admit(Client(tenant="acme"), "ada") as admission:
            return admission.counts_tokens, admission.headers()

    async def story():
        for _ in range(50):
            assert await admit() == (False, {})
        counts = [database.count]
        clock.now += LOOKUP_SECONDS
        assert await admit() == (False, {})
        counts.append(database.count)  # it has only begun
        await tasks.drain()
        return [*counts, database.count]

    assert asyncio.run(story()) == [1, 1, 2]


def test_if_the_store_fails_limits_that_are_known_stay_in_force(clock):
    database, tasks = Lookups(), BackgroundTasks()
    limiter = make_limiter(database, clock, tasks)

    async def admit(user):
        async with limiter.admit(Client(tenant="acme"), user):
            pass

    async def story():
        await admit("ada")
        database.fails = True
        clock.now += 100
        await admit("ada")
        database.fails, database.own = False, {("user", "bob"): {"tokens_per_day": 0}}
        clock.now += 100
        await admit("ada")
        database.fails = True
        clock.now += 100
        with pytest.raises(StoreUnavailable):
            await admit("ada")

    asyncio.run(story())


@pytest.mark.parametrize(("key", "raises"), [("k1", pytest.raises(StoreUnavailable)), ("", nullcontext())])
def test_if_the_store_never_answered_only_servers_without_keys_go_on(clock, key, raises):
    database = Lookups()
    database.fails = True
    limiter = make_limiter(database, clock, BackgroundTasks())

    async def admit():
        with raises:
            async with limiter.admit(Client(tenant="acme", key=key), "ada") as admission:
                assert not admission.counts_tokens

    asyncio.run(admit())


def test_known_limits_stay_in_force_over_a_reload(clock):
    database, tasks, known = Lookups(), BackgroundTasks(), KnownLimits()
    database.own = {("user", "ada"): {"tokens_per_day": 0}}

    async def counts_tokens():
        async with make_limiter(database, clock, tasks, known).admit(Client(tenant="acme"), "ada") as admission:
            return admission.counts_tokens

    assert asyncio.run(counts_tokens())
    database.fails = True
    assert asyncio.run(counts_tokens())


def test_refused_requests_are_counted_in_the_metrics(limited):
    client = limited({"requests_per_minute": 1, "tokens_per_day": 20}, telemetry={"metrics": True})
    assert statuses(client, 2) == [200, 429]
    metrics = client.get("/metrics").text
    assert 'brimful_limits_hit_total{limit="user_requests_per_minute"} 1.0' in metrics


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"users": {"tokens_per_day": -1}}, "limits.users"),
        ({"keys": {"requests_per_minute": 0}}, "limits.keys"),
        ({"keys": {"dollars_per_day": "five"}}, "limits.keys.dollars_per_day"),
        ({"users": {"dollars_per_year": 5}}, "limits.users.dollars_per_year"),
    ],
)
def test_wrong_limits_are_refused_at_start(limits, field):
    with pytest.raises(InvalidConfig) as caught:
        parse_config({"limits": limits}, "brimful.toml")
    assert caught.value.key == field
