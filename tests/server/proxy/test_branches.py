"""Edited conversations in `remember` mode: abandoned messages are superseded."""

import asyncio

import pytest

from brimful.engine import Engine
from brimful.records import Message
from brimful.server.proxy.overlap import find_overlap
from server.upstream import chat_answer

CHAT = "/v1/chat/completions"
TALK = {"x-brimful-conversation": "tea"}


@pytest.fixture
def client(start):
    return start(mode="remember")


@pytest.fixture
def ask(client, upstream):
    """Return a function that says texts, in turns beginning with the user's, and gives the answer, numbered."""
    upstream.answers = [lambda _: chat_answer(f"answer {len(upstream.bodies)}")]

    def asked(*texts, system="Be brief."):
        turns = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(texts)]
        messages = [{"role": "system", "content": system}, *turns]
        answer = client.post(CHAT, json={"model": "gpt-4o", "max_tokens": 100, "messages": messages}, headers=TALK)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]["content"]

    return asked


@pytest.fixture
def sent(upstream):
    """Return a function that tells what the upstream was sent last, without the prompt."""
    return lambda: [message["content"] for message in upstream.bodies[-1]["messages"][1:]]


@pytest.fixture
def branched(ask):
    """Return a conversation of three turns: what was said, in order."""
    rows = ["A?"]
    for text in ("B?", "C?", None):
        rows.append(ask(*rows))
        rows += [text] if text else []
    return rows


def stored_texts(tmp_path, search=""):
    """Return the texts in the room, each with whether it is superseded; or the results of a search."""

    async def read():
        async with Engine(f"sqlite:///{tmp_path}/brimful.db", embedder="none") as engine:
            if search:
                return [hit.record.content for hit in (await engine.search(search, room="tea")).hits]
            entries = await engine.store.history("tea", limit=100)
            return [(entry.message.content, entry.message.superseded) for entry in reversed(entries)]

    return asyncio.run(read())


def test_the_conversation_continues_from_a_regenerated_answer(branched, ask, sent, tmp_path):
    a, b1, c1 = branched[1::2]
    b2 = ask("A?", a, "B?")
    assert sent() == ["A?", a, "B?"]
    ask("A?", a, "B?", b2, "D?")
    assert sent() == ["A?", a, "B?", b2, "D?"]
    assert [text for text, superseded in stored_texts(tmp_path) if superseded] == [b1, "C?", c1]
    assert [text for text, superseded in stored_texts(tmp_path) if not superseded][:5] == ["A?", a, "B?", b2, "D?"]


def test_an_edited_question_supersedes_the_old_one(branched, ask, sent, tmp_path):
    a = branched[1]
    last = ask("A?", a, "And the kettle?")
    assert sent() == ["A?", a, "And the kettle?"]
    assert [text for text, superseded in stored_texts(tmp_path) if superseded] == branched[2:]
    assert set(stored_texts(tmp_path, search="answer")) == {"A?", a, "And the kettle?", last}


def test_a_superseded_branch_can_be_resumed(branched, ask, sent):
    a, b1, _ = branched[1::2]
    for _ in range(2):
        ask("A?", a, "Other?")
        ask("A?", a, "B?", b1, "E?")
        assert sent() == ["A?", a, "B?", b1, "E?"]


def test_a_retry_leaves_one_answer(branched, ask, sent):
    rows = [*branched, "E?"]
    ask(*rows)
    last = ask(*rows)
    ask(*rows, last, "F?")
    assert sent() == [*rows, last, "F?"]


def test_the_first_question_is_recognized(ask, sent):
    first = ask("What is 2+2?")
    second = ask("What is 2+2?")
    assert first != second
    assert sent() == ["What is 2+2?"]
    ask("What is 2+2?", second, "And 3+3?")
    assert sent() == ["What is 2+2?", second, "And 3+3?"]


def test_going_far_back_is_recognized(ask, sent):
    reports = []
    for turn in range(60):
        reports += [f"Question {turn}", f"told {turn}"]
    ask(*reports, "Now?")
    ask(*reports[:4], "Otherwise?")
    assert sent() == [*reports[:4], "Otherwise?"]
    ask(*reports[:4], "Thirdly?")
    assert sent() == [*reports[:4], "Thirdly?"]


def make_messages(*texts):
    roles = ("user", "assistant")
    return [Message(id=f"m{at}", room="r", role=roles[at % 2], content=text) for at, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        (["A", "a", "B", "b", "C", "c", "D"], []),  # all of it, and what is new
        (["D"], []),  # only what is new
        (["B"], []),  # the same once more
        (["C", "c", "D"], []),  # a tail
        (["A", "a", "C", "c", "D"], []),  # without what stands in between
        (["A", "a", "C"], []),  # … which may be an edited question as well
        (["A", "a", "B", "in other words", "C", "likewise", "D"], []),
        (["A", "likewise", "B"], ["b", "C", "c"]),
        (["A", "a", "B", "in other words", "D"], ["C", "c"]),
        (["A", "a", "B"], ["b", "C", "c"]),
        (["A", "a", "B", "b", "D"], ["C", "c"]),
        (["A", "a", "D"], ["B", "b", "C", "c"]),
        (["A", "a", "B", "b"], []),  # an answer that is to be gone on with
        (["X", "x", "D"], []),  # nothing that is known
        (["X", "x", "B", "y", "D"], []),  # … or hardly anything
    ],
)
def test_only_clearly_abandoned_messages_are_superseded(sent, left):
    found = find_overlap(make_messages(*sent), make_messages("A", "a", "B", "b", "C", "c"))
    assert [message.content for message in found.left] == left


def test_a_repeated_message_matches_its_last_occurrence():
    assert find_overlap(make_messages("ok", "Good.", "D"), make_messages("ok", "Good.", "ok", "Good.")).left == ()
