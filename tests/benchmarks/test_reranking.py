"""Stand-ins for rerankers: a weight of zero changes nothing, and a good one brings back what is ranked too low."""

import reranking
from evidence_data import Asked, Talk, Turn

TEXT = "The tea of table {} was fine and warm again today, as on most of the days before."
TURNS = [Turn(f"t{at}", "Ann", TEXT.format(at), 0.0) for at in range(180)]


def test_a_good_reranker_brings_back_what_does_not_fit():
    talk = Talk("tea", TURNS, [Asked("Which tea was fine?", frozenset({"t70"}))])
    found = {(stand_in, weight): recall for stand_in, weight, recall in reranking.measure(talk, 1)}
    assert len(found) == (1 + len(reranking.DISTANCES)) * len(reranking.WEIGHTS)
    assert {found[stand_in, 0.0] for stand_in, _ in found} == {0.0}
    assert found["very good", 1.0] == 1.0


def test_no_folder_is_no_failure():
    assert "no data folder" in reranking.report(None, quick=True).tables[0]
