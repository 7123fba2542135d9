"""Policies: one TOML file a named way to fill a window, here or the user's own."""

from brimful.policies.files import ENVIRONMENT_KEYS, Overrides, load_policy, policy_names

__all__ = ["ENVIRONMENT_KEYS", "Overrides", "load_policy", "policy_names"]
