"""Databases and models to test with, and generated examples.

Examples are new ones on every run at a desk, and the same ones on every run of continuous integration.
"""

import os

from hypothesis import settings

pytest_plugins = ("databases", "llama")

settings.register_profile("desk", deadline=None)  # a busy machine is no defect
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
