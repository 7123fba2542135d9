"""Functions of higher layers that a context offers as methods, such as its report.

`brimful` sets this when it is imported, so that the core knows nothing of what is above it, and a program loads only
what it uses.
"""

from collections.abc import Callable
from typing import Any

find_function: Callable[[str], Any]
"""Return a function by name."""
