"""The queries of a build: event and goal, the last human messages, the last action, and a focus."""

import pytest

from brimful import ToolResult
from brimful.errors import InvalidValue
from brimful.records import Message
from brimful.retrieval.documents import make_document
from brimful.retrieval.queries import (
    HUMAN_MESSAGES,
    MAX_QUERY_CHARS,
    MAX_QUERY_TERMS,
    SIDE_TERMS,
    WEIGHTS,
    make_queries,
    parse_question,
    query_terms,
)
from brimful.retrieval.search import SearchRequest, memory_scopes


def message(text: str, role: str = "user") -> Message:
    content = (ToolResult(id="c", content=text),) if role == "tool" else text
    return Message(id="m", room="r", content=content, role=role)


def by_name(asked):
    return {query.name: query.text for query in asked}


def test_all_four_questions_of_the_founding_document():
    recent = [message("It is raining.", "tool"), message("And in Rome?"), message("Hello!", "assistant"), message("Hi")]
    asked = by_name(make_queries("What now?", goal="Plan a trip", recent=recent, focus="spam"))
    assert asked == {
        "event": "What now?\nPlan a trip",
        "focus": "spam",
        "human": "Hi\nAnd in Rome?",
        "action": "It is raining.",
    }


def test_at_most_three_human_messages_are_queries_oldest_first():
    recent = [message(f"message {number}") for number in range(9, 0, -1)]
    assert by_name(make_queries("x", recent=recent))["human"] == "message 7\nmessage 8\nmessage 9"
    assert HUMAN_MESSAGES == 3


def test_the_current_question_weighs_most():
    weights = {
        query.name: query.weight for query in make_queries("a", recent=[message("b"), message("c", "assistant")])
    }
    assert weights == {"event": 1.0, "human": WEIGHTS["human"], "action": WEIGHTS["action"]}
    assert max(WEIGHTS, key=WEIGHTS.get) == "event"


def test_equal_queries_run_once_and_empty_ones_never():
    assert [query.name for query in make_queries("same", recent=[message("same")])] == ["event"]
    assert make_queries("  ", recent=[message("")]) == ()


def test_a_query_names_who_asks_and_the_messages_that_it_repeats():
    recent = [
        Message(id="m2", room="r", seq=7, content="It is in Rome.", role="assistant", sender="nova"),
        Message(id="m1", room="r", seq=6, content="Where is it?", role="user", sender="ada"),
    ]
    queries = make_queries("When?", asker="bo", position=8, recent=recent, focus="travel")
    assert {query.name: (query.asker, query.positions) for query in queries} == {
        "event": ("bo", (8,)),
        "focus": ("", (8,)),
        "human": ("ada", (8, 6)),
        "action": ("nova", (8, 7)),
    }


def test_the_end_of_a_very_long_message_is_the_query():
    (query,) = make_queries("start " + "word " * 5000 + "end?")
    assert len(query.text) <= MAX_QUERY_CHARS
    assert query.text.endswith("end?")


def test_other_queries_search_for_fewer_terms_and_for_no_synonyms():
    text = " ".join(f"car{n}" for n in range(100)) + " car"
    main, side = make_queries(text, recent=[message(f"So: {text}")])
    assert (len(query_terms(main)), len(query_terms(side))) == (MAX_QUERY_TERMS, SIDE_TERMS)
    assert main.related
    assert side.related == ()


@pytest.mark.parametrize("wrong", [None, 7, b"tea", ["tea"]])
def test_queries_must_be_strings(wrong):
    with pytest.raises(InvalidValue, match="text: must be a string"):
        make_queries(wrong)
    with pytest.raises(InvalidValue, match="focus: must be a string"):
        make_queries("tea", focus=wrong)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("limit", lambda: SearchRequest(limit="many")),
        ("limit", lambda: SearchRequest(limit=-1)),
        ("types", lambda: SearchRequest(types=("semantic", 3))),
        ("persona", lambda: memory_scopes(7, None, None)),
        ("room", lambda: memory_scopes(None, None, ["r"])),
        ("record", lambda: make_document("tea")),
    ],
)
def test_invalid_searches_are_refused_by_name(field, make):
    with pytest.raises(InvalidValue) as refused:
        make()
    assert refused.value.field == field


@pytest.mark.parametrize(
    "text", ["What is 2 + 2?", "17 times 23", "how much is 3.5*2,000", "What is 9 - 4 ÷ 2?", "1+1=3?"]
)
def test_the_numbers_of_a_calculation_are_not_searched_for(text):
    assert parse_question(text).terms in ((), ("much",))


@pytest.mark.parametrize(
    "text", ["What happened on 5-7 May 2023?", "room 12 and 14", "the train at 10:30", "version 1.2"]
)
def test_other_numbers_are_terms(text):
    assert any(term[0].isdigit() for term in parse_question(text).terms)


@pytest.mark.parametrize("text", ["What may she eat?", "may I ask", "They may not come", "It may, or may not, work"])
def test_the_verb_may_is_not_the_month(text):
    assert "may" not in parse_question(text).terms


@pytest.mark.parametrize("text", ["What happened in may?", "the trip of may 2023", "on 7 may", "May", "next may"])
def test_the_month_may_is_searched_for(text):
    assert "may" in parse_question(text).terms


def test_a_mention_is_no_part_of_a_query():
    recent = [
        Message(id="m2", room="r", content="@helper-ai thanks", role="user", sender="ada"),
        Message(id="m1", room="r", content="@ada It runs.", role="assistant", sender="Helper AI", persona="helper-ai"),
    ]
    queries = make_queries("@helper-ai status", recent=recent)
    assert by_name(queries) == {"event": "status", "human": "thanks", "action": "ada It runs."}
    assert queries[0].question.terms == ("status",)
    assert by_name(make_queries("@helper ai status", recent=recent))["event"] == "status"
    assert by_name(make_queries('@"Helper AI", status', persona=["helper-ai", "Helper AI"]))["event"] == ", status"
    assert by_name(make_queries("@Helper_AI: status", persona=["helper-ai", "Helper AI"]))["event"] == ": status"
    assert "event" not in by_name(make_queries("@helper-ai", recent=recent))


def test_a_person_who_speaks_can_be_asked_about_with_a_mention():
    recent = [Message(id="m1", room="r", content="I lost the key.", role="user", sender="Ada")]
    [query, _] = make_queries("What did @ada say?", recent=recent)
    assert query.text == "What did ada say?"
    assert query.question.is_about("Ada")


def test_a_mention_of_an_assistant_without_a_persona_is_no_part_of_a_query_either():
    recent = [Message(id="m1", room="r", content="It runs.", role="assistant", sender="nova")]
    assert by_name(make_queries("@nova status", recent=recent))["event"] == "status"


def test_a_search_for_a_mention_alone_is_one_for_the_name():
    assert by_name(make_queries("@ada")) == {"event": "@ada"}
