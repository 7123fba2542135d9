"""Ways to fit a conversation into a budget: ours and those of others, each as its own documentation recommends it.

Peers are optional, so they are imported by name when they are used. None of them may phone home or fetch anything.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

import strict
from conversations import Message, Messages

MODEL: Final = "gpt-4o"
COMPLETION: Final = 1_024  # kept for the answer, beside the budget
NOW: Final = 1_800_000_000.0

LEAST_OF_A_CUT: Final = 32  # tokens that are left of a message, at the least, where it may be cut
LANGCHAIN_ROLES: Final = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}

QUIET: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download of prices
    "LITELLM_MODE": "PRODUCTION",  # no .env file is read
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "DO_NOT_TRACK": "1",
}


def load(packages: Iterable[str]) -> None:
    """Import packages, quietly, and the reference tokenizer."""
    strict.reference()
    os.environ.update(QUIET)
    for package in packages:
        import_module(package)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, ready to be timed: `call` does the work, `read` turns its result into OpenAI's form."""

    call: Callable[[], Any]
    read: Callable[[Any], Messages]


Prepare = Callable[[Messages, int], Turn]


@dataclass(frozen=True, slots=True)
class Filler:
    """A way to fit a conversation into a budget. `prepare` does what an application has done before the turn."""

    name: str
    packages: tuple[str, ...]
    prepare: Prepare

    def load(self) -> None:
        """Import what it needs."""
        load(self.packages)


def fillers() -> list[Filler]:
    """Return ours first, then the peers."""
    return [
        Filler("brimful", ("brimful",), _brimful_counted),
        Filler("brimful, counting", ("brimful",), _brimful_counting),
        Filler("brimful, cutting", ("brimful",), partial(_brimful_counted, min_tokens=LEAST_OF_A_CUT)),
        *(
            Filler(
                f"langchain-core, {counter}" + (", start_on" if start_on else ""),
                ("langchain_core.messages.utils",),
                partial(trim_langchain, exact=counter == "exact", start_on=start_on),
            )
            for counter in ("approximate", "exact")
            for start_on in (None, "human")
        ),
        Filler("litellm", ("litellm.utils",), _litellm),
        Filler("llama-index Memory", ("llama_index.core.memory", "llama_index.core.llms"), _llama_index),
    ]


# -- brimful ---------------------------------------------------------------------------------------------------------


def brimful_request(packages: Any, budget: int, previous: Any = None) -> Any:
    """Assemble with a hard limit that equals the budget, and no margin: what the peers have."""
    return import_module("brimful").assemble(
        packages,
        model=MODEL,
        window=budget + COMPLETION,
        completion=COMPLETION,
        overrides={"margin.tokens": 0, "margin.share": 0.0},
        now=NOW,
        previous=previous,
    )


def request_messages(context: Any) -> Messages:
    """Return the messages of a context's request."""
    messages: Messages = context.request["messages"]
    return messages


def _brimful_counted(messages: Messages, budget: int, *, min_tokens: int | None = None) -> Turn:
    """Have the packages at hand: each message was counted once, when it was written."""
    packages = import_module("brimful").conversation(messages, model=MODEL, min_tokens=min_tokens)
    return Turn(partial(brimful_request, packages, budget), request_messages)


def _brimful_counting(messages: Messages, budget: int) -> Turn:
    """Have nothing at hand: every message of the history is packaged and counted within the turn."""

    def call() -> Any:
        return brimful_request(import_module("brimful").conversation(messages, model=MODEL), budget)

    return Turn(call, request_messages)


# -- langchain-core --------------------------------------------------------------------------------------------------


def trim_langchain(messages: Messages, budget: int, *, exact: bool, start_on: str | None) -> Turn:
    """Trim as the documentation shows it: the newest messages, and the system prompt."""
    utils = import_module("langchain_core.messages.utils")
    history = utils.convert_to_messages(messages)
    trim = partial(
        utils.trim_messages,
        history,
        max_tokens=budget - strict.A_REQUEST,
        token_counter=_count_langchain if exact else "approximate",
        strategy="last",
        include_system=True,
        start_on=start_on,
    )
    return Turn(trim, utils.convert_to_openai_messages)


def _count_langchain(messages: list[Any]) -> int:
    """Count as the strict count does, so that this peer's counter is the very one it is judged by."""
    return sum(map(_count_langchain_message, messages))


def _count_langchain_message(message: Any) -> int:
    calls = [
        {"function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
        for call in getattr(message, "tool_calls", ())
    ]
    wire = {"role": LANGCHAIN_ROLES[message.type], "content": message.content, "tool_calls": calls}
    return strict.count_message(wire, strict.reference_count)


# -- litellm ---------------------------------------------------------------------------------------------------------


def _litellm(messages: Messages, budget: int) -> Turn:
    trim = partial(import_module("litellm.utils").trim_messages, messages, model=MODEL, max_tokens=budget)
    return Turn(trim, list)


# -- llama-index -----------------------------------------------------------------------------------------------------


def _llama_index(messages: Messages, budget: int) -> Turn:
    """Let Memory live through the newest messages, twice the budget of them; the turn puts the last one and reads.

    The system prompt stands outside, as their agents hold it; memory gets what the budget leaves, all for history.
    """
    system, *history, question = messages
    limit = budget - strict.count_messages([system], strict.reference_count)
    memory = import_module("llama_index.core.memory").Memory.from_defaults(
        token_limit=limit, chat_history_token_ratio=1.0, tokenizer_fn=strict.reference().encode_ordinary
    )
    *older, last = [_to_llama_index(message) for message in _newest(history, 2 * budget)]
    memory.set(older)
    memory.put(last)

    def call() -> Any:
        memory.put(_to_llama_index(question))
        return memory.get()

    return Turn(call, lambda kept: [system, *map(_from_llama_index, kept)])


def _newest(messages: Messages, tokens: int) -> Messages:
    at = len(messages)
    while at > 0 and tokens > 0:
        at -= 1
        tokens -= strict.count_message(messages[at], strict.reference_count)
    return messages[at:]


def _to_llama_index(message: Message) -> Any:
    llms = import_module("llama_index.core.base.llms.types")
    blocks = [llms.TextBlock(text=message["content"])] if message["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        blocks.append(
            llms.ToolCallBlock(
                tool_call_id=call["id"], tool_name=function["name"], tool_kwargs=json.loads(function["arguments"])
            )
        )
    answers = {"tool_call_id": message["tool_call_id"]} if message["role"] == "tool" else {}
    return llms.ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=answers)


def _from_llama_index(message: Any) -> Message:
    calls = [
        {
            "id": block.tool_call_id,
            "type": "function",
            "function": {"name": block.tool_name, "arguments": json.dumps(block.tool_kwargs)},
        }
        for block in message.blocks
        if block.block_type == "tool_call"
    ]
    text = "".join(block.text for block in message.blocks if block.block_type == "text")
    answers = {"tool_call_id": message.additional_kwargs["tool_call_id"]} if message.role == "tool" else {}
    return {"role": message.role.value, "content": text, **({"tool_calls": calls} if calls else {}), **answers}
