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

from brimful import higher

if TYPE_CHECKING:
    from brimful import errors, packagers
    from brimful.assembly.assemble import assemble, budget, conversation, count, counter, package, replay
    from brimful.assembly.brief import brief
    from brimful.assembly.compact import compact
    from brimful.assembly.conversations import Conversations
    from brimful.assembly.fit import fit
    from brimful.assembly.recall_tool import recall_tool, tool_search
    from brimful.assembly.whatif import window_for
    from brimful.core.budget import ContextBudget
    from brimful.core.content import ContentPackage, Flex, Form, Media, Text, ToolCall, ToolResult
    from brimful.core.context import Context
    from brimful.core.decision import Decision
    from brimful.core.model import ModelInfo
    from brimful.core.notice import Notice
    from brimful.core.policy import Policy
    from brimful.core.prompt import TokenCounter, Tool
    from brimful.core.tokens import Count
    from brimful.engine import Engine, Event, Retrieval, SyncEngine
    from brimful.policies import Overrides, load_policy, policy_names
    from brimful.views.explain import diff

__version__ = "0.1.0"

__all__ = [
    "ContentPackage",
    "Context",
    "ContextBudget",
    "Conversations",
    "Count",
    "Decision",
    "Engine",
    "Event",
    "Flex",
    "Form",
    "Media",
    "ModelInfo",
    "Notice",
    "Overrides",
    "Policy",
    "Retrieval",
    "SyncEngine",
    "Text",
    "TokenCounter",
    "Tool",
    "ToolCall",
    "ToolResult",
    "assemble",
    "brief",
    "budget",
    "compact",
    "conversation",
    "count",
    "counter",
    "diff",
    "errors",
    "fit",
    "load_policy",
    "package",
    "packagers",
    "policy_names",
    "recall_tool",
    "replay",
    "tool_search",
    "window_for",
]

_MODULES: Final = {
    "ContentPackage": "brimful.core.content",
    "Context": "brimful.core.context",
    "ContextBudget": "brimful.core.budget",
    "Conversations": "brimful.assembly.conversations",
    "Count": "brimful.core.tokens",
    "Decision": "brimful.core.decision",
    "Engine": "brimful.engine",
    "Event": "brimful.engine",
    "Flex": "brimful.core.content",
    "Form": "brimful.core.content",
    "Media": "brimful.core.content",
    "ModelInfo": "brimful.core.model",
    "Notice": "brimful.core.notice",
    "Overrides": "brimful.policies",
    "Policy": "brimful.core.policy",
    "Retrieval": "brimful.engine",
    "SyncEngine": "brimful.engine",
    "Text": "brimful.core.content",
    "TokenCounter": "brimful.core.prompt",
    "Tool": "brimful.core.prompt",
    "ToolCall": "brimful.core.content",
    "ToolResult": "brimful.core.content",
    "assemble": "brimful.assembly.assemble",
    "brief": "brimful.assembly.brief",
    "budget": "brimful.assembly.assemble",
    "compact": "brimful.assembly.compact",
    "conversation": "brimful.assembly.assemble",
    "count": "brimful.assembly.assemble",
    "counter": "brimful.assembly.assemble",
    "diff": "brimful.views.explain",
    "fit": "brimful.assembly.fit",
    "load_policy": "brimful.policies",
    "package": "brimful.assembly.assemble",
    "policy_names": "brimful.policies",
    "recall_tool": "brimful.assembly.recall_tool",
    "tool_search": "brimful.assembly.recall_tool",
    "replay": "brimful.assembly.assemble",
    "window_for": "brimful.assembly.whatif",
}
"""The module of each public name. It is imported when the name is first used, so that `import brimful` is fast."""


_SUBMODULES: Final = frozenset(
    (
        *("adapters", "cache", "counting", "embedding", "errors", "formats", "lore", "models", "packagers", "policies"),
        *("protocols", "providers", "records", "sessions", "shorten", "stores", "telemetry", "testing", "views"),
        "wires",
    )
)
"""Modules that are documented. They are imported when they are first used, too."""

_METHODS: Final = {
    "describe_decision": "brimful.views",
    "recall": "brimful.assembly.assemble",
    "report": "brimful.views",
    "window_html": "brimful.views",
}
"""The module of each function that a context offers as a method."""

higher.find_function = lambda name: getattr(import_module(_METHODS[name]), name)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _SUBMODULES:
        return import_module(f"brimful.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'brimful' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return all public names, those that are not imported yet included."""
    return sorted({*globals(), *__all__, *_SUBMODULES})
