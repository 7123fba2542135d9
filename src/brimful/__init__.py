"""Brimful: fill the context window to the brim, never spill.

>>> import brimful
>>> packages = [
...     brimful.package("system-prompt", "You are a helpful assistant.", model="gpt-4o"),
...     brimful.package("message-current", "When is the demo?", model="gpt-4o"),
... ]
>>> ctx = brimful.assemble(packages, model="gpt-4o", now=1_700_000_000)
>>> ctx.tokens <= ctx.budget.hard_limit
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from brimful import packagers
    from brimful.assembly.assemble import assemble, budget, conversation, count, counter, package, replay
    from brimful.assembly.fit import fit
    from brimful.assembly.whatif import window_for
    from brimful.core.budget import ContextBudget
    from brimful.core.content import ContentPackage, Flex, Media, Text, ToolCall, ToolResult
    from brimful.core.context import Context
    from brimful.core.counter import TokenCounter
    from brimful.core.decision import Decision
    from brimful.core.model import ModelInfo
    from brimful.core.policy import Policy
    from brimful.core.prompt import Tool
    from brimful.core.tokens import Count
    from brimful.engine import Engine, Event, Retrieval
    from brimful.errors import (
        BrimfulError,
        BudgetExceeded,
        ContextOverflow,
        CountingError,
        DamagedFile,
        EmbeddingError,
        EncryptionError,
        ImportRefused,
        InvalidConfig,
        InvalidModel,
        InvalidPackage,
        InvalidPolicy,
        InvalidRecord,
        InvalidRequest,
        InvalidValue,
        KeyUnavailable,
        MigrationError,
        MissingExtra,
        ProviderError,
        ProviderUnavailable,
        StoreCorrupt,
        StoreError,
        StoreUnavailable,
        TokenizerUnavailable,
        UnknownPolicy,
        UnknownRecord,
    )
    from brimful.policies import Overrides, load_policy, policy_names
    from brimful.views.explain import diff

__version__ = "0.1.0"

__all__ = [
    "BrimfulError",
    "BudgetExceeded",
    "ContentPackage",
    "Context",
    "ContextBudget",
    "ContextOverflow",
    "Count",
    "CountingError",
    "DamagedFile",
    "Decision",
    "EmbeddingError",
    "EncryptionError",
    "Engine",
    "Event",
    "Flex",
    "ImportRefused",
    "InvalidConfig",
    "InvalidModel",
    "InvalidPackage",
    "InvalidPolicy",
    "InvalidRecord",
    "InvalidRequest",
    "InvalidValue",
    "KeyUnavailable",
    "Media",
    "MigrationError",
    "MissingExtra",
    "ModelInfo",
    "Overrides",
    "Policy",
    "ProviderError",
    "ProviderUnavailable",
    "Retrieval",
    "StoreCorrupt",
    "StoreError",
    "StoreUnavailable",
    "Text",
    "TokenCounter",
    "TokenizerUnavailable",
    "Tool",
    "ToolCall",
    "ToolResult",
    "UnknownPolicy",
    "UnknownRecord",
    "assemble",
    "budget",
    "conversation",
    "count",
    "counter",
    "diff",
    "fit",
    "load_policy",
    "package",
    "packagers",
    "policy_names",
    "replay",
    "window_for",
]

_MODULES: Final = {
    "BrimfulError": "brimful.errors",
    "BudgetExceeded": "brimful.errors",
    "ContentPackage": "brimful.core.content",
    "Context": "brimful.core.context",
    "ContextBudget": "brimful.core.budget",
    "ContextOverflow": "brimful.errors",
    "Count": "brimful.core.tokens",
    "CountingError": "brimful.errors",
    "DamagedFile": "brimful.errors",
    "Decision": "brimful.core.decision",
    "EmbeddingError": "brimful.errors",
    "EncryptionError": "brimful.errors",
    "Engine": "brimful.engine",
    "Event": "brimful.engine",
    "Flex": "brimful.core.content",
    "ImportRefused": "brimful.errors",
    "InvalidConfig": "brimful.errors",
    "InvalidModel": "brimful.errors",
    "InvalidPackage": "brimful.errors",
    "InvalidPolicy": "brimful.errors",
    "InvalidRecord": "brimful.errors",
    "InvalidRequest": "brimful.errors",
    "InvalidValue": "brimful.errors",
    "KeyUnavailable": "brimful.errors",
    "Media": "brimful.core.content",
    "MigrationError": "brimful.errors",
    "MissingExtra": "brimful.errors",
    "ModelInfo": "brimful.core.model",
    "Overrides": "brimful.policies",
    "Policy": "brimful.core.policy",
    "ProviderError": "brimful.errors",
    "ProviderUnavailable": "brimful.errors",
    "Retrieval": "brimful.engine",
    "StoreCorrupt": "brimful.errors",
    "StoreError": "brimful.errors",
    "StoreUnavailable": "brimful.errors",
    "Text": "brimful.core.content",
    "TokenCounter": "brimful.core.counter",
    "TokenizerUnavailable": "brimful.errors",
    "Tool": "brimful.core.prompt",
    "ToolCall": "brimful.core.content",
    "ToolResult": "brimful.core.content",
    "UnknownPolicy": "brimful.errors",
    "UnknownRecord": "brimful.errors",
    "assemble": "brimful.assembly.assemble",
    "budget": "brimful.assembly.assemble",
    "conversation": "brimful.assembly.assemble",
    "count": "brimful.assembly.assemble",
    "counter": "brimful.assembly.assemble",
    "diff": "brimful.views.explain",
    "fit": "brimful.assembly.fit",
    "load_policy": "brimful.policies",
    "package": "brimful.assembly.assemble",
    "policy_names": "brimful.policies",
    "replay": "brimful.assembly.assemble",
    "window_for": "brimful.assembly.whatif",
}
"""The module of each public name. It is imported when the name is first used, so that `import brimful` is fast."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "packagers":
        return import_module("brimful.packagers")
    if name not in _MODULES:
        raise AttributeError(f"module 'brimful' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return all public names, those that are not imported yet included."""
    return sorted({*globals(), *__all__})
