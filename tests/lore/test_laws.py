"""Properties of all lorebooks and conversations."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.lore import LoreIndex, activate
from brimful.records import Lorebook, LoreEntry
from worlds import turns

WORDS = ["elf", "king", "rain", "gold", "tower"]
words = st.sampled_from(WORDS)
histories = st.lists(st.lists(words, max_size=4).map(" ".join), min_size=1, max_size=14)
some = st.lists(words, max_size=2).map(tuple)


@st.composite
def entries(draw):
    return [
        LoreEntry(
            id=f"e{at}",
            lorebook=draw(st.sampled_from(["w", "v"])),
            content=draw(st.lists(words, min_size=1, max_size=3).map(" ".join)),
            keys=draw(some),
            secondary=draw(some),
            logic=draw(st.sampled_from(["and-any", "and-all", "not-any", "not-all"])),
            constant=draw(st.booleans()),
            order=draw(st.integers(0, 3)),
            probability=draw(st.sampled_from([1.0, 1.0, 0.5, 0.0])),
            groups=draw(st.lists(st.sampled_from(["g", "h"]), max_size=2, unique=True).map(tuple)),
            group_override=draw(st.booleans()),
            group_scoring=draw(st.sampled_from([None, True])),
            sticky=draw(st.integers(0, 4)),
            cooldown=draw(st.integers(0, 4)),
            delay=draw(st.integers(0, 3)),
            delay_until_recursion=draw(st.integers(0, 2)),
            exclude_recursion=draw(st.booleans()),
            prevent_recursion=draw(st.booleans()),
        )
        for at in range(draw(st.integers(0, 8)))
    ]


books = st.builds(
    lambda budget, recursion, depth: {
        "w": Lorebook(id="w", budget=budget, recursion=recursion, scan_depth=depth),
        "v": Lorebook(id="v"),
    },
    st.none() | st.integers(0, 30),
    st.integers(0, 4),
    st.integers(0, 4),
)
found = st.dictionaries(st.sampled_from([f"e{at}" for at in range(8)]), st.floats(0, 1), max_size=3)


def cost(entry):
    return len(entry.content)


def run(books, entries, texts, found):
    return activate(LoreIndex(books, entries), turns(*texts), seed="room", count_tokens=cost, retrieved=found)


@given(books, entries(), histories, found)
def test_the_same_comes_out_whatever_the_order_of_entries(books, entries, texts, found):
    assert run(books, entries, texts, found) == run(books, list(reversed(entries)), texts, found)


@given(books, entries(), histories, found)
def test_an_entry_is_activated_or_held_back_and_never_both(books, entries, texts, found):
    activation = run(books, entries, texts, found)
    rows = [each.entry.id for each in activation.activated]
    held = [each.entry for each in activation.excluded]
    assert not [id for id, times in Counter([*rows, *held]).items() if times > 1]
    assert [each.entry.order for each in activation.activated] == sorted(
        each.entry.order for each in activation.activated
    )
    assert {*rows, *held} <= {entry.id for entry in entries}


@given(books, entries(), histories, found)
def test_no_book_takes_more_than_its_budget(books, entries, texts, found):
    spent = Counter()
    for each in run(books, entries, texts, found).activated:
        spent[each.entry.lorebook] += cost(each.entry)
    assert all(book.budget is None or spent[book.id] <= book.budget for book in books.values())


@given(books, entries(), histories, found)
def test_a_group_has_one_winner(books, entries, texts, found):
    groups = Counter(group for each in run(books, entries, texts, found).activated for group in each.entry.groups)
    assert all(times == 1 for times in groups.values())


@given(books, entries(), histories)
def test_turns_that_are_passed_over_would_have_changed_nothing(books, entries, texts):
    shelf, thorough = LoreIndex(books, entries), LoreIndex(books, entries)
    thorough.stirring = None
    one, other = (activate(each, turns(*texts), seed="room", count_tokens=cost) for each in (shelf, thorough))
    assert one == other


@settings(max_examples=30)
@given(entries(), histories)
def test_a_turn_that_is_built_again_activates_the_same(entries, texts):
    """A turn that is built again after the room went on tells the same."""
    shelf = LoreIndex({}, entries)
    for last in range(1, len(texts) + 1):
        first = activate(shelf, turns(*texts[:last]), seed="room", count_tokens=cost)
        again = activate(LoreIndex({}, entries), turns(*texts)[len(texts) - last :], seed="room", count_tokens=cost)
        assert first == again
