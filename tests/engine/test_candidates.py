"""Which search hits become candidates."""

import msgspec

from brimful import counter
from brimful.core.decision import explain_search
from brimful.engine import Retrieval
from brimful.engine.candidates import add_matches, limit_hits, limit_misses, package_hits
from brimful.engine.plan import make_plan
from brimful.models import resolve
from brimful.policies import load_policy
from brimful.records import LoreEntry, Memory, Message, Room
from brimful.retrieval.search import Hit, Passage, relevance_order

COUNTER = counter("gpt-4")
LONG = "And then it went on and on, as it always does. " * 30


def make_hit(id, text, relevance):
    return Hit(record=Message(id=id, room="r", sender="Ada", content=text), relevance=relevance)


def ids(hits, tokens):
    ranked = sorted(hits, key=relevance_order)
    return [hit.record.id for hit in limit_hits(ranked, counter=COUNTER, tokens=tokens)]


def finds(tokens, most=4_000):
    room, info = Room(id="r"), resolve("gpt-4o")
    overrides = {"pools.related.limit": {"tokens": tokens}}
    plan = make_plan(room, None, model=info, policy="default", overrides=overrides)
    return msgspec.structs.replace(plan, retrieval=Retrieval(max_results=most)).max_results


def test_a_small_budget_chooses_among_many_hits_and_a_large_one_among_more():
    assert [finds(tokens) for tokens in (0, 1, 500, 4_000, 80_000)] == [0, 100, 100, 500, 4_000]
    assert finds(8_000, most=30) == 30


def test_long_texts_that_are_a_little_more_relevant_leave_room_for_short_ones():
    long = [make_hit(f"long{n}", f"{n}. {LONG}", 0.6) for n in range(9)]
    short = [make_hit(f"short{n}", f"My bicycle number {n} is called Rosinante.", 0.5) for n in range(9)]
    chosen = ids([*long, *short], 1_000)
    assert set(chosen[:9]) == {f"short{n}" for n in range(9)}
    assert 9 < len(chosen) < 18


def test_a_long_text_that_is_far_more_relevant_comes_first():
    trifles = [make_hit(f"trifle{n}", "Oh well.", 0.001) for n in range(99)]
    assert ids([make_hit("long", LONG, 0.9), *trifles], 400)[0] == "long"


def test_hits_are_limited_to_one_and_a_half_times_the_budget():
    notes = [Hit(record=Memory(id=f"n{n}", content="Ada likes tea."), relevance=1.0 - n / 100) for n in range(50)]
    cost = COUNTER.text("Ada likes tea.").upper + 12
    assert ids(notes, 10 * cost) == [f"n{n}" for n in range(15)]
    assert ids(notes, 0) == []


def test_a_long_text_costs_what_its_passage_costs():
    text = LONG * 40
    passage = Passage(number=2, start=2_000, stop=3_000)
    long = Hit(record=Message(id="long", room="r", content=text), relevance=0.5, passage=passage)
    short = [make_hit(f"short{n}", LONG, 0.1) for n in range(9)]
    assert ids([*short, long], 600)[0] == "long"
    whole = msgspec.structs.replace(long, passage=None)
    assert "long" not in ids([*short, whole], 600)


def test_a_package_says_which_passage_matched():
    passage = Passage(number=2, start=2_000, stop=3_000)
    records = [
        Message(id="m", room="r", content=LONG * 5),
        Memory(id="k", content=LONG * 5),
        LoreEntry(id="e", lorebook="b", content=LONG * 5),
    ]
    hits = [Hit(record=record, relevance=0.5, passage=passage) for record in records]
    packages = package_hits(hits, counter=COUNTER, room="r", books={}, others=())
    for package in packages:
        assert package.matches == ((2_000, 3_000),)
        assert package.metadata["search"]["passage"] == {"number": 2, "start": 2_000, "stop": 3_000}
        why = explain_search(package.metadata["search"])
        assert why.endswith("passage 3 (characters 2,000 to 3,000) matches the query")
    lore = msgspec.structs.replace(packages[2], matches=())
    assert add_matches([lore, packages[0]], hits)[0].matches == ((2_000, 3_000),)
    assert add_matches([lore], hits[:2]) == [lore]


def test_only_the_best_worthless_hits_are_recorded():
    likely = [make_hit(f"likely{n:02}", f"Bicycle {n} is called Rosinante.", 0.2) for n in range(30)]
    unlikely = [make_hit(f"unlikely{n:02}", f"Lamp {n} is green.", 0.0001 + n / 1e6) for n in range(50)]
    ranked = sorted([*likely, *unlikely], key=relevance_order)
    chosen = [each.record.id for each in limit_hits(ranked, counter=COUNTER, tokens=10_000, price=0.000015)]
    assert chosen == [each.record.id for each in ranked[:50]]
    assert len(limit_hits(ranked, counter=COUNTER, tokens=10_000)) == len(ranked)


def test_a_long_text_whose_excerpt_may_be_worth_its_tokens_stays():
    long = [make_hit(f"long{n:02}", f"{n}. {LONG}", 0.001) for n in range(40)]
    assert len(limit_hits(long, counter=COUNTER, tokens=100_000, price=0.000015)) == len(long)


def limit_packages(hits, *, now=0.0, **changes):
    policy = msgspec.structs.replace(load_policy("default"), **changes)
    packages = package_hits(hits, counter=COUNTER, room="r", books={}, others=())
    return [each.id for each in limit_misses(packages, policy, now=now)]


def test_only_the_best_worthless_packages_are_recorded():
    likely = [make_hit(f"likely{n:02}", f"Bicycle {n} is called Rosinante.", 0.2) for n in range(30)]
    unlikely = [make_hit(f"unlikely{n:02}", f"Lamp {n} is green.", (n + 1) / 1e7) for n in range(50)]
    names = [hit.record.id for hit in [*likely, *unlikely]]
    assert limit_packages([*likely, *unlikely]) == [*names[:30], *names[-20:]]
    assert limit_packages([*likely, *unlikely], price=0.0) == names


def test_a_package_is_worth_less_the_older_it_is():
    message = Message(id="old", room="r", sender="Ada", content="The lamp is green.", at=1.0)
    hits = [
        Hit(record=msgspec.structs.replace(message, id=f"m{n:02}", content=f"Lamp {n} is green."), relevance=0.00021)
        for n in range(40)
    ]
    by_price = {"min_relevance": 0.0, "min_share_of_best": 0.0}
    assert len(limit_packages(hits, now=1.0, **by_price)) == 40
    assert len(limit_packages(hits, now=1e9, **by_price)) == 20


def test_only_the_best_unlikely_packages_are_recorded():
    unlikely = [make_hit(f"lamp{n:02}", f"Lamp {n} is green.", 0.001) for n in range(40)]
    assert len(limit_packages(unlikely)) == 20
    of_poor_search = [msgspec.structs.replace(hit, relevance=0.04, best=0.04, total=0.04) for hit in unlikely]
    assert len(limit_packages(of_poor_search)) == 20
    of_good_search = [msgspec.structs.replace(hit, relevance=0.04, best=0.3) for hit in unlikely]
    assert len(limit_packages(of_good_search)) == 40
    assert len(limit_packages(of_good_search, min_share_of_best=0.2)) == 20


def test_a_long_package_stays_if_its_excerpt_may_be_worth_its_tokens():
    long = [make_hit(f"long{n:02}", f"{n}. {LONG}", 0.03) for n in range(40)]
    assert len(limit_packages(long)) == 40
    memories = [Hit(record=Memory(id=f"k{n:02}", content=f"{n}. {LONG}"), relevance=0.03) for n in range(40)]
    assert len(limit_packages(memories)) == 40
