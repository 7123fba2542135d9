"""The endpoint for the run of an agent: its steps, what each did, and where its time went."""

from collections.abc import Mapping, Sequence
from typing import Final

from brimful.core.content import ToolCall
from brimful.core.notice import Notice
from brimful.errors import UnknownRecord
from brimful.records import Content, Response
from brimful.records.contexts import Build
from brimful.server.background import BackgroundTasks
from brimful.server.inspector.operation import Call
from brimful.server.inspector.views import (
    Costs,
    RunView,
    View,
    load_excerpts,
    load_names,
    load_questions,
    load_runs,
    make_excerpt,
    to_view,
)
from brimful.server.tenants import Tenants
from brimful.threads import run_in_thread

MAX_STEPS: Final = 2_000  # of a run; of a longer one, the newest are shown
_MAX_ANSWERS: Final = 5  # of a step, on average
_TASK_WAIT: Final = 2.0  # seconds


class CallView(View, frozen=True, kw_only=True):
    """A call of a tool, with the beginning of its arguments."""

    name: str
    arguments: str


class StepTimes(View, frozen=True, kw_only=True):
    """Where the seconds of a step went; null if that is not known.

    `retrieval` is loading and searching, and `build` the rest of building the context. `tools` is the time from the
    answer to the next request.
    """

    retrieval: float | None
    build: float | None
    model: float | None
    tools: float | None


class StepView(View, frozen=True, kw_only=True):
    """A context of a run, and its answer.

    `calls` are the tools that the answer called: they are known from the next step. `answer` is the beginning of the
    answer's text if that is stored, and `recalls` is what the model recalled before it. Numbers of tokens are those
    that the provider reported; null if it reported none.
    """

    id: str
    at: float
    model: str
    tokens: int
    available: int
    candidates: int
    left_out: int
    lines: int
    warnings: tuple[Notice, ...]
    degraded: tuple[Notice, ...]
    recorded: bool
    calls: tuple[CallView, ...]
    answer: str
    finish: str
    recalls: int
    prompt: int | None
    cached: int | None
    completion: int | None
    cost: float | None
    seconds: StepTimes


class RunDetail(View, frozen=True, kw_only=True):
    """A run with its steps, oldest first. `first` is the number of the first one that is listed, usually 1."""

    run: RunView
    room: str
    room_name: str
    persona: str | None
    persona_name: str
    user: str | None
    question: str
    first: int
    steps: tuple[StepView, ...]


class AgentRuns:
    """The endpoint for runs."""

    def __init__(self, tenants: Tenants, tasks: BackgroundTasks, costs: Costs) -> None:
        self._tenants = tenants
        self._tasks = tasks
        self._costs = costs

    async def show(self, call: Call) -> RunDetail:
        await self._tasks.wait(_TASK_WAIT)  # the record of a recent answer may not be written yet
        store, id = self._tenants.store(call.tenant), call.name()
        builds = (await store.builds(run=id, limit=MAX_STEPS))[::-1]
        run = (await load_runs(store, [id], self._costs)).get(id)
        if not builds or run is None:
            raise UnknownRecord("run", id)
        responses = await store.responses(contexts=[each.id for each in builds], limit=_MAX_ANSWERS * len(builds))
        answers = {each.context: each for each in reversed(responses)}
        texts = await load_excerpts(store, [each.message for each in answers.values()])
        calls = await store.candidate_contents({each.id: each.calls for each in builds if each.calls})
        names = await load_names(store, builds[-1:])
        questions = await load_questions(store, [builds[0]])
        steps = await run_in_thread(lambda: self._steps(builds, answers, texts, calls))
        return to_view(
            RunDetail,
            builds[-1],
            run=run,
            room_name=names.room(builds[-1].room),
            persona_name=names.persona(builds[-1].persona),
            question=questions.get(builds[0].id, ""),
            first=run.steps - len(builds) + 1,
            steps=steps,
        )

    def _steps(
        self,
        builds: Sequence[Build],
        answers: Mapping[str, Response],
        texts: Mapping[str, str],
        calls: Mapping[str, Sequence[Content]],
    ) -> tuple[StepView, ...]:
        steps = []
        for build, following in zip(builds, [*builds[1:], None], strict=True):
            answer = answers.get(build.id)
            usage = answer.usage if answer else None
            steps.append(
                to_view(
                    StepView,
                    build,
                    calls=tuple(_list_calls(calls.get(following.id, ()))) if following else (),
                    answer=texts.get(answer.message or "", "") if answer else "",
                    finish=answer.finish if answer else "",
                    recalls=sum(each.kind == "recalled" for each in answer.notices) if answer else 0,
                    prompt=usage.prompt if usage else None,
                    cached=usage.cached if usage else None,
                    completion=usage.completion if usage else None,
                    cost=self._costs.cost(answer) if answer else None,
                    seconds=_measure(build, answer, following),
                )
            )
        return tuple(steps)


def _list_calls(contents: Sequence[Content]) -> list[CallView]:
    return [
        CallView(name=part.name, arguments=make_excerpt(part.arguments))
        for content in contents
        if not isinstance(content, str)
        for part in content
        if isinstance(part, ToolCall)
    ]


def _measure(build: Build, answer: Response | None, following: Build | None) -> StepTimes:
    """Return where the time of a step went.

    The seconds of an answer may include those of the build, so they are at most those that passed after it.
    """
    spent, searched = build.build_seconds, build.search_seconds
    model = tools = None
    if answer is not None:
        since = max(0.0, answer.at - build.at - (spent or 0.0))
        model = since if answer.seconds is None else min(answer.seconds, since)
        tools = None if following is None else max(0.0, following.at - answer.at)
    return StepTimes(
        retrieval=searched,
        build=None if spent is None else max(0.0, spent - (searched or 0.0)),
        model=model,
        tools=tools,
    )
