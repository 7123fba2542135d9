"""Models: the registry, model files, names and costs.

`files` reads and validates model files and builds a `registry`, which looks up models by any of their `names`.
"""

from brimful.models.costs import RequestCost, Spending, request_cost, spending
from brimful.models.files import default_registry, load_registry, resolve
from brimful.models.registry import Registry, unknown_model_warning

__all__ = [
    "Registry",
    "RequestCost",
    "Spending",
    "default_registry",
    "load_registry",
    "request_cost",
    "resolve",
    "spending",
    "unknown_model_warning",
]
