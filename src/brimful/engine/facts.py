"""What is told of a build and of an answer: numbers and names, and never what was said."""

from typing import Any

from brimful.core.context import Context
from brimful.records import Response


def build_facts(context: Context, *, seconds: float) -> dict[str, Any]:
    """Return what a monitor shows of a build that took so long."""
    model = context.inputs.model
    return {
        "context": context.id,
        "model": model.id,
        "provider": model.provider,
        "policy": context.inputs.policy.name,
        "tokens": context.tokens,
        "window": context.budget.window,
        "candidates": len(context.decisions),
        "left_out": sum(not decision.included for decision in context.decisions),
        "degraded": list(context.inputs.degraded),
        "seconds": max(0.0, seconds),
    }


def answer_facts(response: Response, context: Context) -> dict[str, Any]:
    """Return what a monitor shows of an answer: `asked` is the model that was asked for, `model` the one that answered.

    Of usage that was not reported, nothing is told.
    """
    usage = response.usage
    reported = {} if usage is None else {name: getattr(usage, name) for name in usage.__struct_fields__}
    return {
        "id": response.id,
        "context": response.context,
        "asked": context.inputs.model.id,
        "model": response.model,
        "provider": context.inputs.model.provider,
        "route": response.route,
        "finish": response.finish,
        "seconds": response.seconds,
        "usage": reported,
        "expected_cached": response.expected_cached,
        "notes": list(response.notes),
    }
