"""Databases and models to test with, and generated examples.

Examples are the same ones on every run, so that a run is green or red for what the code does and not by chance.
`make search` looks for new ones.
"""

from hypothesis import settings

pytest_plugins = ("databases", "llama")

settings.register_profile("fixed", deadline=None, derandomize=True)  # no deadline: a busy machine is no defect
settings.register_profile("search", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("fixed")
