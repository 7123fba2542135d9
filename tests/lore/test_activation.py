"""What SillyTavern documents, by example, and what we do differently on purpose."""

import pytest

from brimful.lore import PersonaInfo
from brimful.records import Lorebook
from worlds import activated, entry, excluded, run

DEEP = Lorebook(id="w", scan_depth=10, recursion=5)


@pytest.mark.parametrize(
    ("logic", "expected"),
    [
        ("and-any", {"none": False, "one": True, "all": True}),
        ("and-all", {"none": False, "one": False, "all": True}),
        ("not-any", {"none": True, "one": False, "all": False}),
        ("not-all", {"none": True, "one": True, "all": False}),
    ],
)
def test_secondary_keys_have_their_say(logic, expected):
    entries = [entry("e", "king", secondary=("gold", "crown"), logic=logic)]
    texts = {"none": "The king.", "one": "The king has gold.", "all": "The king has a crown of gold."}
    assert {name: activated(entries, text) == ["e"] for name, text in texts.items()} == expected
    assert activated(entries, "gold and crown") == [], "without the first key, nothing is activated"


@pytest.mark.parametrize(
    ("logic", "text", "line"),
    [
        ("and-any", "The king.", "secondary: none of 'gold', 'crown' appears"),
        ("and-all", "The king has gold.", "secondary: 'crown' does not appear"),
        ("not-any", "The king has gold.", "secondary: 'gold' appears, too"),
        ("not-all", "The king has gold and a crown.", "secondary: all of 'gold', 'crown' appear, too"),
    ],
)
def test_entries_excluded_by_secondary_keys_are_recorded(logic, text, line):
    entries = [entry("e", "king", secondary=("gold", "crown"), logic=logic)]
    (one,) = run(entries, text).excluded
    assert (one.text, one.match.text) == (line, "keyword 'king' in message 'm1'")
    assert run(entries, "gold and crown").excluded == (), "nobody spoke of it"


def test_decorators_hold_back_as_secondary_keys_do():
    entries = [
        entry("more", "king", content="@@additional_keys gold\nRich."),
        entry("less", "king", content="@@exclude_keys poor\nRich."),
    ]
    assert {each.entry: each.text for each in run(entries, "A poor king.").excluded} == {
        "more": "secondary: none of 'gold' appears",
        "less": "secondary: 'poor' appears, too",
    }


def test_entries_excluded_by_secondary_keys_can_be_activated_later_or_found():
    entries = [entry("e", "king", secondary=("gold",)), entry("rich", "king", content="He has gold.")]
    assert excluded(entries, "The king.", book=DEEP) == {}
    assert excluded(entries, "The king.") == {"e": "secondary"}
    assert activated(entries, "The king.", retrieved={"e": 0.7}) == ["e", "rich"]


def test_scan_depth_is_the_books_or_the_entrys_own():
    entries = [entry("book", "elf"), entry("deep", "elf", scan_depth=3), entry("none", "elf", scan_depth=0)]
    book = Lorebook(id="w", scan_depth=1)
    assert activated(entries, "an elf", "well", book=book) == ["deep"]
    assert activated(entries, "an elf", book=book) == ["book", "deep"]
    assert activated(entries, "an elf", "so", "well", "yes", book=book) == []


def test_names_of_speakers_count_where_the_book_says_so():
    assert activated([entry("e", "ada")], "hello", book=Lorebook(id="w", names=True)) == ["e"]
    assert activated([entry("e", "ada")], "hello") == []


def test_entries_that_are_off_or_empty_are_never_activated():
    entries = [entry("off", constant=True, enabled=False), entry("empty", constant=True, content="  \n")]
    assert activated(entries, "x") == []


def test_activated_entries_stand_by_their_order():
    assert activated([entry("late", "x", order=200), entry("early", "x", order=5)], "x") == ["early", "late"]


def test_why_an_entry_is_activated():
    entries = [
        entry("c", constant=True),
        entry("k", "elf", secondary=("bow",), content="Elves like wine."),
        entry("r", "wine"),
        entry("s", "moor", sources=("description",)),
        entry("f"),
    ]
    who = PersonaInfo(sources={"description": "Born on the moor."})
    activation = run(entries, "An elf.", "And a bow.", book=DEEP, persona=who, retrieved={"f": 0.61})
    assert {each.entry.id: each.reason.text for each in activation.activated} == {
        "c": "always on",
        "k": "keyword 'elf' in message 'm1', with 'bow'",
        "r": "keyword 'wine' in entry 'k'",
        "s": "keyword 'moor' in the persona's description",
        "f": "found by retrieval (relevance 61 %)",
    }


# -- recursion -------------------------------------------------------------------------------------------------------

CHAIN = [
    entry("a", "start", content="speaks of b1"),
    entry("b", "b1", content="speaks of c1"),
    entry("c", "c1", content="speaks of d1"),
    entry("d", "d1"),
]


@pytest.mark.parametrize(("rounds", "expected"), [(0, "a"), (1, "ab"), (2, "abc"), (9, "abcd")])
def test_recursion_goes_as_far_as_the_book_says(rounds, expected):
    assert "".join(activated(CHAIN, "start", book=Lorebook(id="w", recursion=rounds))) == expected


def test_recursion_may_be_excluded_prevented_or_waited_for():
    entries = [
        entry("a", "start", content="speaks of b1 and c1"),
        entry("quiet", "start", content="speaks of d1", prevent_recursion=True),
        entry("b", "b1", exclude_recursion=True),
        entry("c", "c1"),
        entry("d", "d1"),
        entry("later", "start", delay_until_recursion=1),
    ]
    assert activated(entries, "start", book=DEEP) == ["a", "c", "later", "quiet"]
    assert activated(entries[1:2] + entries[5:], "start", book=DEEP) == ["quiet"]
    assert excluded(entries[1:2] + entries[5:], "start", book=DEEP) == {"later": "recursion"}


def test_levels_of_delay_open_one_after_another():
    entries = [
        entry("a", "start", content="speaks of one"),
        entry("first", "one", delay_until_recursion=1, content="speaks of two"),
        entry("second", "start", delay_until_recursion=2),
    ]
    lines = {each.entry.id: each.reason.by for each in run(entries, "start", book=DEEP).activated}
    assert set(lines) == {"a", "first", "second"}
    assert activated(entries, "start", book=Lorebook(id="w", recursion=1)) == ["a", "first"]


def test_an_entry_does_not_bring_itself_in():
    assert activated([entry("a", "me", content="me me me")], "you", book=DEEP) == []


# -- groups ----------------------------------------------------------------------------------------------------------


def test_one_entry_of_a_group_is_activated_and_the_others_name_it():
    entries = [entry(f"e{at}", "rain", groups=("weather",)) for at in range(5)]
    activation = run(entries, "rain")
    (winner,) = [each.entry.id for each in activation.activated]
    assert {each.winner for each in activation.excluded} == {winner}
    assert {each.reason for each in activation.excluded} == {"group"}


def test_chance_chooses_in_a_group_by_weight():
    entries = [
        entry("rare", "rain", groups=("g",), group_weight=1),
        entry("often", "rain", groups=("g",), group_weight=3),
    ]
    wins = [activated(entries, "rain", seed=f"room-{at}")[0] for at in range(400)]
    assert 250 < wins.count("often") < 350


def test_a_prioritised_entry_wins_its_group_by_order():
    entries = [
        entry("plain", "rain", groups=("g",), order=900, group_weight=10_000),
        entry("low", "rain", groups=("g",), group_override=True, order=1),
        entry("high", "rain", groups=("g",), group_override=True, order=2),
    ]
    assert activated(entries, "rain") == ["high"]


def test_groups_may_be_won_by_the_most_keys():
    scored = Lorebook(id="w", group_scoring=True)
    entries = [entry("one", "rain", groups=("g",), group_weight=10_000), entry("two", "rain", "cold", groups=("g",))]
    assert activated(entries, "cold rain", book=scored) == ["two"]


def test_a_group_that_was_activated_takes_in_nobody_by_recursion():
    entries = [entry("a", "start", groups=("g",), content="speaks of b1"), entry("b", "b1", groups=("g",))]
    assert activated(entries, "start", book=DEEP) == ["a"]
    assert excluded(entries, "start", book=DEEP) == {"b": "group"}


# -- probability and budget ------------------------------------------------------------------------------------------


def test_probability_is_the_same_for_the_same_turn_and_holds_over_many():
    entries = [entry("e", "x", probability=0.3)]
    activated_at = [bool(activated(entries, "x", last=turn)) for turn in range(1, 1001)]
    assert activated_at == [bool(activated(entries, "x", last=turn)) for turn in range(1, 1001)]
    assert 240 < sum(activated_at) < 360
    assert activated([entry("e", "x", probability=0.0)], "x") == []


def test_an_entry_that_does_not_fit_stops_no_smaller_one_behind_it():
    sizes = {"big": 60, "huge": 70, "small": 30}
    entries = [entry(id, "x", order=order) for id, order in (("big", 300), ("huge", 200), ("small", 100))]
    activation = run(entries, "x", book=Lorebook(id="w", budget=100), tokens=lambda each: sizes[each.id])
    assert {each.entry.id for each in activation.activated} == {"big", "small"}
    assert [(each.entry, each.text) for each in activation.excluded] == [
        ("huge", "budget: 70 tokens, but its lorebook has 40 of 100 left")
    ]


def test_priority_decides_who_stays_and_a_budget_may_be_ignored():
    entries = [
        entry("low", "x", priority=1, order=900),
        entry("high", "x", priority=5),
        entry("free", "x", ignore_budget=True),
        entry("always", constant=True),
    ]
    assert set(activated(entries, "x", book=Lorebook(id="w", budget=20))) == {"high", "free", "always"}


def test_a_constant_entry_that_loses_says_so():
    activation = run([entry("law", constant=True)], "x", book=Lorebook(id="w", budget=5))
    assert [(notice.kind, notice.facts) for notice in activation.notices] == [("lore-dropped", {"entry": "law"})]


# -- time ------------------------------------------------------------------------------------------------------------


def over_time(entries, said, **more):
    """Return whether something is activated at each message."""
    return "".join("x" if activated(entries, *said[: at + 1], **more) else "." for at in range(len(said)))


ONCE = ["", "", "", "tower", *[""] * 8]


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ({}, "...x........"),
        ({"sticky": 4}, "...xxxx....."),
        ({"sticky": 3}, "...xxx......"),
        ({"delay": 6}, "............"),
        ({"delay": 4}, "...x........"),
    ],
)
def test_sticky_and_delay_count_messages(effects, expected):
    book = Lorebook(id="w", scan_depth=1)
    assert over_time([entry("e", "tower", **effects)], ONCE, book=book) == expected


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ({"cooldown": 3}, "x..x..x..x.."),
        ({"sticky": 2, "cooldown": 3}, "xx...xx...xx"),
        ({"sticky": 3}, "xxxxxxxxxxxx"),
        ({"delay": 5, "cooldown": 4}, "....x...x..."),
    ],
)
def test_lore_whose_keyword_always_appears_comes_and_goes(effects, expected):
    book = Lorebook(id="w", scan_depth=1)
    assert over_time([entry("e", "tower", **effects)], ["tower"] * 12, book=book) == expected


def test_only_what_asks_for_an_answer_is_a_turn():
    said, roles = ["tower", "so it is", "hm", "yes", "well"], "uauau"
    entries = [entry("e", "tower", sticky=3)]
    assert activated(entries, *said[:3], roles=roles, book=Lorebook(id="w", scan_depth=1)) == ["e"]
    assert activated(entries, *said, roles=roles, book=Lorebook(id="w", scan_depth=1)) == []


def test_an_entry_on_cooldown_says_until_when():
    (one,) = run([entry("e", "tower", cooldown=5)], "tower", "tower").excluded
    assert (one.text, one.match.text) == ("cooldown: not before message 6", "keyword 'tower' in message 'm2'")


def test_a_sticky_entry_wins_its_group_and_needs_no_second_roll():
    entries = [entry("a", "tower", groups=("g",), sticky=9), entry("b", "moat", groups=("g",), group_override=True)]
    assert activated(entries, "tower", "moat", book=Lorebook(id="w", scan_depth=1)) == ["a"]


# -- for whom --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"personas": ("nova",)}, True),
        ({"personas": ("rex",)}, False),
        ({"personas": ("nova",), "exclude_personas": True}, False),
        ({"personas": ("rex",), "exclude_personas": True}, True),
        ({"tags": ("elf",)}, True),
        ({"tags": ("orc",)}, False),
        ({"tags": ("orc",), "exclude_personas": True}, True),
        ({"triggers": ("normal", "swipe")}, True),
        ({"triggers": ("quiet",)}, False),
    ],
)
def test_entries_are_limited_to_personas(filter, expected):
    who = PersonaInfo(names=frozenset({"nova", "Nova"}), tags=frozenset({"elf"}))
    entries = [entry("e", "x", **filter)]
    assert bool(activated(entries, "x", persona=who)) is expected
    assert excluded(entries, "x", persona=who) == ({} if expected else {"e": "persona"})


# -- found by retrieval ----------------------------------------------------------------------------------------------


def test_found_entries_are_activated_if_allowed_and_activate_no_others():
    entries = [entry("a", content="speaks of b1"), entry("b", "b1"), entry("never", vector=False)]
    found = {"a": 0.5, "never": 0.9, "gone": 1.0}
    assert activated(entries, "something", book=DEEP, retrieved=found) == ["a"]


def test_a_key_beats_a_find_in_a_group():
    entries = [entry("spoken", "x", groups=("g",)), entry("found", groups=("g",), group_override=True)]
    assert activated(entries, "x", retrieved={"found": 0.9}) == ["spoken"]
    assert excluded(entries, "x", retrieved={"found": 0.9}) == {"found": "group"}


# -- decorators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "texts", "expected"),
    [
        ("@@activate\nText.", ["nothing"], ["Text."]),
        ("@@dont_activate\nText.", ["tower"], []),
        ("@@dont_activate\n@@activate\nText.", ["nothing"], ["Text."]),
        ("@@scan_depth 1\nText.", ["tower", "so"], []),
        ("@@exclude_keys moat, gate\n\nText.", ["tower and gate"], []),
        ("@@additional_keys moat\nText.", ["tower"], []),
        ("@@additional_keys moat\nText.", ["tower, moat"], ["Text."]),
        ("@@depth 4\n@@role system\nText.\n@@more", ["tower"], ["Text.\n@@more"]),
        ("@@unknown\n@@@dont_activate\nText.", ["tower"], []),
        ("@@scan_depth x\n@@@scan_depth 1\nText.", ["tower", "so"], []),
    ],
)
def test_decorators_are_followed_and_not_activated(content, texts, expected):
    activation = run([entry("e", "tower", content=content)], *texts)
    assert [each.text for each in activation.activated] == expected
