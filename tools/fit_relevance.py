"""Make src/brimful/retrieval/data/relevance.json: the coefficients that turn shares into probabilities.

    BENCH_DATA=folder python tools/fit_relevance.py           fit all of them again; takes some minutes
    BENCH_DATA=folder python tools/fit_relevance.py static    fit them for one kind of embedder
    BENCH_DATA=folder python tools/fit_relevance.py --check   only measure, each half by the coefficients of the other

Run it after a change to the ranking or to an embedder. It asks the questions of the conversations in the folder of
stores that can and cannot answer them (`benchmarks/relevance_data.py`), and fits a logistic regression for each kind of
embedder. Situations count equally, however many questions they have. Needs numpy only.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from brimful.retrieval.calibration import INPUTS  # noqa: E402
from evidence_data import talks  # noqa: E402 - after the path
from relevance import embedders, fit, measure  # noqa: E402
from relevance_data import samples  # noqa: E402
from unseen_data import collections  # noqa: E402

TARGET = ROOT / "src" / "brimful" / "retrieval" / "data" / "relevance.json"
DIGITS = 4


def main() -> None:
    """Fit, and write the file."""
    folder = Path(os.environ["BENCH_DATA"])
    known = json.loads(TARGET.read_text("utf-8")) if TARGET.exists() else {}
    chosen = [name for name in sys.argv[1:] if name != "--check"]
    conversations, others = talks(folder), collections(folder, "dev")
    for name, kinds in embedders().items():
        if chosen and name not in chosen:
            continue
        found = [sample for embedder in kinds for sample in samples(conversations, others, embedder)]
        for line in measure(found):
            print(f"{name}: {line}", flush=True)  # noqa: T201 - a script
        known[name] = {each: round(value, DIGITS) for each, value in zip(INPUTS, fit(found).tolist(), strict=True)}
    if "--check" not in sys.argv:
        TARGET.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
