"""Names that people are called by, other than those of their accounts."""

import asyncio

import pytest

from brimful.engine import Engine
from brimful.records import Message
from brimful.retrieval.names import find_addressees
from brimful.retrieval.queries import parse_question


def talk(*said):
    return {
        at: Message(id=f"m{at}", room="r", sender=who, content=text) for at, (who, text) in enumerate(said, start=1)
    }


def answered(*addresses):
    """Return a conversation in which bo says these things, and emi answers each time."""
    return talk(*(turn for text in addresses for turn in (("bo", text), ("emi", "Indeed."))))


@pytest.mark.parametrize(
    "greeting",
    ["Kate!", "Hey Kate! Well?", "Good morning, Kate.", "Wow, KATE, how nice", "Nice. Thanks Kate!", "Kate !"],
)
def test_whoever_answers_is_addressed(greeting):
    assert find_addressees(answered(greeting, greeting), {"kate"}) == {"emi"}


@pytest.mark.parametrize(
    "text",
    [
        "In Kate, we trust.",
        "I saw my friend Kate, she waves.",
        "kate!",
        "Happy Kate day",
        "We went with Ann and Kate.",
        "Great big brown Kate!",
    ],
)
def test_a_mention_is_no_address(text):
    assert find_addressees(answered(text, text, text), {"kate"}) == frozenset()


def test_only_the_start_of_a_message_is_read():
    late = "x" * 200 + ". Kate!"
    assert find_addressees(answered(late, late), {"kate"}) == frozenset()


def test_a_question_names_a_few_people_by_their_words():
    question = parse_question("Did Kate's aunt meet Ivo, Jon, Otto, Lena and " + "Zed " * 100 + "?")
    assert [word for _, word in question.names] == ["kate", "ivo", "jon", "otto"]


def test_once_is_not_enough():
    assert find_addressees(answered("Hey Kate!", "Well?"), {"kate"}) == frozenset()


def test_days_are_no_names():
    assert find_addressees(answered("Happy Friday!", "Finally, Friday!"), {"friday"}) == frozenset()


def test_a_name_that_both_sides_use_belongs_to_neither():
    said = talk(("bo", "Kate!"), ("emi", "Kate!"), ("bo", "Kate!"), ("emi", "Kate!"))
    assert find_addressees(said, {"kate"}) == frozenset()


def test_without_an_answer_nobody_is_addressed():
    assert find_addressees(talk(("bo", "Kate!"), ("bo", "Kate!"), ("bo", "Kate!")), {"kate"}) == frozenset()


@pytest.mark.parametrize("speaker", ["Kate", "kate"])
@pytest.mark.parametrize("word", ["Katte", "Kste", "Kaet", "Katee"])
def test_a_misspelt_name_means_its_speaker(word, speaker):
    question = parse_question(f"Where does {word} live?", speakers=["Bo", speaker])
    assert question.is_about(speaker)
    assert not question.is_about("Bo")


@pytest.mark.parametrize("word", ["katte", "Bate", "Kat", "Kathleen", "Ktaxx"])
def test_other_words_are_no_misspelt_names(word):
    assert not parse_question(f"Where does {word} live?", speakers=["Bo", "Kate"]).is_about("Kate")


def test_names_are_capitalized_words_that_no_speaker_has():
    assert parse_question("What did Ann tell Kate about Lake Como?", speakers=["Ann"]).names == (
        ("kate", "kate"),
        ("lake", "lake"),
        ("como", "como"),
    )


@pytest.mark.parametrize(("name", "first"), [("Kate", "emi"), ("Zoe", "bo")])
def test_a_question_about_a_name_finds_the_messages_of_whoever_is_called_so(name, first):
    said = [("emi", "Tennis is my favourite sport."), ("bo", "Tennis is my favourite sport, too.")]
    for _ in range(3):
        said += [("bo", "Hey Kate! All right?"), ("emi", "Sure."), ("emi", "Hey Zoe! And you?"), ("bo", "Fine.")]

    async def story():
        async with Engine("sqlite://", model="gpt-4", embedder=None) as engine:
            await engine.post_many(list(talk(*said).values()))
            return await engine.search(f"Which sport does {name} like, tennis?", room="r")

    hits = asyncio.run(story())
    assert hits[0].record.sender == first
