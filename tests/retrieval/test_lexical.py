import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.records.search import Postings
from brimful.retrieval.lexical import ELSEWHERE, MAX_TERMS, REACH, count_records, score_coverage

Row = tuple[int, int, int, int]


def make(rows, *, terms=3, documents=100, words=1000, found=None):
    place, term, frequency, length = zip(*rows, strict=True) if rows else ((),) * 4
    return Postings(
        terms=tuple(f"t{at}" for at in range(terms)),
        document_frequency=tuple(found or (sum(1 for row in rows if row[1] == at) for at in range(terms))),
        documents=documents,
        words=words,
        doc=place,
        seq=place,
        length=length,
        term=term,
        frequency=frequency,
    )


def covered(rows, *, conversation=True, **changes):
    scored = score_coverage(make(rows, **changes), conversation=conversation)
    return dict(zip(scored.positions.tolist(), scored.values.tolist(), strict=True))


@st.composite
def postings(draw):
    cells = draw(st.sets(st.tuples(st.integers(1, 60), st.integers(0, 2)), max_size=30))
    return [(place, term, draw(st.integers(1, 9)), draw(st.integers(1, 400))) for place, term in sorted(cells)]


@given(postings(), st.booleans())
def test_a_share_of_the_question_is_covered(rows, conversation):
    assert all(0.0 <= value <= 1.0 for value in covered(rows, conversation=conversation).values())


@given(postings(), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_rows_says_nothing(rows, random, conversation):
    mixed = random.sample(rows, len(rows))
    mixed_up, straight = (covered(each, conversation=conversation) for each in (mixed, rows))
    assert mixed_up.keys() == straight.keys()
    assert list(mixed_up.values()) == pytest.approx(list(straight.values()))


@given(postings().filter(bool), st.data(), st.booleans())
def test_more_of_a_term_covers_no_less(rows, data, conversation):
    at = data.draw(st.integers(0, len(rows) - 1))
    place, term, frequency, length = rows[at]
    more = [*rows[:at], (place, term, frequency + 1, length), *rows[at + 1 :]]
    before, after = (covered(each, conversation=conversation) for each in (rows, more))
    assert all(after[each] >= before[each] - 1e-12 for each in before)
    assert after[place] > before[place]


@given(postings())
def test_spreading_is_what_adding_each_turn_by_hand_gives(rows):
    by_hand = {}
    for place in {row[0] + offset for row in rows for offset in range(-REACH, REACH + 1)}:
        near = [row for row in rows if abs(row[0] - place) <= REACH]
        alone = [(1, term, frequency, length) for _, term, frequency, length in near]
        shares = [0.5 / abs(row[0] - place) if row[0] != place else 1.0 for row in near]
        by_hand[place] = _by_hand(alone, shares, rows)
    expected = {place: value for place, value in by_hand.items() if place > 0}
    got = covered(rows)
    assert got.keys() == expected.keys()
    assert all(got[place] == pytest.approx(expected[place]) for place in got)


def _by_hand(near, shares, rows):
    rarities = [np.log(1 + (100 + ELSEWHERE - found + 0.5) / (found + 0.5)) for found in _found(rows)]
    value = 0.0
    for term, rarity in enumerate(rarities):
        strength = sum(
            share * frequency / (0.5 + 0.5 * length / 10.0)
            for (_, of, frequency, length), share in zip(near, shares, strict=True)
            if of == term
        )
        value += rarity * strength / (strength + 1.2)
    return value / sum(rarities)


def _found(rows):
    return [sum(1 for row in rows if row[1] == at) for at in range(3)]


def test_a_turn_is_covered_by_its_neighbours_the_nearer_the_more():
    values = covered([(20, 0, 1, 10)])
    assert list(values) == list(range(20 - REACH, 20 + REACH + 1))
    assert values[20] > values[21] == values[19] > values[22] > values[26]


def test_there_is_nothing_before_the_first_message():
    assert min(covered([(2, 0, 1, 10)])) == 1


def test_documents_that_are_no_conversation_stand_alone():
    assert list(covered([(20, 0, 1, 10), (10**12, 1, 1, 10)], conversation=False)) == [20, 10**12]


def test_a_rare_term_covers_more_than_a_common_one():
    values = covered([(10, 0, 1, 10), (40, 1, 1, 10)], found=(2, 60, 0), conversation=False)
    assert values[10] > values[40]


def test_a_long_text_covers_less_than_a_short_one():
    values = covered([(10, 0, 1, 5), (40, 0, 1, 50)], conversation=False)
    assert values[10] > values[40]


def test_the_rarest_terms_of_a_long_question_count():
    rows = [(10, 0, 1, 10), (40, 1, 1, 10)]
    found = (90, *[1] * MAX_TERMS)
    assert list(covered(rows, terms=len(found), found=found, conversation=False)) == [40]


def test_terms_that_no_text_has_leave_room_for_others_in_a_long_question():
    found = (2, *[0] * MAX_TERMS)
    assert list(covered([(10, 0, 1, 10)], terms=len(found), found=found, conversation=False)) == [10]


def test_a_term_of_which_no_rows_are_given_is_part_of_the_question():
    assert covered([(10, 0, 1, 10)], found=(1, 0, 5000), documents=9000)[10] < covered([(10, 0, 1, 10)], terms=1)[10]


def test_nothing_found_covers_nothing():
    assert covered([]) == covered([], terms=0, documents=0, words=0) == {}


@pytest.mark.parametrize(
    ("found", "frequencies"),
    [
        ((6, 2, 0), (2, 2, 0)),  # all rows are given
        ((16, 2, 0), (12, 2, 0)),  # of a common term, only some
        ((1, 2, 0), (1, 2, 0)),  # some rows are of synonyms
    ],
)
def test_passages_of_one_record_count_once(found, frequencies):
    rows = [(place, 0, 1, 10) for place in range(1, 7)] + [(1, 1, 1, 10), (6, 1, 1, 10)]
    several = msgspec.structs.replace(make(rows, found=found), seq=(4, 4, 4, 4, 4, 6, 4, 6))
    counted = count_records(several, conversation=True)
    assert (counted.documents, counted.words, counted.document_frequency) == (96, 960, frequencies)
    assert count_records(make(rows), conversation=True) == make(rows)
