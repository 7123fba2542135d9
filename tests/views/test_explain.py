"""Explanations of a record."""

import msgspec
import pytest

import brimful
from brimful.core.context import Context
from brimful.core.decision import Reason
from brimful.errors import UnknownRecord
from brimful.packagers import media, memory, message, package
from brimful.views.explain import describe_decision
from strategies import COUNTER, NOW
from support import build, history, words


def pile():
    return [
        package("system-prompt", words(20), counter=COUNTER, id="sys"),
        *history(30, size=20),
        *(
            memory(f"fact {n} " + words(20), counter=COUNTER, id=f"mem-{n}", relevance=(20 - n) / 20, timestamp=NOW)
            for n in range(20)
        ),
        media(brimful.Media(modality="image", url="https://example.org/a.png"), counter=COUNTER, id="pic"),
        message("so?", counter=COUNTER, id="now", current=True, timestamp=NOW),
    ]


def test_the_report_has_every_line_of_the_seeds():
    context = build(pile(), window=1500)
    report = context.report()
    for line in (
        "┌─ BRIMFUL: m ─",
        "│ Context Window: 1,500 tokens",
        "│ Available: 1,384 tokens",
        "│ COMPONENTS:",
        "│   System Prompt:               22",
        "│   Memories:",
        "│   Recent Messages:",
        "│   Media:                      100 (1 item)",
        "│   Current Message:              3",
        "│   TOTAL USED:",
        "│   Reserved:                   116 (completion + safety)",
        "│     Answer:                   100",
        "│   REMAINING:",
        "tokens used (",
    ):
        assert line in report
    assert f"{context.tokens:,} ({context.percent:.1f}%)" in report


def test_a_dropped_memory_says_how_far_it_was_from_the_cut():
    limited = {"pools.related.limit.share": 0.4, "pools.related.borrow": True}
    context = build([entry for entry in pile() if entry.kind != "message-recent"], window=400, overrides=limited)
    pool = next(use for use in context.pools if use.name == "related")
    worst = context.explain("mem-19")
    numbers = f"{pool.used:,}/{pool.limit:,} tokens, {pool.borrowed:,} borrowed"
    assert worst.startswith(f"dropped: pool 'related' full ({numbers}), score 0.")
    assert worst.endswith("ranks below the cut")
    first_out = next(d for d in context.decisions if d.pool == "related" and d.rank == d.cut + 1)
    assert context.explain(first_out.id).endswith(", 1 rank below the cut")
    assert build(pile(), window=600).explain("mem-19").startswith("dropped: window full (")


def test_a_kept_one_says_what_it_cost():
    assert build(pile()).explain("sys") == "kept: required, score 0.50, 22 tokens"


def test_a_twin_by_id_says_so():
    context = build([memory("x", counter=COUNTER, id="x"), memory("x", counter=COUNTER, id="x")])
    twin = next(decision for decision in context.decisions if decision.outcome == "duplicate")
    line = describe_decision(context, twin)
    assert line == "duplicate: another candidate has this id"


def test_a_report_without_warnings_has_no_warnings():
    assert "WARNINGS" not in build(pile(), window=9000).report()


def test_an_unknown_id_is_reported():
    with pytest.raises(UnknownRecord, match="no candidate 'nobody'"):
        build(pile()).explain("nobody")


def test_every_reason_has_words():
    context = build(pile())
    for reason in Reason.__args__:
        decision = msgspec.structs.replace(context.decisions[0], reason=reason, pool="related")
        line = describe_decision(context, decision)
        assert len(line) > len(reason)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"assumed_window": True},
            ("unknown-model", "unknown model 'm': assuming a window of 1,000 tokens; pass window= to set it"),
        ),
        ({"degraded": ("recent memories instead",)}, ("other", "recent memories instead")),
    ],
)
def test_warnings(changes, warning):
    context = build(pile(), **changes)
    assert [(notice.kind, notice.text) for notice in context.warnings] == [warning]
    assert f"│   {warning[1]}\n" in context.report()


def test_the_warning_names_the_relative():
    [notice] = build(pile(), assumed_window=True, relative="m-1").warnings
    assert "a window of 1,000 tokens, the smallest of its family (m-1); pass window= to set it" in notice.text
    assert notice.facts == {"model": "m", "window": 1_000, "relative": "m-1"}


@pytest.mark.parametrize("window", [800, 9000])
def test_a_full_window_and_a_window_without_memories_are_no_reason_to_warn(window):
    assert build(pile(), window=window).warnings == ()
    assert build(history(90), window=window).warnings == ()


def test_required_content_that_had_to_shrink_is_a_warning():
    long = package("system-prompt", "One two three. " * 300, counter=COUNTER, id="sys", min_tokens=20)
    notices = {notice.kind: notice.facts for notice in build([long], window=300).warnings}
    assert notices["required-shrunk"] == {"ids": ["sys"]}


def test_many_pins_that_did_not_fit_are_named_up_to_five():
    pins = [memory(words(100, f"w{n}"), counter=COUNTER, id=f"pin-{n}", pinned=True) for n in range(20)]
    [notice] = build(pins, window=300).warnings
    assert notice.kind == "pins-dropped"
    assert len(notice.facts["ids"]) > 5
    assert f" and {len(notice.facts['ids']) - 5} more" in notice.text


def test_the_report_says_that_counts_are_not_exact_and_it_is_no_warning():
    context = brimful.assemble([package("message-current", "Hi", counter=COUNTER)], model="claude-sonnet-4-5")
    assert context.warnings == ()
    assert "│ Token Counts: calibrated, not exact\n" in context.report()
    exact = brimful.assemble([package("message-current", "Hi", counter=COUNTER)], model="gpt-4o")
    assert "Token Counts" not in exact.report()


def test_the_status_says_how_much_of_the_budget_is_used():
    roomy = build(pile(), window=9000)
    used = f"{roomy.tokens:,} of {roomy.budget.available:,} tokens used"
    assert f"│ STATUS: {used} ({roomy.percent:.1f}%)\n" in roomy.report()
    full = build(history(900, size=1), window=1000)
    assert f"│ STATUS: {full.tokens:,} of {full.budget.available:,} tokens used (full)\n" in full.report()
    squeezed = build(history(4, size=100), "window", window=700, completion=200, overrides={"margin.tokens": 200})
    assert [notice.kind for notice in squeezed.warnings] == ["margin-used"]
    assert f"tokens used ({-squeezed.remaining:,} of the safety margin)\n" in squeezed.report()


def test_diff_names_what_entered_left_and_changed_and_how_much_prefix_stayed():
    small, large = build(pile(), window=700), build(pile(), window=1200)
    found = brimful.diff(small, large)
    assert {change.id for change in found.entered} == set(large.kept) - set(small.kept)
    assert {change.id for change in found.left} == set(small.kept) - set(large.kept)
    assert (found.tokens_before, found.tokens_after) == (small.tokens, large.tokens)
    same = brimful.diff(small, small)
    assert (same.entered, same.left, same.changed, same.prefix_share) == ((), (), (), 1.0)
    fewer = build([entry for entry in pile() if entry.id != "mem-0"], window=700)
    removed = next(change for change in brimful.diff(small, fewer).left if change.id == "mem-0")
    assert (removed.before, removed.after, removed.after_reason) == ("kept", None, None)
    assert any(change.before is None for change in brimful.diff(fewer, small).entered)


def test_only_contexts_can_be_compared():
    with pytest.raises(brimful.errors.InvalidValue, match="after: must be a Context, not str"):
        brimful.diff(build(pile()), "ctx-1")


@pytest.mark.parametrize("broken", [b"", b"{}", b"[]", b"\xff", '{"format": "brimful/1"}', b'{"format":"brimful/2"}'])
def test_a_broken_record_is_refused(broken):
    with pytest.raises(brimful.errors.InvalidRecord, match=r"^context: "):
        Context.from_json(broken)


def test_a_record_with_a_value_out_of_range_names_it():
    data = build(pile()).to_json().replace(b'"importance":0.5', b'"importance":5.5', 1)
    with pytest.raises(brimful.errors.InvalidRecord, match=r"importance: must be a number from 0 to 1"):
        Context.from_json(data)


def test_components_of_kinds_that_are_not_there_are_empty():
    assert build(history(1)).component("lorebook").items == 0


def test_the_end_of_history_is_explained():
    turns = [*history(30, size=20), message("so?", counter=COUNTER, id="now", current=True, timestamp=NOW)]
    first = build(turns, window=400)
    out = next(each.id for each in first.decisions if each.reason == "older")
    assert "older than the history that fits" in first.explain(out)
    later = build(
        [*turns[:-1], message("And?", counter=COUNTER, id="next", current=True, timestamp=NOW)],
        window=400,
        previous=first.history,
    )
    assert later.history.first == first.history.first
    assert "older than where history began in the previous context" in later.explain(out)


def test_steps_that_are_lines_of_a_ledger_are_not_called_left_out():
    messages = [{"role": "user", "content": "Which orders are broken?"}]
    for number in range(30):
        function = {"name": "get_order", "arguments": f'{{"id": {number}}}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"card {number} " + "at the door " * 40}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
    context = brimful.fit({"model": "gpt-4o", "max_tokens": 16, "messages": messages}, window=2_000, now=0)
    kept = sum(each.outcome == "kept" for each in context.decisions)
    lined = [each for each in context.decisions if each.reason == "ledger" and each.outcome == "replaced"]
    assert 0 < len(lined) == context.lines <= context.left_out
    assert f"CANDIDATES: {kept} kept, {len(lined)} as one line each" in context.report()
    assert "replaced" not in context.report()
