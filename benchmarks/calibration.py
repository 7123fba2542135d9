"""How well counts are learned from what servers report, where the tokenizer is hidden from us.

Vocabularies that we have play the hidden truth: we count as for a model that nobody has heard of, the server reports
what its own tokenizer and chat template give, and that is all we learn from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from brimful.core.prompt import Prompt
from brimful.counting import counter_for, learn_calibration
from brimful.counting.counters import measure_prompt
from brimful.models import resolve
from brimful.models.registry import unknown_model
from brimful.records.usage import UsageReport
from brimful.wires import find_wire
from tables import Section, percent, table
from workloads import characters, workload

HIDDEN = (
    *("llama3.1:8b", "qwen3:8b", "deepseek-v3", "gemma3:12b", "mistral-nemo", "mistral:7b", "glm-4.6", "kimi-k2"),
    *("gpt-4", "gpt-oss:20b"),
)
WORKLOADS = 12
REQUESTS = 70
DRIFTS_AT = 40
LARGE = 3_000  # tokens
MARKS = (1, 5, 20, 50)

ABOUT = f"""This measures how fast counts become exact for an unknown model, with no tokenizer and no chat template. A
known model is hidden behind it: its own tokenizer and template determine the usage that the server reports, including
message overheads and tools. There are {WORKLOADS} workloads of {REQUESTS} requests, each with one to six
concurrent conversations: English, code, tool calls, Chinese, Japanese, Korean, Russian, German, Arabic,
Hindi, emoji and mixtures. Each count uses only what was learned before it.

"After 20" is the mean absolute error of the requests from the 21st up to the next column. "Covered" is the
share of requests from the 21st on that were within Brimful's count plus its margin, and "margin" the size of that
margin. Large prompts have more than {LARGE:,} tokens. For comparison, from the 21st request on: four
characters per token; o200k_base with OpenAI's constants; and a single factor, the median of all ratios so
far. The features and their bounds were chosen on other texts and on six of these models; DeepSeek, Gemma,
GLM and Kimi were not among them."""

DRIFT = f"""The same with the first model, but after {DRIFTS_AT} requests the server reports more or fewer tokens,
as if its tokenizer had changed. "Noticed" is the number of workloads in which the change was detected, and
after how many requests."""


@dataclass(frozen=True, slots=True)
class Case:
    """A workload's prompts, how many characters they have, and what each hidden model says of them."""

    prompts: list[Prompt]
    characters: list[int]
    reported: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Counted:
    """One request: what each way counted, the margin, whether drift was told, and what was reported."""

    learned: int
    margin: int
    raw: float
    factor: float
    characters: float
    drifted: bool
    reported: int

    def error(self, way: str = "learned") -> float:
        """Return how far a way is off."""
        return abs(float(getattr(self, way)) / self.reported - 1)


Run = list[Counted]


def report(data: Path | None, *, quick: bool) -> Section:
    """Learn online on every workload for every hidden model, then let a server change its mind."""
    hidden = HIDDEN[:2] if quick else HIDDEN
    cases = [_case(number, data, hidden) for number in range(2 if quick else WORKLOADS)]
    found = {name: [_online(case, case.reported[name]) for case in cases] for name in hidden}
    drifts = [_drift(cases, hidden[0], factor) for factor in (1.3, 1.08, 0.77)]
    return Section("Counts that learn", ABOUT, (_table(found), DRIFT, table(_DRIFT_HEAD, drifts)))


def _case(number: int, data: Path | None, hidden: Sequence[str]) -> Case:
    print(f"  calibration: workload {number + 1}", flush=True)
    requests = list(workload(number, data, REQUESTS))
    prompts = [find_wire("openai").parse(request) for request in requests]
    counters = {name: counter_for(resolve(name)) for name in hidden}
    reported = {name: [counter.prompt(prompt).tokens for prompt in prompts] for name, counter in counters.items()}
    return Case(prompts, [characters(request) for request in requests], reported)


# -- counting online -------------------------------------------------------------------------------------------------


def _online(case: Case, reported: Sequence[int]) -> Run:
    base = unknown_model("hidden")
    seen: list[UsageReport] = []
    run: Run = []
    for at, (prompt, truth) in enumerate(zip(case.prompts, reported, strict=True)):
        learned = learn_calibration(base, seen, route="r")
        count = counter_for(learned.model).prompt(prompt)
        features = {name: value for name, value in measure_prompt(learned.model, "hybrid", prompt).items() if value}
        observation = UsageReport(
            id=f"o{at}",
            model="hidden",
            route="r",
            at=float(at),
            counted=count.tokens,
            margin=count.margin,
            basis=count.basis,
            tokenizer="o200k_base",
            features=features,
            reported=truth,
        )
        run.append(
            Counted(
                learned=count.tokens,
                margin=count.margin,
                raw=features["tokens"] + features["fixed"],
                factor=features["tokens"] * _factor(seen) + features["fixed"],
                characters=case.characters[at] / 4,
                drifted=learned.drift is not None,
                reported=truth,
            )
        )
        seen.insert(0, observation)
    return run


def _factor(seen: Sequence[UsageReport]) -> float:
    ratios = [(each.reported - each.features["fixed"]) / each.features["tokens"] for each in seen]
    return median(ratios) if ratios else 1.0


def _table(found: dict[str, list[Run]]) -> str:
    head = [
        *("hidden model", "characters / 4", "o200k_base", "one factor"),
        *(f"learned, after {mark}" for mark in MARKS),
        *("covered", "margin", "covered, large prompts", "margin, large prompts"),
    ]
    rows = [_row(name, runs) for name, runs in found.items()]
    return table(head, [*rows, _row("all", [run for runs in found.values() for run in runs])])


def _row(name: str, runs: Sequence[Run]) -> list[str]:
    late = [each for run in runs for each in run[20:]]
    return [
        name,
        *(percent(fmean(each.error(way) for each in late)) for way in ("characters", "raw", "factor")),
        *(_mean_error(runs, mark, until) for mark, until in zip(MARKS, (*MARKS[1:], REQUESTS), strict=True)),
        *_covered(late),
        *_covered([each for each in late if each.reported > LARGE]),
    ]


def _mean_error(runs: Sequence[Run], first: int, last: int) -> str:
    return percent(fmean(each.error() for run in runs for each in run[first:last]))


def _covered(late: Sequence[Counted]) -> tuple[str, str]:
    if not late:
        return "–", "–"
    covered = fmean(each.reported <= each.learned + each.margin for each in late)
    return percent(covered), percent(fmean(each.margin / each.learned for each in late))


# -- drift -----------------------------------------------------------------------------------------------------------

_DRIFT_HEAD = ["reported from then on", "noticed", "after, median", "error before", "5 requests on", "20 requests on"]


def _drift(cases: Sequence[Case], name: str, factor: float) -> list[str]:
    runs = [_online(case, _changed(case.reported[name], factor)) for case in cases]
    noticed = [next((at for at, each in enumerate(run) if each.drifted), None) for run in runs]
    delays = [at - DRIFTS_AT for at in noticed if at is not None]
    return [
        f"× {factor}",
        f"{len(delays)} of {len(cases)}",
        f"{median(delays):.0f}" if delays else "–",
        *(_mean_error(runs, first, last) for first, last in ((20, DRIFTS_AT), (45, 60), (60, REQUESTS))),
    ]


def _changed(reported: Sequence[int], factor: float) -> list[int]:
    return [round(tokens * factor) if at >= DRIFTS_AT else tokens for at, tokens in enumerate(reported)]
