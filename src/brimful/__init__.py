"""Brimful: fill the context window to the brim, never spill."""

__version__ = "0.1.0"
