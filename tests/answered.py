"""Stores with a helper that has answered questions in a room."""

import asyncio
import re
from itertools import repeat

import msgspec

import brimful
from brimful.core.content import Media, Text
from brimful.engine import Engine
from brimful.records import Persona, Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider
from brimful.wires import find_wire

DB = "sqlite:///brimful.db"
NOW = 1_763_200_000.0  # 2025-11-15
MEMORIES = (
    ("m-search", "episodic", "Discussed vector search performance with Joel: he was concerned about timeouts."),
    ("m-types", "semantic", "Joel prefers TypeScript over JavaScript for type safety and better tooling."),
    ("m-debug", "episodic", "Helped debug embedding timeouts in the vector store of the search service."),
    ("m-dims", "semantic", "Vector embeddings are 384 dimensions."),
    ("m-start", "procedural", "When testing embedding timeouts, run npm start first."),
)
QUESTION = "How should I handle embedding timeouts?"
ANSWER = "Retry with a growing pause, and open a circuit breaker after three failures."


class Clock:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        self.now += 1.0
        return self.now


class Provider(ScriptedProvider):
    """A scripted one that reports the tokens of a prompt as they are, so that nothing odd is learned from it."""

    async def send(self, request):
        said = await super().send(request)
        prompt = brimful.counter("gpt-4o").prompt(find_wire("openai").parse(request)).tokens
        cached = prompt // 2 if said.usage.cached else 0
        return msgspec.structs.replace(said, usage=Usage(prompt=prompt, cached=cached, completion=487))


def reply(text=ANSWER, *, cached=False):
    return Reply(parts=(Text(text=text),), model="gpt-4o", usage=Usage(prompt=1, cached=int(cached)), finish="stop")


def engine(url=DB, script=None, **options):
    usual = {"provider": Provider(script or repeat(reply())), "model": "gpt-4o", "clock": Clock()}
    return Engine(url, embedder="none", **usual | options)


async def furnish(opened):
    """Put a persona, its memories and a conversation into a store."""
    prompt = "You are Helper AI, a coding assistant."
    await opened.put(Persona(id="helper-ai", name="Helper AI", prompt=prompt, model="gpt-4o"))
    for number, (id, type, text) in enumerate(MEMORIES):
        await opened.remember(text, type=type, persona="helper-ai", id=id, at=NOW - 1000 * (number + 1))
    for number in range(20):
        role = "assistant" if number % 2 else "user"
        text = f"Message number {number} of our talk about the search service."
        sender = "Helper AI" if number % 2 else "Joel"
        await opened.post(
            room="general", text=text, sender=sender, role=role, id=f"old-{number:02d}", at=NOW - 500 + number
        )


def answer_questions(*, url=DB, questions=1, script=None, record_share=1.0, **options):
    """Furnish a store, and let the helper answer some questions. Return the answers."""

    async def story():
        async with engine(url, script, record_share=record_share) as opened:
            await furnish(opened)
            return [
                await opened.respond(
                    "general",
                    QUESTION if n == 0 else f"{QUESTION} Again, {n}.",
                    persona="helper-ai",
                    id=f"ask-{n}",
                    sender="Joel",
                    **options,
                )
                for n in range(questions)
            ]

    return asyncio.run(story())


def screenshot(name, width=1024, height=1024):
    return Media(modality="image", url=f"https://x.example/shots/{name}.png", width=width, height=height)


def shape(line):
    """Return a line with any number, any quotation and any width in the place of its own."""
    plain = re.sub(r"\d[\d,.]*", "0", re.sub(r'"[^"]*"', '""', line))
    return re.sub(r"─+", "─", re.sub(r"  +", "  ", plain)).strip()
