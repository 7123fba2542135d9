"""How conversations of a format are stored, and how tool steps are sent again as they came."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

WireMessage = dict[str, Any]


class ToolStep(msgspec.Struct, frozen=True, kw_only=True):
    """A message with tool calls as the client sent it, and the ids of the calls."""

    message: WireMessage
    calls: tuple[str, ...]


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """What of a format is stored.

    `roles` are the roles of messages. `is_image` and `is_result` recognize blocks that are stored besides texts; a
    result has content of its own. `split` returns an assistant message as it is stored, and what of it is not: the
    model's reasoning. `get_calls` returns the ids of its calls, and `needs_original` whether a provider may need it as
    it was even without reasoning. `restore` returns a message of ours with the steps that it was made from.
    """

    roles: tuple[str, ...]
    is_image: Callable[[WireMessage], bool]
    is_result: Callable[[WireMessage], bool] = lambda _: False
    split: Callable[[WireMessage], tuple[WireMessage, object]]
    get_calls: Callable[[WireMessage], tuple[str, ...]]
    needs_original: Callable[[WireMessage], bool] = lambda _: False
    restore: Callable[[WireMessage, Sequence[ToolStep]], WireMessage]
