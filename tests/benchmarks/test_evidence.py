"""Every way pays the same price for a turn: its line, the heading of its day, and what is around all turns."""

import pytest

import chart
import evidence
import evidence_engine
from brimful import counter
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from evidence_data import Asked, Talk, Turn

DAY = 86_400.0
TALK = Talk(
    "tea",
    [
        Turn(f"t{at}", "Ann" if at % 2 else "Bo", f"Tea number {at} is fine. " * (1 + at % 5), at // 3 * DAY)
        for at in range(30)
    ],
    [Asked("Which tea does Ann like?", frozenset({"t7"}))],
)


@pytest.mark.parametrize("budget", [100, 300, 600])
def test_evidence_fits_the_budget_as_the_model_sees_it(budget):
    case = evidence.make_case(TALK)
    turns = [TALK.turns[at] for at in case.whatever_fits(range(30), budget)]
    days = {turn.heading(): [other.line() for other in turns if other.heading() == turn.heading()] for turn in turns}
    text = RELATED_OPEN + "".join(day + "".join(lines) for day, lines in days.items()) + RELATED_CLOSE
    spent = counter(evidence.MODEL).texts([text])[0].tokens + evidence.MESSAGE
    assert budget - 60 <= spent <= budget


def test_the_engine_finds_evidence_and_a_sum_brings_nothing():
    found = evidence_engine.measure(TALK, [Asked("17 * 23?", frozenset())], evidence.MODEL, "none", [2_000])
    assert [build.recall for build in found.builds[2_000]] == [1.0]
    assert found.noise == {window: [0.0] for window in evidence_engine.WINDOWS}


def test_a_chart_has_a_point_for_each_value():
    svg = chart.line_chart([chart.Line("a & b", [(1, 20), (3, 90)], ["x", "y"])], across="ms", up="%")
    assert svg.count("<circle") == 2
    assert "a &amp; b" in svg
