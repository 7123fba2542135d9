"""Policies: one TOML file a named way to fill a window, here or the user's own."""

from brimful.policies.load import ENVIRONMENT, load_policy, policy_names
from brimful.policies.overrides import Overrides

__all__ = ["ENVIRONMENT", "Overrides", "load_policy", "policy_names"]
