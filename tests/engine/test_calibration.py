"""Counts and windows learned from answers, in one process and the next."""

import random
from itertools import repeat
from statistics import fmean

import pytest

from brimful import counter
from brimful.counting import MAX_REPORTS
from brimful.engine.calibration import REFRESH_SECONDS, Calibrator
from brimful.models.registry import unknown_model
from brimful.records.usage import UsageReport
from brimful.testing import ScriptedProvider
from brimful.wires import find_wire
from hidden_models import SENTENCES

HIDDEN = "nobody-knows-me"
QWEN = counter("qwen3:8b")


def bills(request):
    """Count as Qwen does, whatever the model is called."""
    return QWEN.prompt(find_wire("openai").parse(request)).tokens


def texts(seed):
    """Yield what people write."""
    source = random.Random(seed)
    while True:
        language = source.choice(["english", "english", "chinese", "code"])
        yield " ".join(source.choice(SENTENCES[language]) for _ in range(source.randint(1, 8)))


def test_counts_are_calibrated_and_other_processes_use_the_calibration(run, new_engine, clock):
    provider = ScriptedProvider(texts("answers"), tokens=bills)
    asked = texts("questions")

    async def story():
        async with new_engine(model=HIDDEN, provider=provider, embedder="none") as engine:
            for _ in range(30):
                clock.now += 60
                await engine.respond("r", next(asked))
            seen = await engine.store.usage_reports(HIDDEN, "scripted")
            [summed] = await engine.store.accuracy()
        async with new_engine(model=HIDDEN, embedder="none") as engine:
            context = await engine.assemble(room="r", message="And now?", route="scripted")
            elsewhere = await engine.assemble(room="r", message="And now?", route="other")
        return seen, summed, context, elsewhere

    seen, summed, context, elsewhere = run(story())
    assert len(seen) == summed.requests == 30
    assert fmean(abs(each.error) for each in seen[:10]) < 0.02
    assert all(each.reported <= each.counted + each.margin for each in seen[:10])
    assert "requests on scripted" in context.inputs.model.prior.source
    assert bills(context.request) == pytest.approx(context.tokens - context.verification.margin, rel=0.02)
    assert elsewhere.inputs.model.prior == unknown_model(HIDDEN).prior


def test_a_context_notes_that_its_server_counts_differently(run, new_engine, clock):
    provider = ScriptedProvider(repeat("Yes, and thank you."), tokens=bills)
    asked = texts("drift")

    async def story():
        async with new_engine(model=HIDDEN, provider=provider, embedder="none") as engine:
            for turn in range(34):
                clock.now += 60
                if turn == 30:
                    provider.tokens = lambda request: round(1.3 * bills(request))
                answer = await engine.respond("r", next(asked))
                yield answer.context.warnings

    async def report():
        return [any(each.kind == "calibration" for each in warnings) async for warnings in story()]

    assert run(report()) == [False] * 33 + [True]


def seen(number, **fields):
    return UsageReport(id=f"o{number}", model="m", route="r", at=float(number), **fields)


def test_reports_of_other_processes_are_read_in_time_even_by_a_busy_process(run, new_engine):
    async def story():
        async with new_engine(embedder="none") as engine:
            here, there = Calibrator(engine.store), Calibrator(engine.store)
            model = unknown_model("m")
            await here.calibrate(model, "r", now=0.0)
            await there.add(seen(1, kind="overflow", window=4096), now=0.0)
            for second in range(0, int(REFRESH_SECONDS), 10):
                await here.add(seen(100 + second), now=float(second))
            before = await here.calibrate(model, "r", now=REFRESH_SECONDS - 1)
            return before.window, (await here.calibrate(model, "r", now=REFRESH_SECONDS + 1)).window

    assert run(story()) == (None, 4096)


def test_a_reported_window_stays_known_after_many_requests(run, new_engine):
    async def story():
        async with new_engine(embedder="none") as engine:
            lessons, model = Calibrator(engine.store), unknown_model("m")
            await lessons.add(seen(0, kind="overflow", window=4096), now=0.0)
            for number in range(1, MAX_REPORTS + 5):
                await lessons.add(seen(number, reported=100), now=0.0)
            kept = await lessons.calibrate(model, "r", now=0.0)
            read = await Calibrator(engine.store).calibrate(model, "r", now=0.0)
            return kept.window, read.window

    assert run(story()) == (4096, 4096)
