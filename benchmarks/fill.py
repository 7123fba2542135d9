"""How full, how valid and how fast: one conversation, one budget, ours beside theirs."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

import strict
from conversations import Conversation, Messages, all_conversations, ending, fresh, with_tools
from isolated import Failure, Isolated
from peers import Filler, fillers
from strict import Audit
from tables import Section, duration, percent, table, times

BUDGETS = (1_500, 8_000, 32_000)
ENDINGS = 8  # where a conversation is cut by luck, eight neighbours of it are not
ROUNDS = 5
ENOUGH_SECONDS = 0.8  # a slow way is asked less often
LIMIT_SECONDS = 8.0

ABOUT = f"""All libraries get the same messages and the same budget. Every result is checked by one strict count that
shares no code with any of them: tiktoken's o200k over roles, contents and names, with the constants of OpenAI's
cookbook (3 per message, 3 per request), and tool calls as JSON of name and arguments. Only conversations
larger than the budget are included. Each conversation is checked at its last {ENDINGS} turns, because a single
cut may fit by luck; slow libraries are checked at fewer of them. "Full" is the strict count divided by the
budget. "Altered" results contain a message whose text was cut. "Broken tool chains" are results without their
call, or calls without their results.

The other libraries only know message budgets, so Brimful gets a window whose hard limit equals the budget, and no
safety margin. langchain-core's exact counter is the strict count itself. litellm trims by its own counter.
llama-index's Memory holds the system prompt separately, gets the rest of the budget for history, counts with o200k,
has already received the earlier messages, and adds the last one within the timed call. "brimful" has its packages ready
(each message is counted once, when it is written). "brimful, counting" packages and counts the whole history within the
call. "brimful, cutting" may cut the oldest included message at the end of a sentence and mark it, so that the window is
full with messages of any size.

Limitations: the strict count is not a provider's bill. It writes tool calls as JSON. Brimful's margin for calls covers
that form, since an earlier run of this benchmark found requests that were up to 318 tokens over. The results therefore
show agreement with this count, not with a bill. Real transcripts do not contain the arguments of their calls, so those
are empty.

Times are medians of up to {ROUNDS} calls, each on texts that no cache has seen, converted beforehand to the form that
each library expects. A library that takes longer than {LIMIT_SECONDS:.0f} s is stopped."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One way on one conversation under one budget: what its results look like, and how long a turn takes."""

    filler: str
    conversation: str
    budget: int
    audits: tuple[Audit, ...] = ()
    seconds: float | None = None
    failure: Failure | None = None

    @property
    def full(self) -> list[float]:
        """The share of the budget in use, for each result."""
        return [audit.tokens / self.budget for audit in self.audits]


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure everything, and return the tables: all at a glance, then one row for each case."""
    cases = [(with_tools(data), BUDGETS[0])] if quick else list(_cases(all_conversations(data)))
    cells = [cell for filler in fillers() for cell in _measure_all(filler, cases)]
    return Section("Filling a window", ABOUT, (_summary(cells), _details(cells)))


def measure(filler: Filler, messages: Messages, budget: int) -> tuple[tuple[Audit, ...], float]:
    """Judge the results at several endings of the conversation, then time the turn at its last one."""
    audits = [_judged(filler, ending(messages, turns), budget) for turns in _while_quick(ENDINGS)]
    return tuple(audits), median([_timed(filler, messages, budget) for _ in _while_quick(ROUNDS)])


def _while_quick(most: int) -> Iterator[int]:
    """Count up, at least once, as long as there is time."""
    began = time.perf_counter()
    for at in range(most):
        yield at
        if time.perf_counter() - began > ENOUGH_SECONDS:
            break


def _judged(filler: Filler, messages: Messages, budget: int) -> Audit:
    turn = filler.prepare(messages, budget)
    return strict.audit(turn.read(turn.call()), messages, budget, strict.reference_count)


_marks = count(1)


def _timed(filler: Filler, messages: Messages, budget: int) -> float:
    turn = filler.prepare(fresh(messages, next(_marks)), budget)
    began = time.perf_counter()
    turn.call()
    return time.perf_counter() - began


def _cases(conversations: Iterable[Conversation]) -> Iterator[tuple[Conversation, int]]:
    """Yield what does not fit: where all fits, there is nothing to decide."""
    for conversation in conversations:
        whole = strict.count_messages(ending(conversation.messages, ENDINGS), strict.reference_count)
        for budget in BUDGETS:
            if whole > budget:
                yield conversation, budget


def _measure_all(filler: Filler, cases: Iterable[tuple[Conversation, int]]) -> Iterator[Cell]:
    print(f"  fill: {filler.name}", flush=True)
    with Isolated(filler.load) as process:
        for conversation, budget in cases:
            answer = process.call(measure, filler, conversation.messages, budget, seconds=LIMIT_SECONDS)
            if isinstance(answer, Failure):
                yield Cell(filler.name, conversation.name, budget, failure=answer)
            else:
                yield Cell(filler.name, conversation.name, budget, *answer)


# -- tables ----------------------------------------------------------------------------------------------------------


def _summary(cells: list[Cell]) -> str:
    ours = {(cell.conversation, cell.budget): cell.seconds for cell in cells if cell.filler == "brimful"}
    names = dict.fromkeys(cell.filler for cell in cells)
    rows = [_summary_row(name, [cell for cell in cells if cell.filler == name], ours) for name in names]
    head = ["way", "time, brimful = 1", "full, median", "full, least", "over budget", "worst over"]
    return table([*head, "broken tool chains", "altered text", "system or question lost", "cases without result"], rows)


def _summary_row(name: str, cells: list[Cell], ours: dict[tuple[str, int], float | None]) -> list[str]:
    audits = [audit for cell in cells for audit in cell.audits]
    if not audits:
        return [name, *("–" for _ in range(8)), _reasons(cells)]
    full = [share for cell in cells for share in cell.full]
    slower = [cell.seconds / mine for cell in cells if cell.seconds and (mine := ours[cell.conversation, cell.budget])]
    return [
        name,
        times(median(slower)) if slower else "–",
        percent(median(full)),
        percent(min(full)),
        _of([audit.over > 0 for audit in audits]),
        f"{max(audit.over for audit in audits):,}",
        _of([audit.orphans + audit.unanswered > 0 for audit in audits]),
        _of([audit.altered > 0 for audit in audits]),
        _of([not (audit.system_kept and audit.question_kept) for audit in audits]),
        _reasons(cells),
    ]


def _of(flags: list[bool]) -> str:
    return f"{sum(flags)} of {len(flags)}"


def _reasons(cells: list[Cell]) -> str:
    reasons = [cell.failure.reason for cell in cells if cell.failure]
    return ", ".join(f"{reasons.count(reason)} × {reason}" for reason in dict.fromkeys(reasons)) or "0"


def _details(cells: list[Cell]) -> str:
    ordered = sorted(cells, key=lambda cell: (cell.conversation, cell.budget))
    head = ["conversation", "way", "budget", "time", "full, median", "full, least", "worst over", "orphans"]
    return table([*head, "unanswered", "altered", "valid"], [_detail(cell) for cell in ordered], words=2)


def _detail(cell: Cell) -> list[str]:
    case = [cell.conversation, cell.filler, f"{cell.budget:,}"]
    if cell.failure:
        return [*case, cell.failure.reason, *("–" for _ in range(7))]
    return [
        *case,
        duration(cell.seconds),
        percent(median(cell.full)),
        percent(min(cell.full)),
        f"{max(audit.over for audit in cell.audits):,}",
        f"{sum(audit.orphans for audit in cell.audits):,}",
        f"{sum(audit.unanswered for audit in cell.audits):,}",
        f"{sum(audit.altered for audit in cell.audits):,}",
        _of([audit.valid for audit in cell.audits]),
    ]
