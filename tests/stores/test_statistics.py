"""Statistics equal plain sums over the records."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from brimful.core.notice import Notice
from brimful.errors import InvalidValue
from brimful.packagers import memory
from brimful.records import Response, Room, Snapshot, Usage, User
from brimful.records.statistics import Statistics
from brimful.records.usage import RequestUsage
from stores.test_snapshots import pile
from strategies import COUNTER, examples
from support import build, history

FEW = settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBERS = iter(range(10**6))
HOUR = 3_600.0
START = 472_200 * HOUR  # 2023-11-14 00:00 UTC

OFF = Notice(kind="vector-search-off", text="vector search is off")
FAILED = Notice(kind="vector-search-failed", text="vector search failed (OSError: gone)")
OPENED = Notice(kind="breaker-opened", text="the circuit breaker opened")
CONTEXTS = (
    build(pile()),
    build([*pile(), *history(120, size=20)], policy="auction"),
    build([*history(200, size=20), pile()[-1]], window=2000, assumed_window=True, degraded=(FAILED, OPENED)),
    build([memory("Ada owns a ship", counter=COUNTER, id="k9", relevance=0.4), *pile()], degraded=(OFF,)),
    build([memory("Sailing", type="procedural", counter=COUNTER, id="k8", relevance=0.9), *pile()], degraded=(FAILED,)),
    build([pile()[-1]], window=100, completion=10, degraded=("room 'x' is not in the store",)),
)


def moments():
    """Return times around the beginnings of hours and days, on both sides."""
    near = st.sampled_from([-0.5, 0.0, 0.5, 1800.0])
    return st.builds(lambda hour, off: START + hour * HOUR + off, st.integers(-3, 60), near)


@st.composite
def events(draw):
    """Draw builds and answers to them, or to none."""
    found = []
    for number in range(draw(st.integers(0, 8))):
        room, persona = draw(st.sampled_from(["one", "two"])), draw(st.sampled_from([None, "a", "b"]))
        context = CONTEXTS[draw(st.integers(0, len(CONTEXTS) - 1))]
        user, key = draw(st.sampled_from([None, "ada", "bob"])), draw(st.sampled_from([None, "k1", "k2"]))
        who = {"persona": persona, "user": user, "key": key}
        found.append(Snapshot(id=f"s{number}", room=room, **who, at=draw(moments()), context=context))
    for number in range(draw(st.integers(0, 6))):
        of = draw(st.integers(0, 8))
        usage = draw(
            st.none()
            | st.builds(Usage, prompt=st.integers(0, 900), cached=st.integers(0, 90), completion=st.integers(0, 90))
        )
        seconds = draw(st.none() | st.floats(0, 90))
        at, room = draw(moments()), draw(st.sampled_from(["one", "two"]))
        found.append(
            Response(id=f"a{number}", context=f"s{of}", room=room, at=at, usage=usage, seconds=seconds, model="told")
        )
    return found


async def save_all(store, given):
    for each in given:
        await (store.save_context(each) if isinstance(each, Snapshot) else store.save_response(each))


def chosen(given, *, since=None, until=None, persona=None, room=None, user=None, key=None):
    built = {each.id: each for each in given if isinstance(each, Snapshot)}
    return [
        (each, built.get(each.context) if isinstance(each, Response) else each)
        for each in given
        if (since is None or each.at >= since)
        and (until is None or each.at < until)
        and (room is None or each.room == room)
        and (persona is None or _who(each, built, "persona") == persona)
        and (user is None or _who(each, built, "user") == user)
        and (key is None or _who(each, built, "key") == key)
    ]


def _who(each, built, field):
    of = built.get(each.context) if isinstance(each, Response) else each
    return (getattr(of, field) or "") if of else ""


def by_hand(pairs):
    """Sum up records plainly: what the figures must be."""
    contexts = [each.context for each, _ in pairs if isinstance(each, Snapshot)]
    answers = [(each, of) for each, of in pairs if isinstance(each, Response)]
    rows = [(each, of) for each, of in answers if each.usage is not None and each.usage.prompt]
    seen = [
        (each.kind, {package.id: package.relevance for package in context.inputs.packages}[each.id])
        for context in contexts
        for each in context.decisions
        if each.included and each.kind.startswith("memory-")
    ]
    rated = [relevance for _, relevance in seen if relevance is not None]
    timed = [each.seconds for each, _ in answers if each.seconds is not None]
    known = [(each, of) for each, of in rows if of is not None]
    tokens = [context.tokens for context in contexts]
    shares = [context.percent / 100 for context in contexts]
    many = max(1, len(contexts))
    return {
        "contexts": len(contexts),
        "mean": sum(tokens) / many,
        "max": max(tokens, default=0),
        "min": min(tokens, default=0),
        "shares": (pytest.approx(max(shares, default=0.0)), pytest.approx(min(shares, default=0.0))),
        "share": sum(tokens) / max(1, sum(context.budget.available for context in contexts)),
        "components": {
            name: sum(context.component(name).tokens for context in contexts) / many
            for context in contexts
            for name in [each.name for each in context.components]
        },
        "memories": len(seen),
        "types": Counter(kind.removeprefix("memory-") for kind, _ in seen),
        "relevance": pytest.approx(sum(rated) / len(rated), abs=1e-6) if rated else None,
        "candidates": sum(len(context.decisions) for context in contexts),
        "left out": sum(not each.included for context in contexts for each in context.decisions),
        "naive": sum(naive(context) for context in contexts),
        "nearly full": sum(context.percent > 80 for context in contexts),
        "margin": sum(context.remaining < 0 for context in contexts),
        "no memories": sum(context.component("memories").items == 0 for context in contexts),
        "degraded": sum(bool(context.inputs.degraded) for context in contexts),
        "openings": sum(OPENED in context.inputs.degraded for context in contexts),
        "uptime": 1
        - sum(any(each in (OFF, FAILED) for each in context.inputs.degraded) for context in contexts) / many,
        "answers": (len(answers), len(rows)),
        "prompt": sum(each.usage.prompt for each, _ in rows),
        "counted": sum(of.context.tokens for _, of in known),
        "naive prompts": sum(naive(of.context) for _, of in known),
        "error": (
            sum(of.context.tokens for _, of in known) / sum(each.usage.prompt for each, _ in known) - 1
            if known
            else None
        ),
        "seconds": pytest.approx(sum(timed) / len(timed), abs=1e-6) if timed else None,
        "models": {
            **{of.context.inputs.model.id: None for _, of in pairs if of is not None},
            **{each.model: None for each, of in pairs if of is None},
        }.keys(),
    }


def naive(context):
    shrunk = {each.id: each.tokens for each in context.decisions if each.outcome == "shrunk"}
    whole = {package.id: package.tokens.tokens for package in context.inputs.packages}
    out = sum(each.tokens for each in context.decisions if not each.included)
    return context.tokens + out + sum(whole[id] - left for id, left in shrunk.items())


def shown(figures: Statistics):
    return {
        "contexts": figures.contexts,
        "mean": figures.tokens.mean,
        "max": figures.tokens.max,
        "min": figures.tokens.min,
        "shares": (figures.share.max, figures.share.min),
        "share": figures.share.mean,
        "components": {each.name: each.tokens for each in figures.components},
        "memories": figures.memories.total,
        "types": figures.memories.types,
        "relevance": figures.memories.relevance,
        "candidates": figures.candidates,
        "left out": figures.left_out,
        "naive": figures.naive,
        "nearly full": figures.nearly_full,
        "margin": figures.warnings.get("margin-used", 0),
        "no memories": figures.memories.missing,
        "degraded": figures.degraded,
        "openings": figures.breaker_openings,
        "uptime": figures.vector_uptime,
        "answers": (figures.answers.total, figures.answers.reported),
        "prompt": figures.answers.prompt,
        "counted": figures.answers.counted,
        "naive prompts": figures.answers.naive,
        "error": figures.answers.count_error,
        "seconds": figures.answers.seconds,
        "models": {each.model: None for each in figures.models}.keys(),
    }


@FEW
@given(
    given=events(),
    asked=st.fixed_dictionaries(
        {
            "since": st.none() | moments(),
            "until": st.none() | moments(),
            "persona": st.sampled_from([None, "a", "b"]),
        }
    ),
    whose=st.sampled_from([{}, {"room": "one"}, {"user": "ada"}, {"key": "k1"}]),
)
@example(given=[], asked={"since": None, "until": None, "persona": None}, whose={})
@example(
    given=[Snapshot(id="s0", room="one", at=START + 1, context=CONTEXTS[0])],
    asked={"since": START + 0.5, "until": START + 2, "persona": None},
    whose={"room": "one"},
)
def test_figures_of_any_time_are_the_sums_of_its_records(database, run, given, asked, whose):
    store = database.tenant(f"t{next(NUMBERS)}")
    run(save_all(store, given))
    [found] = run(store.statistics(**asked, **whose))
    assert shown(found) == by_hand(chosen(given, **asked, **whose))


@FEW
@given(
    given=events(),
    since=st.none() | moments(),
    by=st.sampled_from(["hour", "day", "model", "policy", "persona", "user", "key"]),
)
def test_grouped_statistics_equal_those_of_each_group(database, run, given, since, by):
    store = database.tenant(f"t{next(NUMBERS)}")
    run(save_all(store, given))
    groups = {}
    for each, of in chosen(given, since=since):
        if by not in ("user", "key") or key_of(by, each, of):  # nobody is in no group
            groups.setdefault(key_of(by, each, of), []).append((each, of))
    found = {each.key: each for each in run(store.statistics(since=since, by=by))}
    assert {key: shown(each) for key, each in found.items()} == {key: by_hand(groups[key]) for key in groups}
    begins = [each.begin for each in found.values()]
    assert begins == sorted(begins) if by in ("hour", "day") else begins == [None] * len(begins)


def key_of(by, each, of):
    moment = datetime.fromtimestamp(each.at, UTC)
    match by:
        case "hour":
            return f"{moment:%Y-%m-%dT%H:00Z}"
        case "day":
            return f"{moment:%Y-%m-%d}"
        case "model":
            return of.context.inputs.model.id if of else each.model
        case "policy":
            return of.context.inputs.policy.name if of else ""
        case "persona" | "user" | "key":
            return (getattr(of, by) or "") if of else ""


def test_a_removed_room_stays_in_the_totals(store, run):
    run(store.put(Room(id="one")))
    values = [Snapshot(id=f"s{n}", room=("one", "two")[n % 2], at=START + n, context=CONTEXTS[n % 3]) for n in range(6)]
    run(save_all(store, [*values, Response(id="a", context="s0", room="one", at=START)]))
    times = [{}, {"since": START + 0.5}, {"until": START + 4.5}]
    before = [run(store.statistics(**time)) for time in times]
    run(store.remove(Room, "one"))
    assert [run(store.statistics(**time)) for time in times] == before
    assert run(store.statistics(room="one"))[0].contexts == 0
    assert run(store.statistics(room="two"))[0].contexts == 3


def test_requests_without_a_context_count_as_answers(store, run):
    usage = Usage(prompt=100, cached=40, completion=7, reasoning=3)
    requests = [RequestUsage(model=f"m{n % 2}", usage=usage, at=START + n, user="ada", key="k") for n in range(3)]
    run(store.save_records([*requests, Snapshot(id="s", room="r", at=START, context=CONTEXTS[0])]))
    for owner in ({}, {"user": "ada"}, {"key": "k"}):
        (found,) = run(store.statistics(**owner))
        assert (found.answers.total, found.answers.reported, found.answers.prompt) == (3, 3, 300)
        assert [(each.model, each.answers.completion) for each in found.models if each.answers.total] == [
            ("m0", 14),
            ("m1", 7),
        ]
    assert [each.id for each in run(store.follow("0")).events] == ["s"]
    run(store.remove(User, "ada"))
    assert run(store.statistics(user="ada"))[0].answers.total == 0
    assert run(store.statistics(key="k"))[0].answers.total == 3


def test_numbers_that_make_no_sense_spoil_no_sums(store, run):
    most = 2**53 - 1
    usage = Usage(prompt=most, cached=most, completion=most, reasoning=most)
    for number in range(3):
        run(
            store.save_response(
                Response(id=f"a{number}", context="x", room="one", at=1e300, usage=usage, seconds=1e300)
            )
        )
    [found] = run(store.statistics())
    assert found.answers.total == 3
    assert 0 < found.answers.prompt < 10**12


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": "week"},
        {"since": float("inf")},
        {"until": "now"},
        {"user": "ada", "room": "one"},
        {"key": "k1", "user": "ada"},
        {"by": "user", "room": "one"},
    ],
)
def test_nonsense_is_refused_by_name(store, run, wrong):
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        run(store.statistics(**wrong))
