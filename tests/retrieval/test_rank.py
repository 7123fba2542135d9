import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.records.search import Postings, VectorHit
from brimful.retrieval.queries import parse_question
from brimful.retrieval.rank import VECTOR, Match, add_speaker
from brimful.retrieval.rank import rank as rank_in_columns
from brimful.retrieval.search import Parts

NOTHING = Postings(
    terms=(), document_frequency=(), documents=0, words=0, doc=(), seq=(), length=(), term=(), frequency=()
)
ONE_TERM = Postings(
    terms=("lake",), document_frequency=(2,), documents=50, words=500, doc=(103, 130), seq=(3, 30), length=(10, 10),
    term=(0, 0), frequency=(1, 2),
)  # fmt: skip
cosines = st.floats(-1.0, 1.0)


def rank(postings, near, *, conversation, limit):
    return rank_in_columns(postings, near, conversation=conversation).before(None, limit).matches()


def near(similarities):
    return [VectorHit(doc=place + 100, seq=place, similarity=value) for place, value in similarities.items()]


@given(st.dictionaries(st.integers(1, 60), cosines), st.booleans())
def test_the_best_comes_first_and_shares_add_up_to_one(similarities, conversation):
    ranking = rank_in_columns(ONE_TERM, near(similarities), conversation=conversation)
    ranked = ranking.matches()
    for found in ranked:
        assert min(found.parts.words, found.parts.meaning, found.parts.neighbours) >= -1e-9
        assert conversation or found.parts.neighbours == 0
    assert [found.log_share for found in ranked] == sorted((found.log_share for found in ranked), reverse=True)
    assert np.exp(ranking.log_shares).sum() == pytest.approx(1.0)
    assert len({found.position for found in ranked}) == len(ranked)


@given(st.dictionaries(st.integers(1, 60), cosines), st.randoms(use_true_random=False))
def test_the_order_of_what_is_near_says_nothing(similarities, random):
    hits = near(similarities)
    mixed = random.sample(hits, len(hits))
    assert rank(ONE_TERM, mixed, conversation=True, limit=50) == rank(ONE_TERM, hits, conversation=True, limit=50)


@given(st.dictionaries(st.integers(1, 60), cosines), st.integers(0, 20))
def test_a_limit_keeps_the_best(similarities, limit):
    hits = near(similarities)
    ranked = rank(ONE_TERM, hits, conversation=True, limit=1000)
    assert rank(ONE_TERM, hits, conversation=True, limit=limit) == ranked[:limit]


@given(st.dictionaries(st.integers(1, 60), st.floats(0.0, 0.5), min_size=2), st.data())
def test_nearer_is_no_less_relevant(similarities, data):
    place = data.draw(st.sampled_from(sorted(similarities)))
    if similarities[place] == min(similarities.values()):
        similarities = {**similarities, 61: 0.0}
    nearer = {**similarities, place: similarities[place] + 0.5}
    before, after = (
        next(found for found in rank(ONE_TERM, near(each), conversation=True, limit=1000) if found.position == place)
        for each in (similarities, nearer)
    )
    assert after.log_share > before.log_share


def test_positions_are_turns_in_a_conversation_and_documents_elsewhere():
    hits = near({3: 0.6, 8: 0.1})
    assert rank(ONE_TERM, hits, conversation=True, limit=1)[0].position == 3
    postings = msgspec.structs.replace(ONE_TERM, seq=(0, 0))
    hits = [VectorHit(doc=hit.doc, seq=0, similarity=hit.similarity) for hit in hits]
    assert {found.position for found in rank(postings, hits, conversation=False, limit=9)} == {103, 108, 130}


def test_both_sides_find_more_than_one():
    hits = near({3: 0.6, 50: 0.6, 51: 0.1})
    ranked = {found.position: found for found in rank(ONE_TERM, hits, conversation=True, limit=1000)}
    assert ranked[3].log_share > max(ranked[30].log_share, ranked[50].log_share)
    assert (ranked[3].parts.meaning, ranked[30].parts.meaning) == pytest.approx((VECTOR * 0.5, 0.0))
    assert (ranked[50].parts.words, ranked[50].parts.neighbours) == (0.0, 0.0)


def test_the_only_document_of_a_scope_has_the_whole_probability():
    ranking = rank_in_columns(NOTHING, near({1: 0.9}), conversation=False)
    assert (ranking.log_shares.tolist(), ranking.nearest) == (pytest.approx([0.0]), 0.9)


def test_without_vectors_nothing_is_near():
    assert rank_in_columns(ONE_TERM, [], conversation=False).nearest == 0.0


def test_ties_are_broken_by_time_newest_first():
    ranked = rank(NOTHING, near({1: 0.5, 9: 0.5}), conversation=True, limit=2)
    assert [found.position for found in ranked] == [9, 1]


def test_a_document_that_is_near_by_several_vectors_counts_by_the_nearest():
    hits = [*near({1: 0.5}), *near({1: 0.7}), *near({2: 0.1})]
    assert rank(NOTHING, hits, conversation=True, limit=1)[0].parts.meaning == pytest.approx(VECTOR * 0.6)


def test_only_turns_have_a_position_in_a_conversation():
    summary = msgspec.structs.replace(ONE_TERM, seq=(0, 30))
    hits = [*near({0: 0.9}), *near({40: 0.5, 41: 0.1})]
    ranked = {found.position: found for found in rank(summary, hits, conversation=True, limit=1000)}
    assert min(ranked) == 24
    assert (ranked[30].parts.meaning, ranked[40].parts.meaning) == pytest.approx((0.0, VECTOR * 0.4))
    assert rank(NOTHING, near({0: 0.9}), conversation=True, limit=9) == []
    turns = near({40: 0.5, 41: 0.1})
    assert rank(NOTHING, [*near({0: 0.0}), *turns], conversation=True, limit=9) == rank(
        NOTHING, turns, conversation=True, limit=9
    )


def test_nothing_finds_nothing():
    assert rank(NOTHING, [], conversation=True, limit=10) == []


def add(question, speaker, text):
    """Return what a speaker and a text add to the logarithm of the share."""
    match = add_speaker(Match(position=1, log_share=-3.0), question, speaker=speaker, text=text)
    assert match.log_share + 3.0 == pytest.approx(match.parts.speaker + match.parts.time)
    return match.parts


def test_a_speaker_and_a_time_in_the_question_weigh_more():
    question = parse_question("When did Ann move?")
    parts = [add(question, speaker, text) for speaker in ("Ann", "Bo") for text in ("Last week.", "Far away.")]
    assert [(each.speaker > 0, each.time > 0) for each in parts] == [(1, 1), (1, 0), (0, 1), (0, 0)]
    assert parts[0].speaker > parts[0].time


def test_statements_about_oneself_weigh_more_and_memories_have_no_speaker():
    question = parse_question("Which boat was sold?")
    assert add(question, "Ann", "I sold my boat.").speaker > 0
    assert add(question, "Ann", "They sold their boat.") == add(question, "", "I sold my boat.") == Parts()


def test_a_find_is_a_value():
    assert Match(position=1, log_share=0.5) == Match(position=1, log_share=0.5)
    with pytest.raises(AttributeError):
        Match(position=1, log_share=0.5).position = 2


def test_the_best_paraphrase_is_among_the_first_however_many_texts_share_a_word():
    shared = Postings(
        terms=("dessert", "fruit"), document_frequency=(30, 0), documents=500, words=5_000, doc=range(101, 131),
        seq=range(1, 31), length=[10] * 30, term=[0] * 30, frequency=[1] * 30,
    )  # fmt: skip
    others = {position: 0.2 + position / 1_000 for position in range(40, 60)}
    first = rank(shared, near({100: 0.5, **others}), conversation=False, limit=3)
    assert 100 in {found.position for found in first}


def test_shares_do_not_depend_on_how_many_vectors_were_searched_for():
    similarities = {position: 1 - position / 1_000 for position in range(1, 600)}
    few, many = (
        rank(ONE_TERM, near(dict(list(similarities.items())[:count])), conversation=False, limit=5)
        for count in (250, 599)
    )
    assert [found.log_share for found in few] == pytest.approx([found.log_share for found in many])


@given(st.dictionaries(st.integers(1, 60), cosines), st.integers(1, 61), st.integers(0, 30))
def test_only_earlier_positions_are_left_beside_the_very_best(similarities, end, limit):
    ranking = rank_in_columns(ONE_TERM, near(similarities), conversation=True)
    left = ranking.before(end, limit).positions.tolist()
    everything = ranking.positions.tolist()
    earlier = [position for position in everything if position < end]
    assert set(left) == {*earlier[:limit], *everything[:10]}
    assert left == [position for position in everything if position in left]


def passages(strengths, seqs, **changes):
    """One term in several documents: by document, how often it occurs."""
    docs = sorted(strengths)
    return Postings(
        terms=("lake",), document_frequency=(len(docs),), documents=50, words=500, doc=docs, seq=seqs,
        length=[10] * len(docs), term=[0] * len(docs), frequency=[strengths[doc] for doc in docs], **changes,
    )  # fmt: skip


def test_a_record_is_as_relevant_as_its_best_passage():
    found = rank(passages({1: 1, 2: 3, 3: 1, 9: 3}, [5, 5, 5, 40]), [], conversation=True, limit=99)
    best = {match.position: match for match in found}
    assert (best[5].doc, best[40].doc) == (2, 9)
    assert best[5].log_share == best[40].log_share
    assert len(found) == len(best)


def test_words_and_meaning_count_for_the_same_passage_only():
    near = [VectorHit(doc=2, seq=5, similarity=0.7), VectorHit(doc=1, seq=5, similarity=0.1)]
    apart = rank(passages({1: 1, 9: 1}, [5, 40]), near, conversation=True, limit=99)
    together = rank(passages({2: 1, 9: 1}, [5, 40]), near, conversation=True, limit=99)
    assert apart[0].log_share < together[0].log_share
    assert (together[0].doc, together[0].parts.meaning) == (2, pytest.approx(VECTOR * 0.6))


def test_the_passages_of_a_memory_are_one_position():
    found = rank(passages({11: 1, 12: 2, 20: 1}, [11, 11, 0]), [], conversation=False, limit=99)
    assert [(match.position, match.doc) for match in found] == [(11, 12), (20, 20)]


def test_turns_beside_a_long_message_see_its_best_passage():
    long = rank(passages({1: 2, 2: 1}, [5, 5]), [], conversation=True, limit=99)
    short = rank(passages({1: 2}, [5]), [], conversation=True, limit=99)
    beside = [next(match.parts for match in found if match.position == 6) for found in (long, short)]
    assert beside[0] == beside[1]
    assert next(match.doc for match in long if match.position == 6) == 0


def test_a_passage_is_scored_with_the_turns_around_its_message():
    alone = rank(passages({1: 1, 2: 0.5}, [5, 5]), [], conversation=True, limit=99)
    beside = rank(passages({1: 1, 2: 0.5, 3: 1}, [5, 5, 6]), [], conversation=True, limit=99)
    first, second = (next(match for match in found if match.position == 5) for found in (alone, beside))
    assert second.parts.words == first.parts.words
    assert second.parts.neighbours > first.parts.neighbours == 0.0


def test_without_postings_the_vectors_are_the_documents():
    assert rank_in_columns(NOTHING, near({1: 0.9, 2: 0.5, 3: 0.1}), conversation=True).documents == 3


def test_the_first_of_two_passages_that_match_alike_is_shown():
    hits = [VectorHit(doc=doc, seq=7, similarity=0.8) for doc in (102, 101)]
    assert [match.doc for match in rank(NOTHING, hits, conversation=True, limit=9)] == [101]
