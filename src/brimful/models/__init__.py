"""What is known of models: rows as data, names as people write them, additions of the user's own, and prices.

load (files) → sheet (one file, checked) → build (inheritance) → registry (names → rows)
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
