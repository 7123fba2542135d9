"""What may be chosen: models and policies; and what a text would cost."""

from brimful.core.model import ModelInfo
from brimful.models.registry import Registry
from brimful.policies import load_policy, policy_names
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.queries import CountBody
from brimful.server.inspector.tokens import Tokens
from brimful.server.inspector.views import ModelList, ModelRow, PolicyList, PolicyRow, TextCount


class Catalogue:
    """Lists what there is to choose from."""

    def __init__(self, registry: Registry, tokens: Tokens) -> None:
        """Take the rows of all models."""
        self._registry = registry
        self._tokens = tokens

    async def models(self, inquiry: Inquiry) -> ModelList:
        """List all models that are known."""
        del inquiry
        rows = sorted(self._registry, key=lambda info: info.id)
        return ModelList(models=tuple(map(_row, rows)), default=self._tokens.default)

    async def policies(self, inquiry: Inquiry) -> PolicyList:
        """List all policies that have a name."""
        del inquiry
        return PolicyList(policies=tuple(map(_policy, policy_names())))

    async def count(self, inquiry: Inquiry) -> TextCount:
        """Count a text."""
        body: CountBody = inquiry.body
        (count,) = await self._tokens.counts([body.text], body.model)
        return TextCount(tokens=count.tokens, basis=count.basis)


def _row(info: ModelInfo) -> ModelRow:
    return ModelRow(
        id=info.id,
        provider=info.provider,
        window=info.window,
        max_output=info.max_output,
        max_input=info.max_input,
    )


def _policy(name: str) -> PolicyRow:
    policy = load_policy(name)
    return PolicyRow(name=policy.name, description=policy.description, pools=tuple(pool.name for pool in policy.pools))
