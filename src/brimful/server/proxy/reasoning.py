"""Preserve the model's reasoning between tool calls.

Reasoning is not stored, but Anthropic and others reject tool results if the reasoning before the call is missing. So
the steps since the last user message are sent exactly as the client sent them.
"""

from collections.abc import Sequence

from brimful.core.frame import part_text
from brimful.core.prompt import Request, TokenCounter
from brimful.server.proxy.request import ProxyRequest
from brimful.wires.parts import read_unknown
from brimful.wires.storage import Storage, ToolStep


def reasoning_tokens(steps: Sequence[ToolStep], counter: TokenCounter) -> int:
    """Return an upper bound of the tokens that are not stored."""
    texts = [part_text(part) for step in steps for part in read_unknown(step.unstored)]
    return counter.text("\n".join(texts)).upper if texts else 0


def restore_steps(written: Request, request: ProxyRequest, steps: Sequence[ToolStep], storage: Storage) -> Request:
    """Return a request that we wrote, with the steps as the client sent them in place of the stored ones."""
    field = request.wire.message_field
    return written | {field: storage.restore(written[field], steps)} if steps else written
