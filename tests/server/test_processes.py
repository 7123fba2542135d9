"""Several server processes on one PostgreSQL database."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from brimful.stores import connect
from server.upstream import chat_answer

CHAT = "/v1/chat/completions"
TALK = {"x-brimful-conversation": "tea"}


def says(role, text):
    return {"role": role, "content": text}


def test_nothing_is_lost_or_stored_twice(start, upstream, postgres_url):
    upstream.answers = [lambda sent: chat_answer("To " + sent["messages"][-1]["content"])]
    clients = [start(mode="remember", store=postgres_url) for _ in range(2)]

    def ask(number, *messages):
        asked = {"model": "gpt-4o", "messages": list(messages)}
        return clients[number % 2].post(CHAT, json=asked, headers=TALK).json()["choices"][0]["message"]["content"]

    asked = [f"Question {number}?" for number in range(8)]
    history = [says("user", "First?"), says("assistant", "To First?"), says("user", "Last?")]
    with ThreadPoolExecutor(8) as pool:
        assert ask(0, says("user", "First?")) == "To First?"
        answers = list(pool.map(lambda number: ask(number, says("user", asked[number])), range(8)))
        again = list(pool.map(lambda number: ask(number, *history), range(4)))

    async def read():
        async with connect(postgres_url) as database:
            return [entry.message for entry in await database.tenant("default").history("tea", limit=100)]

    said = asyncio.run(read())
    assert answers == [f"To {question}" for question in asked]
    assert again == ["To Last?"] * 4
    assert sorted(message.content for message in said if message.role == "user") == sorted(["First?", "Last?", *asked])
    assert len(said) == 10 + 1 + 8 + 4
    assert len({message.seq for message in said}) == len(said)
