"""The endpoint for the run of an agent: its steps, what each did, and where its time went."""

from collections.abc import Mapping, Sequence
from typing import Final

from brimful.core.content import ToolCall
from brimful.core.notice import Notice
from brimful.errors import UnknownRecord
from brimful.records import Content, Response
from brimful.records.contexts import Build, Feedback
from brimful.server.background import BackgroundTasks
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import RunQuery
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

_MAX_TASK: Final = 8_000  # characters
_MAX_ANSWERS: Final = 5  # of a step, on average
_TASK_WAIT: Final = 2.0  # seconds


class CallView(View, frozen=True, kw_only=True):
    """A call of a tool, with the beginning of its arguments."""

    name: str
    arguments: str


class StepTimes(View, frozen=True, kw_only=True):
    """Where the seconds of a step went; null if that is not known.

    `retrieval` is loading and searching, and `build` the rest of building the context. `tools` is the time from the
    answer to the next request, of all tools together. After a `recall`, no others ran.
    """

    retrieval: float | None
    build: float | None
    model: float | None
    tools: float | None
    recall: float | None


class RecallView(View, frozen=True, kw_only=True):
    """What the model recalled, by a handle or a query, or tools that it searched for, as the `text` says.

    `seconds` are null if they were not measured.
    """

    text: str
    handle: str = ""
    query: str = ""
    tokens: int = 0
    seconds: float | None = None


class StepView(View, frozen=True, kw_only=True):
    """A context of a run, and its answer.

    `number` is its increasing position in the log. `calls` are the tools that the answer called: they are known from
    the next step. `answer` is the beginning of the answer's text if that is stored, and `recalls` is what the model
    recalled in it. Numbers of tokens are those that the provider reported; null if it reported none. `cost` is that of
    the model, in US dollars; null if the price is unknown.
    """

    number: int
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
    recalls: tuple[RecallView, ...]
    feedback: Feedback | None
    prompt: int | None
    cached: int | None
    completion: int | None
    cost: float | None
    seconds: StepTimes


class RunDetail(View, frozen=True, kw_only=True):
    """A run with its steps, oldest first. `first` is the number of the first listed step, counted from 1.

    `question` is the task, or its first 8,000 characters.
    """

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
        query: RunQuery = call.query
        builds = (await store.builds(run=id, before=query.before, since=query.since, limit=query.limit))[::-1]
        newest = await store.builds(run=id, limit=1)
        run = (await load_runs(store, [id], self._costs)).get(id)
        contexts = await store.run_contexts(id)
        if not newest or run is None or not {each.id for each in builds}.issubset(contexts):
            raise UnknownRecord("run", id)
        end = contexts.index(builds[-1].id) + 1 if builds else len(contexts)
        following = await store.build(contexts[end]) if end < len(contexts) else None
        pairs = list(zip(builds, [*builds[1:], following], strict=False))
        responses = await store.responses(contexts=[each.id for each in builds], limit=_MAX_ANSWERS * len(builds))
        answers = {each.context: each for each in reversed(responses)}
        feedback = {each.context: each.feedback for each in reversed(responses) if each.feedback is not None}
        texts = await load_excerpts(store, [each.message for each in answers.values()])
        calls = await store.candidate_contents({each.id: each.calls for _, each in pairs if each and each.calls})
        names = await load_names(store, newest)
        [task] = (await load_questions(store, newest)).values() or [""]
        steps = await run_in_thread(lambda: self._steps(pairs, answers, texts, calls, feedback))
        return to_view(
            RunDetail,
            newest[0],
            run=run,
            room_name=names.room(newest[0].room),
            persona_name=names.persona(newest[0].persona),
            question=task if len(task) <= _MAX_TASK else task[: _MAX_TASK - 1] + "…",
            first=end - len(builds) + 1,
            steps=steps,
        )

    def _steps(
        self,
        pairs: Sequence[tuple[Build, Build | None]],
        answers: Mapping[str, Response],
        texts: Mapping[str, str],
        calls: Mapping[str, Sequence[Content]],
        feedback: Mapping[str, Feedback],
    ) -> tuple[StepView, ...]:
        steps = []
        for build, following in pairs:
            answer = answers.get(build.id)
            usage, recalls = answer.usage if answer else None, _list_recalls(answer)
            steps.append(
                to_view(
                    StepView,
                    build,
                    calls=tuple(_list_calls(calls.get(following.id, ()))) if following else (),
                    answer=texts.get(answer.message or "", "") if answer else "",
                    finish=answer.finish if answer else "",
                    recalls=recalls,
                    feedback=feedback.get(build.id),
                    prompt=usage.prompt if usage else None,
                    cached=usage.cached if usage else None,
                    completion=usage.completion if usage else None,
                    cost=self._costs.cost(answer) if answer else None,
                    seconds=_measure(build, answer, following, recalls),
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


def _list_recalls(answer: Response | None) -> tuple[RecallView, ...]:
    notices = answer.notices if answer else ()
    fields = RecallView.__struct_fields__
    return tuple(
        RecallView(text=each.text, **{name: value for name, value in each.facts.items() if name in fields})
        for each in notices
        if each.kind == "recalled"
    )


def _measure(
    build: Build, answer: Response | None, following: Build | None, recalls: Sequence[RecallView]
) -> StepTimes:
    """Return where the time of a step went.

    The seconds of an answer may include the build, so they are at most the seconds that passed after it. An answer
    with recalls is recorded after them, but its seconds are those from the request to the end of the model's part.
    """
    spent, searched = build.build_seconds, build.search_seconds
    model = tools = recall = None
    if recalls:
        known = [each.seconds for each in recalls if each.seconds is not None]
        recall = sum(known) if len(known) == len(recalls) else None
    if answer is not None:
        ended = answer.at if not recalls or answer.seconds is None else build.at + answer.seconds
        since = max(0.0, ended - build.at - (spent or 0.0))
        model = since if answer.seconds is None else min(answer.seconds, since)
        tools = None if following is None or recalls else max(0.0, following.at - answer.at)
    return StepTimes(
        retrieval=searched,
        build=None if spent is None else max(0.0, spent - (searched or 0.0)),
        model=model,
        tools=tools,
        recall=recall,
    )
