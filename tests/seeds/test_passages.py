"""Rows of the requirements about long texts: they are found, and brought, in passages."""

import asyncio
import json

import pytest

from brimful.engine import Engine
from brimful.records import Lorebook, LoreEntry, Memory, Message, Room

NOW = 1_794_000_000.0
SENTENCE = "The spare key to the boathouse hangs behind the barometer."
QUESTION = "Where is the boathouse key?"
TOPICS = ("street names", "pottery", "public lighting", "old maps", "letters", "the harbour", "translation")
LENGTHS = {33: 1, 330: 20, 2_700: 170, 30_000: 1_900}  # tokens: sentences


def text_of(tokens):
    """Return a text of about so many tokens with the sentence in it, two thirds from its beginning."""
    count = LENGTHS[tokens]
    around = [f"Page {n} of the report deals with {TOPICS[n % 7]} and {TOPICS[n % 5]}." for n in range(count)]
    around.insert(2 * count // 3, SENTENCE)
    return " ".join(around)


def build(kind, tokens, *, window=8_192, later=300, embedder=None):
    """Return the context for the question, in a room with that text and so many turns after it."""
    text = text_of(tokens)

    async def story():
        async with Engine("sqlite://", model="gpt-4", embedder=embedder, indexing=False) as engine:
            await engine.put(Room(id="r", lorebooks=("b",) if kind == "lore" else ()))
            turns = [text] if kind == "message" else []
            turns += [f"Turn {n}: what a day, and what weather we had!" for n in range(later)]
            await engine.post_many(
                [
                    Message(id=f"m{n}", room="r", role=("user", "assistant")[n % 2], content=turn, at=NOW + n)
                    for n, turn in enumerate(turns)
                ]
            )
            if kind == "memory":
                await engine.remember_many([Memory(id="text", content=text, at=NOW)])
            if kind == "lore":
                await engine.put(Lorebook(id="b"))
                await engine.write_lore([LoreEntry(id="text", lorebook="b", keys=("boathouse",), content=text)])
            if embedder is not None:
                await engine.index()
            return await engine.assemble(room="r", message=QUESTION, window=window, save=False, now=NOW + later)

    return asyncio.run(story())


def sent(context):
    return json.dumps(context.request)


@pytest.mark.parametrize("window", [8_192, 16_384])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_4_15_a_sentence_in_a_long_message_is_found_and_sent(tokens, window):
    """Older history is retrieved in chunks."""
    assert SENTENCE in sent(build("message", tokens, window=window, later=600))


def test_4_15_relevance_does_not_fall_with_the_length_of_what_surrounds_a_sentence():
    """Older history is retrieved in chunks."""
    found = {}
    for tokens in (2_700, 30_000):
        context = build("message", tokens)
        (package,) = [each for each in context.inputs.packages if each.metadata.get("search", {}).get("passage")]
        found[tokens] = package.metadata["search"]["relevance"]
    assert found[30_000] > 0.1 * found[2_700] > 0  # ten times as many passages: each is a tenth as likely before


def test_4_15_the_record_says_which_passage_it_was():
    """Older history is retrieved in chunks."""
    context = build("message", 30_000)
    (package,) = [each for each in context.inputs.packages if each.matches]
    ((start, stop),) = package.matches
    passage = package.metadata["search"]["passage"]
    assert SENTENCE in package.text[start:stop]
    assert (passage["start"], passage["stop"]) == (start, stop)
    assert context.decision(package.id).form == "excerpt"
    assert f"), passage {passage['number'] + 1} (characters" in context.explain(package.id)


@pytest.mark.parametrize("kind", ["memory", "lore"])
@pytest.mark.parametrize("window", [8_192, 16_384])
def test_4_15_a_long_memory_or_lore_entry_is_sent_in_part(kind, window):
    """A 6,700-token memory or lore entry whose key is spoken is not dropped."""
    context = build(kind, 30_000, window=window, later=20)
    assert SENTENCE in sent(context)
    assert context.decision("text").form == "excerpt"


def test_4_15_a_long_message_of_which_history_has_a_digest_is_sent_in_part_too():
    """Older history is retrieved in chunks."""
    context = build("message", 30_000, later=6)
    assert context.decision("m0").form in ("digest", "stub")
    assert context.decision("m0/recalled").form == "excerpt"
    assert SENTENCE in sent(context)
