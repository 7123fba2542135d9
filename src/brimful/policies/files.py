"""Load policies from TOML files and apply overrides. Every error names the file, the key and the reason."""

import re
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from brimful.core.policy import PRICES, Method, Policy, apply_overrides, violations
from brimful.core.validation import clean_text, preview, require_unicode
from brimful.errors import InvalidPolicy, InvalidValue, UnknownPolicy

_FOLDER: Final = Path(__file__).parent
ENVIRONMENT_KEYS: Final = {
    "CONTEXT_TOTAL_TOKEN_LIMIT": "total_tokens",
    "CONTEXT_RECENT_HISTORY_TOKEN_BUDGET": "pools.recent.limit.tokens",
    "CONTEXT_RAG_TOKEN_BUDGET": "pools.related.limit.tokens",
    "BRIMFUL_CONTEXT_TOTAL_TOKEN_LIMIT": "total_tokens",
    "BRIMFUL_CONTEXT_RECENT_HISTORY_TOKEN_BUDGET": "pools.recent.limit.tokens",
    "BRIMFUL_CONTEXT_RAG_TOKEN_BUDGET": "pools.related.limit.tokens",
    "BRIMFUL_CONTEXT_COMPLETION_TOKENS": "completion.tokens",
    "BRIMFUL_CONTEXT_PRICE": "price",
}
"""The policy key that each environment variable sets. Later ones take precedence."""


_HISTORY_KEYS: Final = {
    "pools.recent.limit.share": "share",
    "pools.recent.min_items": "min_items",
    "pools.recent.max_items": "max_items",
}
"""The key below `history` that each key of `Overrides` sets in a policy without a pool `recent`."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Policy settings that a persona may change: the share for history, the number of messages, counting and price.

    `min_messages` and `max_messages` are for history, the newest messages of the conversation. Older messages that
    search finds come on top.

    >>> Overrides(budget_share=0.9, min_messages=10).keys()
    {'pools.recent.limit.share': 0.9, 'pools.recent.min_items': 10}
    """

    budget_share: float | None = None
    min_messages: int | None = None
    max_messages: int | None = None
    counting: Method | None = None
    price: float | str | None = None

    def keys(self) -> dict[str, Any]:
        """Return the policy keys to override, with their values."""
        values = {
            "pools.recent.limit.share": self.budget_share,
            "pools.recent.min_items": self.min_messages,
            "pools.recent.max_items": self.max_messages,
            "counting": self.counting,
            "price": self.price,
        }
        return {key: value for key, value in values.items() if value is not None}


@cache
def policy_names() -> tuple[str, ...]:
    """Return the names of the built-in policies.

    >>> policy_names()
    ('agent', 'auction', 'default', 'fit', 'pools', 'split', 'window')
    """
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_policy(
    name: str | Path | Policy = "default",
    *,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Policy:
    """Return a policy by name or by the path of a TOML file.

    Overrides take precedence over the environment, and the environment over the file. A `Policy` is used as it is.
    A variable for a pool that the policy does not have is ignored with a warning: it may be meant for other policies.

    >>> load_policy("window", overrides={"pools.recent.max_items": 50}).pool("recent").max_items
    50
    """
    if isinstance(name, Policy):
        policy, file = _require_recordable(name, "policy"), name.name
    elif isinstance(name, str | Path):
        policy, file = _read_policy(name)
        if environ is not None and not isinstance(environ, Mapping):
            raise InvalidValue("environ", f"must be a dict of environment variables, not {preview(environ)}")
        policy = _apply_environment(policy, environ or {})
    else:
        raise InvalidValue("policy", f"must be a name, the path of a file or a Policy, not {preview(name)}")
    _check_overrides(overrides)
    return _with_overrides(policy, file, overrides) if overrides else policy


def _check_overrides(overrides: object) -> None:
    if overrides is not None and not isinstance(overrides, Mapping):
        raise InvalidValue("overrides", f"must be a dict of policy keys, not {preview(overrides)}")
    for key in overrides or ():
        require_unicode("overrides: a key", key, InvalidValue)


def _apply_environment(policy: Policy, environ: Mapping[str, str]) -> Policy:
    for variable, key in ENVIRONMENT_KEYS.items():
        if variable not in environ:
            continue
        value = _parse_price(environ[variable]) if key == "price" else _parse_tokens(variable, environ[variable])
        pool = key.split(".")[1] if key.startswith("pools.") else None
        if pool is None or any(each.name == pool for each in policy.pools):
            policy = _with_overrides(policy, variable, {key: value})
        else:
            text = f"{variable} has no effect: policy {policy.name!r} has no pool {pool!r}"
            warnings.warn(text, stacklevel=3)
    return policy


def _read_policy(name: str | Path) -> tuple[Policy, str]:
    if isinstance(name, str) and name in policy_names():
        return _bundled_policy(name), f"{name}.toml"
    path = Path(name)
    if path.suffix != ".toml":
        raise UnknownPolicy(str(name), policy_names())
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or not a valid file name
        raise InvalidPolicy(clean_text(str(path)), "", f"cannot be read ({error})") from None
    return _parse_policy(text, str(path)), str(path)


@cache
def _bundled_policy(name: str) -> Policy:
    return _parse_policy((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")


def _parse_policy(text: str, file: str) -> Policy:
    try:
        data = msgspec.toml.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # ValueError: too many digits
        raise InvalidPolicy(file, "", f"is not valid TOML ({error})") from None
    return _convert_policy(data, file)


def _convert_policy(data: Any, file: str) -> Policy:
    try:
        policy = msgspec.convert(_with_number_as_price(data, file), type=Policy)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        raise InvalidPolicy(file, _with_pool_names(path.rstrip("`"), data), reason) from None
    for key, reason in violations(policy):
        raise InvalidPolicy(file, key, reason)
    return _require_recordable(policy, file)


def _with_number_as_price(data: Any, file: str) -> Any:
    """Replace a named price by its number, so that records have the number."""
    price = data.get("price") if isinstance(data, dict) else None
    if not isinstance(price, str):
        return data
    if price not in PRICES:
        raise InvalidPolicy(file, "price", f"must be a number or one of {', '.join(PRICES)}, not {preview(price)}")
    return data | {"price": PRICES[price]}


def _require_recordable(policy: Policy, file: str) -> Policy:
    """Refuse a policy that cannot be serialized: every context stores its policy."""
    try:
        msgspec.json.encode(policy)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidPolicy(file, "", f"cannot be serialized ({error})") from None
    return policy


def _with_pool_names(path: str, data: Any) -> str:
    """Replace a pool's index in a path by its name.

    >>> _with_pool_names("pools[1].max_items", {"pools": [{}, {"name": "recent"}]})
    'pools.recent.max_items'
    """

    def name(match: re.Match[str]) -> str:
        pool = data["pools"][int(match[1])]
        return f"pools.{pool['name']}" if isinstance(pool, dict) and isinstance(pool.get("name"), str) else match[0]

    return re.sub(r"^pools\[(\d+)\]", name, path)


def _address_history(policy: Policy, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides of the pool `recent`. Without one, or with a ledger in it, they limit history in its pool."""
    pool = policy.pool_for_kind("message-recent")
    if pool is None or any(each.name == "recent" and each.ledger is None for each in policy.pools):
        return dict(overrides)
    return {
        f"pools.{pool.name}.history.{_HISTORY_KEYS[key]}" if key in _HISTORY_KEYS else key: value
        for key, value in overrides.items()
    }


def _with_overrides(policy: Policy, file: str, overrides: Mapping[str, Any]) -> Policy:
    try:
        return _convert_policy(apply_overrides(policy, _address_history(policy, overrides)), file)
    except KeyError as missing:
        raise InvalidPolicy(file, missing.args[0], f"policy {policy.name!r} has no such key or pool") from None


def _parse_price(text: str) -> float | str:
    """Return a price as a number, or its name.

    >>> _parse_price("0.5"), _parse_price("thrifty")
    (0.5, 'thrifty')
    """
    try:
        return float(text)
    except ValueError:
        return text


def _parse_tokens(variable: str, text: str) -> int:
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise InvalidPolicy(variable, "", f"must be an integer, not {text!r}") from None
