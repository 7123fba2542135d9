"""Small contexts for examples, counted in words."""

from brimful.core.assemble import assemble
from brimful.core.context import Inputs
from brimful.core.model import ModelInfo
from brimful.packagers import message
from brimful.policies import load_policy
from brimful.render import renderer_for
from strategies import COUNTER, NOW


def words(count, word="word"):
    return " ".join([word] * count)


def build(pile, policy="default", *, window=1000, completion=100, overrides=None, wire="openai", known=True, **more):
    model = ModelInfo(id="m", provider="p", window=window, max_output=window, wire=wire, known=known)
    chosen = load_policy(policy, overrides=overrides)
    inputs = Inputs(
        packages=tuple(pile), policy=chosen, model=model, method="hybrid", now=NOW, completion=completion, **more
    )
    return assemble(inputs, counter=COUNTER, renderer=renderer_for(wire))


def history(count, size=10, **options):
    return [
        message(words(size), counter=COUNTER, id=f"m{n:03d}", timestamp=NOW - 1000 + n, **options) for n in range(count)
    ]
