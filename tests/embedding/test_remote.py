"""Remote embedders, with a real server in this process."""

import asyncio
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from brimful.embedding import OllamaEmbedder, OpenAIEmbedder, embedder_for
from brimful.embedding.openai import OpenAI, key_for
from brimful.engine import Engine
from brimful.errors import EmbeddingError, MissingExtra

SECRET = "sk-very-secret"  # noqa: S105 - no secret


class Server(ThreadingHTTPServer):
    """Answers each request by `answer(body)`: a status and a text. Keeps what it was asked."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        status, text = self.server.answer(body)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def serving(answer):
    with Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def vector(text):
    return [float(len(text)), 1.0, 2.0]


def openai(body):
    items = [{"index": at, "object": "embedding", "embedding": vector(text)} for at, text in enumerate(body["input"])]
    return 200, json.dumps({"object": "list", "data": items[::-1], "usage": {"prompt_tokens": 1}})


def ollama(body):
    return 200, json.dumps({"model": body["model"], "embeddings": [vector(text) for text in body["input"]]})


def saying(text, status=200):
    return lambda _: (status, text)


def embed(embedder, *texts, purpose="passage"):
    async def once():
        try:
            return await embedder.embed(texts, purpose)
        finally:
            await embedder.close()

    return asyncio.run(once())


def failure(embedder, *texts):
    with pytest.raises(EmbeddingError) as caught:
        embed(embedder, *(texts or ("tea",)))
    assert SECRET not in str(caught.value)
    assert caught.value.embedder == embedder.id
    return caught.value


def test_openai_gets_its_dialect_and_answers_in_any_order():
    with serving(openai) as server:
        rows = embed(OpenAIEmbedder("m", base_url=f"{server.url}/v1", key=SECRET, dimensions=3), "tea", "coffee")
    [(path, headers, body)] = server.asked
    assert path == "/v1/embeddings"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert body == {"model": "m", "input": ["tea", "coffee"], "encoding_format": "float", "dimensions": 3}
    expected = np.array([vector("tea"), vector("coffee")])
    assert np.allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True))


def test_ollama_gets_its_dialect_with_the_model_s_prompt():
    with serving(ollama) as server:
        embed(OllamaEmbedder("nomic-embed-text", base_url=server.url), "tea", purpose="query")
        embed(OllamaEmbedder("all-minilm", base_url=server.url, dimensions=3), "tea", purpose="query")
    (path, headers, first), (_, _, second) = server.asked
    assert path == "/api/embed"
    assert "authorization" not in headers
    assert first == {"model": "nomic-embed-text", "input": ["search_query: tea"], "truncate": True}
    assert second == {"model": "all-minilm", "input": ["tea"], "truncate": True, "dimensions": 3}


@pytest.mark.parametrize(("answer", "name"), [(openai, "openai:BAAI/bge-m3@{}/v1"), (ollama, "ollama:bge-m3@{}")])
def test_a_server_embeds_texts_in_any_language_and_its_questions_need_no_notice(answer, name):
    note, question = "안나는 고기를 먹지 않습니다.", "누가 채식을 합니까?"

    async def search(embedder):
        async with Engine("sqlite://", embedder=embedder) as engine:
            await engine.remember(note)
            await engine.wait_indexed()
            return await engine.search(question)

    with serving(answer) as server:
        found = asyncio.run(search(embedder_for(name.format(server.url))))
    assert [text for _, _, body in server.asked for text in body["input"]] == [note, question]
    assert [hit.record.content for hit in found] == [note]
    assert found.degraded == ()
    assert [notice.kind for notice in asyncio.run(search("static")).degraded] == ["unknown-language"]


def test_a_response_that_is_too_large_is_refused():
    def flood(_):
        return 200, " " * 70_000_000

    with serving(flood) as server:
        error = failure(OpenAIEmbedder("m", base_url=server.url))
    assert error.reason == "the response is larger than 67,108,864 bytes"


def test_empty_texts_are_not_sent_and_are_zero():
    with serving(openai) as server:
        rows = embed(OpenAIEmbedder("m", base_url=server.url), "", "tea", " \n")
    assert [body["input"] for _, _, body in server.asked] == [["tea"]]
    assert rows.any(axis=1).tolist() == [False, True, False]


def test_dimensions_are_requested_if_all_texts_are_empty():
    with serving(openai) as server:
        assert embed(OpenAIEmbedder("m", base_url=server.url), "", "").shape == (2, 3)
        assert embed(OpenAIEmbedder("m", base_url=server.url, dimensions=7), "").shape == (1, 7)
    assert len(server.asked) == 1


def test_many_texts_go_in_batches_by_number_and_by_size():
    with serving(openai) as server:
        rows = embed(OpenAIEmbedder("m", base_url=server.url), *(str(n) for n in range(300)))
        embed(OpenAIEmbedder("m", base_url=server.url), *["x" * 8_000] * 40)
    assert rows.shape == (300, 3)
    assert [len(body["input"]) for _, _, body in server.asked] == [128, 128, 44, 31, 9]


def test_long_texts_are_cut_between_characters_and_surrogates_are_replaced():
    with serving(openai) as server:
        embed(OpenAIEmbedder("m", base_url=server.url, max_bytes=10), "é" * 20, "a\ud800b", "short")
    assert server.asked[0][2]["input"] == ["é" * 5, "a\N{REPLACEMENT CHARACTER}b", "short"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "cannot be read"),
        ("<html>", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"data": [{"index": 0, "embedding": [NaN]}]}', "cannot be read"),
        ('{"data": [{"index": 0, "embedding": [null]}]}', "cannot be read"),
        ('{"data": [{"index": 0, "embedding": "AAAA"}]}', "cannot be read"),
        ('{"data": []}', "returned 0 vectors for 2 texts"),
        ('{"data": [{"index": 0, "embedding": [1.0]}]}', "returned 1 vectors for 2 texts"),
        ('{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}', "different sizes"),
        ('{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}', "0 dimensions"),
        ('{"data": [{"index": 0, "embedding": [1e200]}, {"index": 1, "embedding": [1]}]}', "too large"),
    ],
)
def test_nonsense_is_refused(reply, reason):
    with serving(saying(reply)) as server:
        assert reason in failure(OpenAIEmbedder("m", base_url=server.url), "a", "b").reason


def test_vectors_with_unexpected_dimensions_are_refused():
    with serving(openai) as server:
        error = failure(OpenAIEmbedder("m", base_url=server.url, dimensions=512))
    assert error.reason == "returned a vector with 3 dimensions, expected 512"


@pytest.mark.parametrize(("status", "refused"), [(400, True), (413, True), (422, True), (401, False), (429, False)])
def test_a_server_that_rejects_a_text_differs_from_one_that_fails(status, refused):
    with serving(saying("input is too large", status)) as server:
        assert failure(OpenAIEmbedder("m", base_url=server.url)).refused is refused
    assert failure(OpenAIEmbedder("m", base_url="http://127.0.0.1:1/v1")).refused is False


@pytest.mark.parametrize(("status", "advice"), [(401, "check the key"), (404, "check the URL"), (500, "500")])
def test_a_refusal_quotes_the_server_and_never_the_key(status, advice):
    with serving(saying(f'{{"error": "Incorrect key {SECRET}\n' + "x" * 500, status)) as server:
        error = failure(OpenAIEmbedder("m", base_url=server.url, key=SECRET))
    assert advice in error.reason
    assert "Incorrect key …" in error.reason
    assert len(error.reason) < 350


def test_a_server_that_is_not_there_is_named_without_its_password():
    with serving(openai) as server:
        port = server.server_port
    error = failure(OpenAIEmbedder("m", base_url=f"http://me:{SECRET}@127.0.0.1:{port}/v1"))
    assert error.reason.startswith(f"127.0.0.1:{port} cannot be reached: ")
    assert error.__cause__ is not None


def test_an_address_that_is_none_is_an_error_of_ours():
    assert "cannot be reached" in failure(OpenAIEmbedder("m", base_url="http://[")).reason


def test_a_server_that_does_not_answer_is_given_up():
    release = threading.Event()

    def late(body):
        release.wait(10)
        return openai(body)

    with serving(late) as server:
        error = failure(OllamaEmbedder("m", base_url=server.url, timeout=0.05))
        release.set()
    assert "no response within 0.05 seconds" in error.reason


def test_the_key_of_openai_goes_to_openai_alone(monkeypatch):
    monkeypatch.delenv("BRIMFUL_EMBEDDING_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert key_for("https://api.openai.com/v1") == SECRET
    assert key_for("http://elsewhere/v1") == ""
    monkeypatch.setenv("BRIMFUL_EMBEDDING_KEY", "mine")
    assert key_for("http://elsewhere/v1") == key_for("https://api.openai.com/v1") == "mine"


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtra, match=r"brimful\[remote\]"):
        embed(OllamaEmbedder("m"), "tea")


def test_the_key_is_not_shown():
    embedder = OpenAIEmbedder("m", key=SECRET)
    assert SECRET not in f"{embedder!r} {OpenAI(model='m', key=SECRET)!r} {embedder.id}"


def test_settings_that_change_vectors_change_the_id():
    ids = {
        OpenAIEmbedder("m").id,
        OpenAIEmbedder("m", dimensions=3).id,
        OpenAIEmbedder("m", max_bytes=500).id,
        OllamaEmbedder("m").id,
    }
    assert ids == {"openai:m@1", "openai:m-3@1", "openai:m-500b@1", "ollama:m@1"}
