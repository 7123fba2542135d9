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

from typing import TYPE_CHECKING, Any

from brimful import packagers
from brimful.assembly.assemble import assemble, budget, conversation, count, counter, package, replay
from brimful.assembly.fit import fit
from brimful.assembly.whatif import window_for
from brimful.core.budget import ContextBudget
from brimful.core.content import ContentPackage, Flex, Media, Text, ToolCall, ToolResult
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.core.explain import diff
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.core.tokens import Count, TokenCounter
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

if TYPE_CHECKING:
    from brimful.engine import Engine, Event, Retrieval

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


def __getattr__(name: str) -> Any:
    """Load the engine when it is asked for: who only fills a window waits for no store and no event loop."""
    if name in ("Engine", "Event", "Retrieval"):
        from brimful import engine  # noqa: PLC0415 - late, as said

        return getattr(engine, name)
    raise AttributeError(f"module 'brimful' has no attribute {name!r}")
