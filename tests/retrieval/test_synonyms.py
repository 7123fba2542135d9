"""Synonyms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.records.search import Postings
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.lexical import score_coverage
from brimful.retrieval.queries import parse_question
from brimful.retrieval.synonyms import RARE_SHARE, SYNONYM_WEIGHT, expand_postings, find_synonyms, load_synonyms

DOCUMENTS = 100


def postings(places):
    """Each term once at each of its places."""
    rows = [(term, place) for term, held in enumerate(places.values()) for place in held]
    return Postings(
        terms=tuple(places),
        document_frequency=tuple(map(len, places.values())),
        documents=DOCUMENTS,
        words=DOCUMENTS * 10,
        doc=[place for _, place in rows],
        seq=[place for _, place in rows],
        length=[10] * len(rows),
        term=[term for term, _ in rows],
        frequency=[1] * len(rows),
    )


def covered(found):
    scored = score_coverage(found, conversation=True)
    return dict(zip(scored.positions.tolist(), scored.values.tolist(), strict=True))


PET = postings({"pet": [10]})


def test_a_dog_is_a_pet():
    assert ("dog", "pet") in find_synonyms(["pet"])
    assert ("dog", "pet") in parse_question("Which pets does she have?").related


def test_a_query_term_is_no_synonym_of_another():
    others = [other for other, _ in find_synonyms(["pet", "dog"])]
    assert "puppi" in others
    assert not {"pet", "dog"} & set(others)
    assert len(others) == len(set(others))


def test_a_speaker_is_nobody_else():
    assert "rose" in load_synonyms()
    assert parse_question("What did Rose paint?", speakers=["Rose"]).related == find_synonyms(["paint"])
    assert "dog" not in [other for other, _ in parse_question("Which pet?", speakers=["Dog"]).related]


def test_unknown_words_have_no_relatives():
    assert find_synonyms(["qwxzy", "2023", "北京", ""]) == ()


def test_the_list_is_of_terms_as_texts_are_read():
    known = load_synonyms()
    for term, others in known.items():
        assert term not in others.split()
        assert 1 <= len(set(others.split())) == len(others.split()) <= 16
    words = ["pets", "painting", "travelled", "cooking", "hobbies", "running"]
    assert all(term in known for word in words for term in analyze(word))


def test_a_place_of_a_related_term_counts_for_a_part():
    wide = expand_postings(PET, postings({"dog": [50]}), ["pet"])
    assert 0 < covered(wide)[50] < covered(wide)[10] == covered(PET)[10]
    assert (wide.terms, wide.document_frequency, wide.documents) == (PET.terms, PET.document_frequency, PET.documents)
    assert list(wide.frequency) == [1, SYNONYM_WEIGHT]


def test_a_common_relative_tells_nothing():
    rare = list(range(20, 20 + round(RARE_SHARE * DOCUMENTS)))
    assert len(expand_postings(PET, postings({"dog": rare}), ["pet"]).doc) == 1 + len(rare)
    assert expand_postings(PET, postings({"dog": [*rare, 90]}), ["pet"]) is PET


@pytest.mark.parametrize(("others", "stands_for"), [({}, []), ({"dog": []}, ["pet"]), ({"auto": [20]}, ["car"])])
def test_terms_without_synonyms_change_nothing(others, stands_for):
    assert expand_postings(PET, postings(others), stands_for) is PET


@given(st.sets(st.integers(1, 90)), st.sets(st.integers(1, 90), max_size=10))
def test_relatives_never_lower_what_a_place_covers(places, others):
    own = postings({"pet": places, "name": [5]})
    wide = covered(expand_postings(own, postings({"dog": others}), ["pet"]))
    assert all(wide[place] >= value - 1e-12 for place, value in covered(own).items())
