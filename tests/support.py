"""Small contexts for examples, counted in words."""

from brimful.assembly.arguments import resolve_notices
from brimful.core.context import Inputs
from brimful.core.model import ModelInfo
from brimful.core.stages import assemble
from brimful.packagers import message
from brimful.policies import load_policy
from brimful.wires import find_wire
from strategies import COUNTER, NOW

EYES = ("text", "image")


def words(count, word="word"):
    return " ".join([word] * count)


NO_FORMS = {"forms.kinds": []}
"""Overrides for policies that keep or drop items as a whole."""


def build(pile, policy="default", *, window=1000, completion=100, overrides=None, counter=COUNTER, **more):
    """Build a context; what is said of the model goes to the model, the rest to the inputs."""
    fields = (
        "wire",
        "known",
        "assumed_window",
        "relative",
        "overhead",
        "modalities",
        "alternate",
        "provider",
        "image_rule",
    )
    of_model = {field: more.pop(field) for field in fields if field in more}
    usual = {"id": "m", "provider": "p", "window": window, "max_output": window, "wire": "openai", "modalities": EYES}
    model = ModelInfo(**usual | {"image_rule": "openai-tiles-85-170"} | of_model)
    chosen = load_policy(policy, overrides=overrides)
    more["degraded"] = resolve_notices(more.get("degraded", ()))
    inputs = Inputs(
        packages=tuple(pile), policy=chosen, model=model, method="hybrid", now=NOW, completion=completion, **more
    )
    return assemble(inputs, counter=counter, renderer=find_wire(model.wire))


def history(count, size=10, **options):
    return [
        message(words(size), counter=COUNTER, id=f"m{n:03d}", timestamp=NOW - 1000 + n, **options) for n in range(count)
    ]


def prompt_order(context):
    """The ids of what the model sees, in the order of the prompt."""
    placed = [decision for decision in context.decisions if decision.position is not None]
    return [decision.id for decision in sorted(placed, key=lambda each: each.position)]
