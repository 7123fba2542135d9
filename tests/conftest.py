"""Databases to test with, and generated examples.

Examples are new ones on every run at a desk, and the same ones on every run of continuous integration.
"""

import os

from hypothesis import settings

pytest_plugins = ("databases",)

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
