"""Connection failures, with a real server in this process."""

import asyncio
import gzip
import logging
import sys

import httpx2
import pytest

from brimful.errors import ContextOverflow, InvalidValue, MissingExtra, ProviderError, ProviderUnavailable
from brimful.providers import Connection, Limits
from brimful.providers.connection import load_libraries
from providers.serving import answer, chunked, connected, in_loop, serving, then_hang_up, then_wait

SECRET = "sk-very-secret"  # noqa: S105 - no secret
NOW = 1_800_000_000.0
QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
TOO_LONG = {"error": {"message": "prompt is too long: 209003 tokens > 200000 maximum", "type": "invalid_request_error"}}


async def failing(connection, body=b"{}"):
    with pytest.raises(ProviderError) as caught:
        await connection.post("/chat", body)
    assert SECRET not in f"{caught.value} {caught.value.body!r} {connection!r}"
    assert caught.value.route == connection.route
    return caught.value


# -- bytes go through --------------------------------------------------------------------------------------------------


@in_loop
async def test_bytes_and_headers_are_sent_unchanged():
    odd = b'{ "model":"m",\n "n":1.0, "new_field":null, "text":"\\u00e9" }'
    reply = b' {"a" : 1}\n'
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with connected(answer(reply, x_request_id="r1", set_cookie="a=b"), headers=headers) as (server, connection):
        answered = await connection.post("/chat?x=1", odd, headers={"X-Beta": "tools"})
    assert (answered.status, answered.body, answered.headers["x-request-id"]) == (200, reply, "r1")
    assert "set-cookie" not in answered.headers
    [response] = server.asked
    assert response.body == odd
    assert response.line == "POST /chat?x=1 HTTP/1.1"
    assert response.headers["authorization"] == f"Bearer {SECRET}"
    assert response.headers["x-beta"] == "tools"
    assert response.headers["content-type"] == "application/json"
    assert response.headers["accept-encoding"] == "identity"


@in_loop
async def test_a_request_header_overrides_the_connections():
    async with connected(answer(), headers={"x-api-key": "ours"}) as (server, connection):
        await connection.get("/models", headers={"X-Api-Key": "theirs"})
    [response] = server.asked
    assert response.line.startswith("GET /models ")
    assert response.headers["x-api-key"] == "theirs"
    assert "content-type" not in response.headers


@in_loop
async def test_cookies_are_not_shared_between_requests():
    async with connected(answer(set_cookie="session=theirs"), answer()) as (server, connection):
        await connection.post("/", b"{}")
        await connection.post("/", b"{}")
    assert ["cookie" in response.headers for response in server.asked] == [False, False]


@in_loop
async def test_a_compressed_answer_is_decompressed():
    async with connected(answer(gzip.compress(b"tea"), content_encoding="gzip")) as (_, connection):
        answered = await connection.post("/", b"")
    assert answered.body == b"tea"
    assert not {"content-encoding", "content-length"} & set(answered.headers)


@in_loop
async def test_a_stream_yields_headers_first_and_bytes_as_they_arrive():
    gate = asyncio.Event()

    async def in_two_halves(_, writer):
        writer.write(chunked(b"data: 1\n\n", ended=False))
        await writer.drain()
        await gate.wait()
        writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async with connected(in_two_halves) as (_, connection), connection.stream("/chat", b"{}") as answering:
        assert answering.headers["content-type"] == "text/event-stream"
        assert await anext(answering.chunks) == b"data: 1\n\n"
        gate.set()
        assert await answering.read() == b"data: 2\n\n"


@in_loop
async def test_on_sent_is_called_before_the_server_answers():
    sent = asyncio.Event()

    async def once_it_is_told(_, writer):
        await sent.wait()
        writer.write(answer(b"tea"))

    async with (
        connected(once_it_is_told) as (_, connection),
        connection.stream("/", b"{}", on_sent=sent.set) as answering,
    ):
        assert await answering.read() == b"tea"


@in_loop
async def test_credentials_in_a_url_become_a_header(caplog):
    caplog.set_level(logging.DEBUG)
    async with serving(answer()) as server:
        connection = Connection(server.url.replace("//", f"//me:{SECRET}@"))
        await connection.post("/", b"{}")
        await connection.close()
    assert server.asked[0].headers["authorization"] == "Basic bWU6c2stdmVyeS1zZWNyZXQ="
    assert SECRET not in f"{caplog.text}{connection!r}{connection.route}{connection.url}"
    assert caplog.records


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://x", "http://", "http://[", "http://h:no", "http://h/#a"])
def test_invalid_urls_are_rejected(url):
    with pytest.raises(InvalidValue) as caught:
        Connection(url)
    assert caught.value.field == "url"


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "clé", "a\0b"])
def test_an_invalid_key_is_rejected_without_showing_it(key):
    with pytest.raises(InvalidValue, match="right key") as caught:
        Connection("http://localhost", headers={"x-api-key": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"connect": 0},
        {"read": -1.0},
        {"write": float("nan")},
        {"pool": float("inf")},
        {"read": "1"},
        {"max_attempts": 0},
        {"max_connections": True},
        {"max_idle": -1},
    ],
)
def test_limits_are_checked(wrong):
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        Limits(**wrong)


def test_without_the_libraries_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "stamina", None)
    load_libraries.cache_clear()
    with pytest.raises(MissingExtra, match=r"brimful\[remote\]"):
        asyncio.run(Connection("http://localhost").post("/", b""))
    load_libraries.cache_clear()


# -- what is sent again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 502, 503, 529])
@in_loop
async def test_a_rejected_request_is_retried(status):
    async with connected(answer(b"busy", status), answer(b"busy", status), answer(b"done")) as (server, connection):
        assert (await connection.post("/chat", b"{}")).body == b"done"
    assert [asked.body for asked in server.asked] == [b"{}"] * 3


@pytest.mark.parametrize("status", [429, 503])
@in_loop
async def test_a_rejected_stream_is_retried(status):
    turned_away = answer(b"busy", status)
    async with (
        connected(turned_away, chunked(b"data: 1\n\n")) as (server, connection),
        connection.stream("/chat", b"{}") as answering,
    ):
        assert await answering.read() == b"data: 1\n\n"
    assert len(server.asked) == 2


@in_loop
async def test_attempts_are_limited_and_the_last_error_is_raised():
    async with connected(*[answer(b"busy", 503, retry_after="2")] * 5, limits=Limits(max_attempts=2)) as (
        server,
        connection,
    ):
        error = await failing(connection)
    assert len(server.asked) == 2
    assert isinstance(error, ProviderUnavailable)
    assert (error.status, error.body, error.retry_after) == (503, b"busy", 2.0)
    assert error.reason == "answered 503: busy"


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 422, 500, 501, 504])
@in_loop
async def test_unsafe_or_useless_retries_are_not_made(status):
    async with connected(answer(b"no", status)) as (server, connection):
        error = await failing(connection)
    assert len(server.asked) == 1
    assert error.status == status
    assert isinstance(error, ProviderUnavailable) is (status >= 500 or status in (408, 409))


@in_loop
async def test_an_exhausted_quota_is_not_temporary():
    async with connected(answer(QUOTA, 429)) as (server, connection):
        error = await failing(connection)
    assert (len(server.asked), type(error), error.status) == (1, ProviderError, 429)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("3600", 3600.0), ("Fri, 15 Jan 2027 09:00:00 GMT", 3600.0), ("31", 31.0)],
)
@in_loop
async def test_a_request_is_not_retried_after_too_long_a_wait(told, seconds):
    async with connected(answer(b"", 429, retry_after=told), clock=lambda: NOW) as (server, connection):
        error = await failing(connection)
    assert (len(server.asked), error.retry_after) == (1, seconds)


@pytest.mark.parametrize("told", ["0", "30", "Fri, 15 Jan 2027 08:00:10 GMT", "soon"])
@in_loop
async def test_a_request_is_retried_after_a_short_wait(told):
    turned_away = answer(b"", 429, retry_after=told)
    async with connected(turned_away, answer(b"done"), clock=lambda: NOW) as (server, connection):
        assert (await connection.post("/chat", b"{}")).body == b"done"
    assert len(server.asked) == 2


@in_loop
async def test_googles_retry_delay_is_in_the_body():
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "34.5s"}]}}
    async with connected(answer(body, 429)) as (server, connection):
        error = await failing(connection)
    assert (len(server.asked), error.retry_after) == (1, 34.5)


@in_loop
async def test_an_idle_connection_that_was_closed_meanwhile_is_replaced():
    async with connected(answer(b"one"), None, answer(b"two")) as (server, connection):
        assert (await connection.post("/chat", b"1")).body == b"one"
        assert (await connection.post("/chat", b"2")).body == b"two"
    assert [asked.body for asked in server.asked] == [b"1", b"2", b"2"]
    assert server.connections == 2


@in_loop
async def test_a_new_connection_that_breaks_may_have_delivered_the_request():
    async with connected(None, answer()) as (server, connection):
        error = await failing(connection)
    assert len(server.asked) == 1
    assert isinstance(error, ProviderUnavailable)
    assert error.reason.startswith("the connection broke before an answer came: ")
    assert (error.status, error.__cause__ is not None) == (None, True)


@in_loop
async def test_an_unreachable_server_is_retried_and_named(caplog):
    async with serving() as server:
        pass
    connection = Connection(server.url, limits=Limits(max_attempts=3))
    error = await failing(connection)
    await connection.close()
    assert isinstance(error, ProviderUnavailable)
    assert error.reason.startswith("cannot be reached: ")
    assert isinstance(error.__cause__, httpx2.ConnectError)
    assert [record.name for record in caplog.records].count("stamina") == 2


# -- time limits -------------------------------------------------------------------------------------------------------


@in_loop
async def test_a_read_timeout_is_not_retried():
    async with connected(then_wait(b""), limits=Limits(read=0.05)) as (server, connection):
        error = await failing(connection)
    assert (len(server.asked), error.reason) == (1, "no answer within 0.05 seconds")
    assert isinstance(error, ProviderUnavailable)


@in_loop
async def test_a_stalled_stream_times_out():
    started = then_wait(chunked(b"data: 1\n\n", ended=False))
    async with connected(started, limits=Limits(read=0.05)) as (server, connection):
        async with connection.stream("/chat", b"{}") as answering:
            assert await anext(answering.chunks) == b"data: 1\n\n"
            with pytest.raises(ProviderUnavailable, match=r"broke off: no data for 0\.05 seconds"):
                await anext(answering.chunks)
        await server.left.wait()
    assert len(server.asked) == 1


@in_loop
async def test_an_exhausted_pool_is_an_error():
    limits = Limits(max_connections=1, pool=0.05)
    started = then_wait(chunked(b"data: 1\n\n", ended=False))
    async with connected(started, limits=limits) as (server, connection), connection.stream("/chat", b"{}"):
        error = await failing(connection)
    assert (len(server.asked), error.reason) == (1, "all 1 connections have been in use for 0.05 seconds")


# -- leaving a stream --------------------------------------------------------------------------------------------------


async def first_of(connection):
    async with connection.stream("/chat", b"{}") as answering:
        await anext(answering.chunks)


async def cancelled(connection):
    async def follow():
        async with connection.stream("/chat", b"{}") as answering:
            started.set()
            await answering.read()

    started = asyncio.Event()
    task = asyncio.create_task(follow())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def thrown_out(connection):
    async def fail():
        async with connection.stream("/chat", b"{}") as answering:
            await anext(answering.chunks)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()


async def unread(connection):
    async with connection.stream("/chat", b"{}"):
        pass


@pytest.mark.parametrize("leave", [first_of, cancelled, thrown_out, unread])
@in_loop
async def test_leaving_a_stream_closes_it_and_frees_the_connection(leave):
    started = then_wait(chunked(b"data: 1\n\n", ended=False))
    async with connected(started, answer(b"next"), limits=Limits(max_connections=1, pool=0.2)) as (server, connection):
        await leave(connection)
        await server.left.wait()
        assert (await connection.post("/chat", b"{}")).body == b"next"
    assert server.connections == 2


@in_loop
async def test_a_finished_stream_leaves_the_connection_open():
    async with connected(chunked(b"data: 1\n\n"), answer(b"next")) as (server, connection):
        async with connection.stream("/chat", b"{}") as answering:
            await answering.read()
        await connection.post("/chat", b"{}")
    assert server.connections == 1


@in_loop
async def test_a_cancelled_request_frees_its_connection():
    async with connected(then_wait(b""), answer(b"next"), limits=Limits(max_connections=1, pool=0.2)) as (
        server,
        connection,
    ):
        task = asyncio.create_task(connection.post("/chat", b"{}"))
        await server.entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left.wait()
        assert (await connection.post("/chat", b"{}")).body == b"next"


@in_loop
async def test_a_closed_connection_can_be_reopened():
    async with connected(answer(b"one"), answer(b"two")) as (server, connection):
        await connection.post("/", b"")
        await connection.close()
        await connection.close()
        assert (await connection.post("/", b"")).body == b"two"
    assert server.connections == 2


# -- answers that are none ---------------------------------------------------------------------------------------------


@in_loop
async def test_a_stream_that_breaks_off_is_an_error():
    half = then_hang_up(chunked(b"data: 1\n\n", ended=False))
    async with connected(half) as (server, connection), connection.stream("/chat", b"{}") as answering:
        assert await anext(answering.chunks) == b"data: 1\n\n"
        with pytest.raises(ProviderUnavailable, match="the answer broke off: "):
            await anext(answering.chunks)
    assert len(server.asked) == 1


@in_loop
async def test_an_answer_that_breaks_off_is_not_retried():
    async with connected(then_hang_up(answer(b"half", content_length=99)), answer()) as (server, connection):
        error = await failing(connection)
    assert (len(server.asked), type(error)) == (1, ProviderUnavailable)


@pytest.mark.parametrize("garbage", [b"\0\1\2\3\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 huh\r\n\r\n"])
@in_loop
async def test_an_answer_that_is_not_http_is_an_error(garbage):
    async with connected(then_hang_up(garbage)) as (_, connection):
        error = await failing(connection)
    assert isinstance(error, ProviderUnavailable)
    assert error.status is None


@in_loop
async def test_a_wrongly_compressed_answer_is_an_error():
    async with connected(answer(b"no gzip", content_encoding="gzip")) as (_, connection):
        assert (await failing(connection)).reason.startswith("the answer cannot be decoded: ")


@in_loop
async def test_an_error_response_that_breaks_off_keeps_its_status():
    async with connected(then_hang_up(answer(b"half", 400, content_length=99))) as (_, connection):
        error = await failing(connection)
    assert (error.status, error.reason) == (400, "answered 400: no message")


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "check the key: OPENAI_API_KEY"),
        (403, "check the key: OPENAI_API_KEY"),
        (404, "check the model name"),
        (307, "redirected"),
    ],
)
@in_loop
async def test_an_error_says_what_to_check_and_hides_the_key(status, advice):
    body = {"error": {"message": f"Incorrect API key provided: {SECRET}. " + "x" * 1000}}
    key = {"authorization": f"Bearer {SECRET}"}
    elsewhere = answer(body, status, location="http://127.0.0.1:9/")
    async with connected(elsewhere, headers=key, key_name="OPENAI_API_KEY") as (server, connection):
        error = await failing(connection)
    assert (len(server.asked), error.status) == (1, status)
    assert advice in error.reason
    assert "Incorrect API key provided: …." in error.reason
    assert len(error.reason) < 400


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([{"error": {"code": 400, "message": "Bad argument.", "status": "INVALID_ARGUMENT"}}], "Bad argument."),
        ({"error": "no such model"}, "no such model"),
        ({"detail": "Not here"}, "Not here"),
        ({"object": "error", "message": {"detail": "odd"}}, "odd"),
        ({"error": {"message": "Handed on", "metadata": {"raw": "busy"}}}, "Handed on: busy"),
        ({"error": {}}, '{"error": {}}'),
        ([], "[]"),
    ],
)
@in_loop
async def test_an_error_quotes_the_server(body, said):
    async with connected(answer(body, 400)) as (_, connection):
        assert (await failing(connection)).reason == f"answered 400: {said}"


@in_loop
async def test_an_overflow_carries_its_numbers():
    async with connected(answer(TOO_LONG, 400)) as (server, connection):
        error = await failing(connection)
    assert isinstance(error, ContextOverflow)
    assert (error.window, error.prompt, error.completion, error.status) == (200_000, 209_003, None, 400)
    assert len(server.asked) == 1


@in_loop
async def test_concurrent_requests_share_connections():
    async with connected(*[answer(b"x")] * 50, limits=Limits(max_connections=4)) as (server, connection):
        answers = await asyncio.gather(*(connection.post("/", b"{}") for _ in range(50)))
    assert [each.body for each in answers] == [b"x"] * 50
    assert server.connections <= 4
