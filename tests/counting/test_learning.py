"""Calibration from the usage that servers report."""

from itertools import pairwise
from statistics import fmean

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import Text, assemble, package, replay
from brimful.core.prompt import Message, Prompt
from brimful.counting import MAX_REPORTS, calibrate, counter_for, learn_calibration, learned_window
from brimful.counting.features import FEATURES
from brimful.models import default_registry
from brimful.records.usage import UsageReport
from hidden_models import HIDDEN, ROUTE, SENTENCES, Conversation, mixed, observed, online, truth

EXACT = default_registry().resolve("llama3.1:8b")


def billed(name, factor=1.0, more=0):
    counter = truth(name)
    return lambda prompt: round(counter.prompt(prompt).tokens * factor) + more


# -- hidden tokenizers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama3.1:8b", "qwen3:8b", "deepseek-v3", "gemma3:12b", "mistral-nemo", "gpt-4"])
def test_a_hidden_tokenizer_is_met_within_two_percent_after_twenty_requests(name):
    seen = online(mixed(name, 50), billed(name))[::-1]
    late = seen[20:]
    raw = [each.features["tokens"] + each.features["fixed"] for each in late]
    assert fmean(abs(each.error) for each in late) < 0.02
    assert fmean(abs(each.error) for each in late) < fmean(
        abs(base / each.reported - 1) for base, each in zip(raw, late, strict=True)
    )
    assert fmean(each.reported <= each.counted + each.margin for each in seen[3:]) >= 0.97
    assert fmean(each.margin / each.counted for each in late) < 0.12


def test_the_margin_shrinks_as_evidence_grows():
    seen = online(mixed(7, 81), billed("qwen3:8b"))
    after = [learn_calibration(HIDDEN, seen[-count:], route=ROUTE) for count in (1, 20, 80)]
    assert after[0].interval > after[1].interval > after[2].interval
    assert [each.reports for each in after] == [1, 20, 80]


def test_the_margin_covers_the_errors_that_were_seen():
    seen = online(mixed(8, 40), billed("gemma3:12b"))
    counter = counter_for(calibrate(HIDDEN, seen[-32:], route=ROUTE))
    prompts = mixed(8, 32)
    assert all(truth("gemma3:12b").prompt(prompt).tokens <= counter.prompt(prompt).upper for prompt in prompts)


def test_a_script_that_was_never_seen_widens_the_margin():
    english = [Conversation(n, ["english"]).ask() for n in range(30)]
    model = calibrate(HIDDEN, online(english, billed("llama3.1:8b")), route=ROUTE)
    known = counter_for(model).text(" ".join(SENTENCES["english"]) * 4)
    unknown = counter_for(model).text("".join(SENTENCES["chinese"]) * 4)
    assert unknown.margin / unknown.tokens > 3 * known.margin / known.tokens


# -- when it changes -------------------------------------------------------------------------------------------------


def test_the_prior_says_where_it_comes_from_and_stands_between_steps():
    seen = online(mixed(1, 40), billed("qwen3:8b"))[::-1]
    priors = [calibrate(HIDDEN, seen[:count][::-1], route=ROUTE).prior for count in range(1, 41)]
    changes = [at for at, (one, other) in enumerate(pairwise(priors), start=2) if one != other]
    steps = {2, 3, 5, 8, 13, 20, 32}
    escapes = {at + 1 for at, each in enumerate(seen) if abs(each.counted - each.reported) > each.margin}
    assert {at for at in changes if at not in steps} <= {at + more for at in escapes for more in range(3)}
    assert priors[19].source == f"learned from 20 requests on {ROUTE}"


def test_a_calibration_changes_rarely_in_a_long_history():
    seen = online(mixed(2, 40), billed("qwen3:8b"))[::-1]
    many = [msgspec.structs.replace(seen[8 + n % 32], id=f"x{n}", at=float(n)) for n in range(500)]
    priors = [calibrate(HIDDEN, many[:end][::-1][:MAX_REPORTS], route=ROUTE).prior for end in range(300, 500)]
    assert sum(one != other for one, other in pairwise(priors)) <= 20


def test_the_same_observations_teach_the_same_in_whatever_process():
    seen = online(mixed(3, 25), billed("mistral-nemo"))
    copies = msgspec.json.decode(msgspec.json.encode(seen), type=list[UsageReport])
    assert calibrate(HIDDEN, copies, route=ROUTE) == calibrate(HIDDEN, seen, route=ROUTE)


def test_tenants_with_the_same_ids_learn_from_their_own():
    one, other = online(mixed(4, 5), billed("gpt-4")), online(mixed(4, 5), billed("gpt-4", factor=2.0))
    assert [each.id for each in one] == [each.id for each in other]
    factors = [calibrate(HIDDEN, seen, route=ROUTE).prior.factor for seen in (one, other)]
    assert factors[1] > 1.5 * factors[0]


# -- what is not learned from ----------------------------------------------------------------------------------------


def test_truncated_prompts_overflows_and_missing_reports_are_not_learned_from():
    usual = online(mixed(5, 13), billed("gpt-4"))
    odd = [
        msgspec.structs.replace(usual[0], id="cut", kind="cut", reported=10),
        msgspec.structs.replace(usual[0], id="over", kind="overflow", reported=10**6, window=4096),
        msgspec.structs.replace(usual[0], id="silent", reported=0),
        msgspec.structs.replace(usual[0], id="bare", features={}),
        msgspec.structs.replace(usual[0], id="other", tokenizer="llama3", reported=10**6),
    ]
    assert calibrate(HIDDEN, [*odd, *usual], route=ROUTE) == calibrate(HIDDEN, usual, route=ROUTE)
    assert calibrate(HIDDEN, odd, route=ROUTE) == HIDDEN
    assert calibrate(HIDDEN, [], route=ROUTE) == HIDDEN


def test_a_single_odd_report_moves_little():
    usual = online(mixed(6, 50), billed("gpt-4"))[::-1]
    odd = [*usual[:30], msgspec.structs.replace(usual[30], reported=3 * usual[30].reported), *usual[31:]]
    text = " ".join(SENTENCES["english"]) * 8
    counts = [counter_for(calibrate(HIDDEN, seen[::-1], route=ROUTE)).text(text).tokens for seen in (usual, odd)]
    assert counts[1] == pytest.approx(counts[0], rel=0.02)


SANE = st.floats(0, 1e9)
ODD = st.tuples(
    st.dictionaries(st.sampled_from(["tokens", "fixed", *FEATURES]), SANE),
    st.integers(0, 10**9),
    st.floats(0.1, 10) | SANE,
)


@settings(deadline=None)
@given(st.lists(ODD, max_size=12))
def test_whatever_was_observed_the_counts_are_counts(rows):
    seen = [
        UsageReport(
            id=f"o{at}",
            model="m",
            route=ROUTE,
            features=features,
            counted=counted,
            reported=min(10**12, round(counted * share)),
            tokenizer="o200k_base",
        )
        for at, (features, counted, share) in enumerate(rows)
    ]
    counter = counter_for(calibrate(HIDDEN, seen, route=ROUTE))
    assert counter.text("Tea at five, 水 and 🚀").upper >= 0
    assert counter.message_overhead("user") >= 0
    assert counter.request_overhead() >= 0


# -- drift -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.3, 0.75])
def test_drift_is_noticed_within_three_requests(factor):
    prompts = mixed(9, 60)
    before, after = billed("qwen3:8b"), billed("qwen3:8b", factor)
    bills = iter([before(prompt) for prompt in prompts[:30]] + [after(prompt) for prompt in prompts[30:]])
    seen = online(prompts, lambda _: next(bills))
    steady = learn_calibration(HIDDEN, seen[-30:], route=ROUTE)
    noticed = learn_calibration(HIDDEN, seen[-33:], route=ROUTE)
    later = learn_calibration(HIDDEN, seen, route=ROUTE)
    assert steady.drift is None
    assert (noticed.drift.at, noticed.drift.ignored) == (30.0, 30)
    assert (noticed.drift.step > 0) == (factor > 1)
    assert noticed.interval > steady.interval
    assert "30 older ones ignored" in noticed.model.prior.source
    assert f"{ROUTE} counts {HIDDEN.id} differently since the last 3 requests" in noticed.note
    assert f"({100 * noticed.drift.step:+.0f} %)" in noticed.note
    assert (steady.note, later.note) == ("", "")
    assert later.drift.at == 30.0
    assert fmean(abs(each.error) for each in seen[:15]) < 0.03


def test_another_language_is_no_drift():
    rooms = [Conversation(n, ["english"]) for n in range(3)]
    foreign = [Conversation(n, ["chinese"]) for n in range(3)]
    prompts = [rooms[n % 3].ask() for n in range(20)] + [foreign[n % 3].ask() for n in range(20)]
    seen = online(prompts, billed("qwen3:8b"))
    assert all(learn_calibration(HIDDEN, seen[-count:], route=ROUTE).drift is None for count in range(1, 41))


# -- exact counts ----------------------------------------------------------------------------------------------------


def test_an_exact_count_that_is_right_stays_exact():
    seen = online(mixed(10, 20), billed("llama3.1:8b"), EXACT)
    assert {each.error for each in seen} == {0.0}
    assert calibrate(EXACT, seen, route=ROUTE) is EXACT


def test_a_server_that_always_adds_the_same_is_met_to_the_token():
    seen = online(mixed(11, 20), billed("llama3.1:8b", more=17), EXACT)
    assert [each.error for each in seen[:12]] == [0.0] * 12
    assert seen[0].basis == "calibrated"
    learned = calibrate(EXACT, seen, route=ROUTE)
    assert learned.tokenizer == "llama3"
    assert learned.prior.source == f"learned from 20 requests on {ROUTE}"


def test_a_server_that_counts_by_another_tokenizer_is_covered_by_the_margin():
    seen = online(mixed(12, 30), billed("llama3.1:8b", factor=1.08), EXACT)
    assert all(each.reported <= each.counted + each.margin for each in seen[:20])


def test_one_odd_report_raises_no_doubt_of_an_exact_count():
    seen = online(mixed(13, 10), billed("llama3.1:8b"), EXACT)
    odd = msgspec.structs.replace(seen[0], reported=2 * seen[0].reported)
    assert calibrate(EXACT, [odd, *seen[1:]], route=ROUTE) is EXACT


@pytest.mark.parametrize("model", [EXACT, HIDDEN], ids=["exact", "hidden"])
def test_impossible_counts_teach_nothing(model):
    seen = online(mixed(16, 12), lambda _: 8_000, model)
    result = learn_calibration(model, seen, route=ROUTE)
    assert result.model is model
    assert "no tokenizer would produce these counts" in result.note


@pytest.mark.parametrize("reported", [10, 30, 100])
@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "nobody-knows-me"])
def test_the_same_report_for_short_prompts_does_not_lower_the_count_of_long_ones(name, reported):
    model = default_registry().resolve(name)
    short = [text_prompt("Tell me more of it. " * (1 + at % 20)) for at in range(60)]
    seen = online(short, lambda _: reported, model)
    long = text_prompt("The harbour master closes the gate when the wind turns north. " * 2_000)
    before = counter_for(model).prompt(long)
    for count in range(1, len(seen)):
        assert counter_for(calibrate(model, seen[-count:], route=ROUTE)).prompt(long).upper >= 0.6 * before.tokens


def text_prompt(text):
    return Prompt(model="m", messages=(Message(role="user", parts=(Text(text=text),)),))


def test_a_server_that_reports_less_changes_no_exact_count():
    seen = online(mixed(14, 10), billed("llama3.1:8b", more=-5), EXACT)
    assert calibrate(EXACT, seen, route=ROUTE) is EXACT


def test_exact_counts_on_request_ignore_calibration():
    learned = calibrate(EXACT, online(mixed(11, 20), billed("llama3.1:8b", more=17), EXACT), route=ROUTE)
    assert counter_for(learned, "exact").text("Fill the window.").basis == "exact"
    assert counter_for(learned).text("Fill the window.").basis == "calibrated"


# -- laws that hold of what was learned ------------------------------------------------------------------------------

LEARNED = calibrate(HIDDEN, online(mixed(15, 32), billed("mistral-nemo")), route=ROUTE)
WORDS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(st.lists(WORDS, max_size=8))
def test_parts_counted_alone_are_never_less_than_the_whole(texts):
    counter = counter_for(LEARNED)
    messages = tuple(Message(role="user", parts=(Text(text=text),)) for text in texts)
    whole = counter.prompt(Prompt(model="m", messages=messages))
    parts = sum(counter.text(text).upper + counter.message_overhead("user") for text in texts)
    assert whole.upper <= parts + counter.request_overhead() + 1


def test_a_context_with_a_learned_model_replays_to_itself():
    packages = [
        package("message-recent", " ".join(SENTENCES["chinese"]) * 9, model=LEARNED, id=f"m{n}", timestamp=float(n))
        for n in range(40)
    ]
    context = assemble(packages, model=LEARNED, now=100.0, window=4000)
    again = type(context).from_json(context.to_json())
    assert again.inputs.model.prior == LEARNED.prior
    assert replay(again).to_json() == context.to_json()
    assert context.verification.margin > 0


def test_equal_names_mean_equal_counts():
    other = calibrate(HIDDEN, online(mixed(16, 32), billed("mistral-nemo")), route=ROUTE)
    assert counter_for(other).tokenizer != counter_for(LEARNED).tokenizer
    assert counter_for(LEARNED).tokenizer.startswith("o200k_base*")


# -- windows ---------------------------------------------------------------------------------------------------------


def make_report(at, **fields):
    return UsageReport(id=f"w{at}", model="m", route=ROUTE, at=float(at), **fields)


def test_a_window_is_learned_from_what_was_refused():
    refused = make_report(2, kind="overflow", reported=5000, window=4096)
    earlier = make_report(1, kind="overflow", reported=9000, window=8192)
    assert learned_window([refused, earlier], now=9.0) == 4096
    assert learned_window([make_report(3, reported=4000), refused], now=9.0) == 4096
    assert learned_window([make_report(3, reported=4097), refused], now=9.0) is None
    assert learned_window([refused, make_report(1, reported=9000)], now=9.0) == 4096
    assert learned_window([make_report(3, kind="overflow", reported=9000), refused], now=9.0) == 4096
    assert learned_window([make_report(3, reported=100)], now=9.0) is None
    assert learned_window([], now=9.0) is None


def test_a_learned_window_has_a_floor_and_is_forgotten_after_a_day():
    refused = make_report(2, kind="overflow", reported=215_000, window=14)
    assert learned_window([refused], now=9.0) == 256
    assert learned_window([refused], now=2.0 + 86_400) is None


def test_a_learned_window_is_probed_upwards_less_often_the_more_refusals_confirm_it():
    hour, refused = 3_600, make_report(0, kind="overflow", reported=5000, window=4096)
    again = make_report(0, kind="overflow", reported=5000, window=4096)
    other = make_report(0, kind="overflow", reported=9000, window=8192)

    def windows(*reports):
        return [learned_window(reports, now=float(hours * hour)) for hours in (0.9, 1, 2, 4, 8)]

    assert windows(refused) == windows(refused, other) == [4096, 8192, 16_384, 65_536, 4096 << 8]
    assert windows(refused, again) == [4096, 4096, 8192, 16_384, 65_536]
    assert windows(refused, again, again) == [4096, 4096, 4096, 8192, 16_384]


def test_features_of_a_learned_model_are_those_of_the_model():
    prompt = mixed(17, 1)[0]
    assert observed(prompt, 1, LEARNED, 0).features == observed(prompt, 1, HIDDEN, 0).features
