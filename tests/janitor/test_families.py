"""Families of near-duplicates do not depend on the order; sketches only select pairs to compare."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.janitor.families import (
    MIN_FUZZY_CHARS,
    MIN_SIMILARITY,
    find_families,
    jaccard_similarity,
    make_shingles,
    normalize,
)
from janitor_rooms import chatter, flood

WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "win", "now", "£100", "99", "http://a.example", "ok", "ß"])
TEXTS = st.lists(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=60), max_size=40)


@given(TEXTS)
@settings(deadline=None)
def test_every_text_is_of_one_family_and_like_its_head(texts):
    found = find_families(texts)
    assert sorted(at for family in found for at in family.members) == list(range(len(texts)))
    for family in found:
        head = normalize(texts[family.members[0]])
        for at in family.members:
            text = normalize(texts[at])
            assert text == head or (
                len(text) >= MIN_FUZZY_CHARS
                and len(head) >= MIN_FUZZY_CHARS
                and jaccard_similarity(make_shingles(text), make_shingles(head)) >= MIN_SIMILARITY
            )


def test_a_flood_is_one_family_and_a_conversation_is_none():
    bots = [message.content for message in flood(400)]
    people = [message.content for message in chatter(400, at=0.0)]
    found = find_families([*bots, *people])
    assert found[0].members == tuple(range(400))
    assert max(len(family.members) for family in found[1:]) < 10


def test_short_messages_are_a_family_only_if_equal():
    assert [family.members for family in find_families(["ok", "OK ", "okay", "no", "call 5", "call 77"])] == [
        (0, 1),
        (2,),
        (3,),
        (4, 5),
    ]


def test_long_texts_are_compared_to_their_end():
    rng = random.Random(1)

    def letters(length):
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=length))

    header = letters(2_500)
    assert len(find_families([header + letters(4_500) for _ in range(12)])) == 12
    assert len(find_families([header + f" page {n}" for n in range(12)])) == 1


def test_very_long_messages_are_a_family_only_if_equal():
    long = "spam and eggs " * 80_000
    assert [family.members for family in find_families([long, long[:-20], long.upper()])] == [(0, 2), (1,)]
