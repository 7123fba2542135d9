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

from brimful import packagers
from brimful.assembly import assemble, budget, conversation, count, counter, package, replay
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
    CountingError,
    EmbeddingError,
    InvalidModel,
    InvalidPackage,
    InvalidPolicy,
    InvalidRecord,
    InvalidRequest,
    InvalidValue,
    KeyUnavailable,
    MigrationError,
    MissingExtra,
    SealError,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    TokenizerUnavailable,
    UnknownPolicy,
    UnknownRecord,
)
from brimful.policies import Overrides, load_policy, policy_names

__version__ = "0.1.0"

__all__ = [
    "BrimfulError",
    "BudgetExceeded",
    "ContentPackage",
    "Context",
    "ContextBudget",
    "Count",
    "CountingError",
    "Decision",
    "EmbeddingError",
    "Flex",
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
    "SealError",
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
    "load_policy",
    "package",
    "packagers",
    "policy_names",
    "replay",
]
