"""Models: the registry, model files, names and prices.

`files` reads and validates model files and builds a `registry`, which looks up models by any of their `names`.
"""

from brimful.models.files import default_registry, load_registry, resolve
from brimful.models.prices import Price, Spending, price, spending
from brimful.models.registry import Registry, unknown_model_warning

__all__ = [
    "Price",
    "Registry",
    "Spending",
    "default_registry",
    "load_registry",
    "price",
    "resolve",
    "spending",
    "unknown_model_warning",
]
