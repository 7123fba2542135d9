"""A memory that is small is simply there, whatever words the question uses."""

import asyncio

import pytest

from brimful.engine import Engine
from brimful.engine.plan import FEW_MEMORIES
from brimful.records import Memory

NOW = 1_794_000_000.0
FACTS = (
    "Ada takes her tea without milk.",
    "Ada is allergic to hazelnuts and shellfish.",
    "Ada's sister Grace lives in Lisbon.",
    "Ada works as a marine engineer.",
    "Ada's bicycle is called Rosinante.",
    "Ada runs ten kilometres every Sunday.",
)
QUESTIONS = {
    "What does she drink?": 0,
    "Which foods are dangerous for her?": 1,
    "What is her job?": 3,
    "Where does her sibling live?": 2,
    "How does she keep fit?": 5,
    "Which cake should I bake for Ada?": 1,
    "What may she not eat?": 1,
    "Can I cook her shrimps?": 1,
}


def build(memories, questions, **options):
    async def story():
        async with Engine("sqlite://", model="gpt-4o", indexing=False, **options) as engine:
            await engine.remember_many(memories)
            if options.get("embedder"):
                await engine.index()
            return [await engine.assemble(room="den", user="ada", message=each, now=NOW) for each in questions]

    return asyncio.run(story())


def own(*texts):
    return [Memory(id=f"m{n}", content=text, user="ada", at=NOW) for n, text in enumerate(texts)]


@pytest.mark.parametrize("embedder", ["static", "small", None])
def test_six_facts_are_there_for_eight_plain_questions(embedder):
    contexts = build(own(*FACTS), QUESTIONS, embedder=embedder)
    for context, fact in zip(contexts, QUESTIONS.values(), strict=True):
        assert FACTS[fact] in context.request["messages"][0]["content"]


def test_an_unrelated_question_costs_about_200_tokens_more():
    [bare] = build([], ["What is 17 times 23?"])
    [with_facts] = build(own(*FACTS), ["What is 17 times 23?"])
    assert bare.tokens < with_facts.tokens <= bare.tokens + 210
    assert with_facts.decision("m3").reason == "free"
    assert "it is one of the few memories" in with_facts.explain("m3")


def test_memories_of_others_are_not_among_the_few():
    [context] = build([*own(*FACTS), Memory(id="bo", content="Bo keeps bees.", user="bo", at=NOW)], ["Hello"])
    assert "m0" in context.decisions_by_id
    assert "bo" not in context.decisions_by_id


@pytest.mark.parametrize(("count", "candidates"), [(FEW_MEMORIES, FEW_MEMORIES), (FEW_MEMORIES + 1, 0)])
def test_only_found_memories_are_candidates_if_there_are_many(count, candidates):
    [context] = build(own(*(f"Note {chr(97 + n % 26)}{n} is about kettles." for n in range(count))), ["Good morning"])
    assert sum(decision.kind.startswith("memory-") for decision in context.decisions) == candidates


def test_a_limit_of_memories_holds_for_few_memories_too():
    async def story():
        async with Engine("sqlite://", model="gpt-4o", indexing=False) as engine:
            await engine.remember_many(own(*FACTS))
            return await engine.assemble(
                room="den", user="ada", message="Hello", retrieval={"max_memories": 2}, save=False, now=NOW
            )

    assert not any(decision.kind.startswith("memory-") for decision in asyncio.run(story()).decisions)
