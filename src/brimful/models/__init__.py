"""What is known of models: rows as data, names as people write them, additions of the user's own, and prices.

load (files) → sheet (one file, checked) → build (inheritance) → registry (names → rows)
"""

from brimful.models.load import default_registry, load_registry, resolve
from brimful.models.prices import Price, price
from brimful.models.registry import Registry
from brimful.models.spending import Spending, spending
from brimful.models.unknown import unknown_model_warning

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
