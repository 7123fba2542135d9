"""A strict count of a list of messages, and what is wrong with it. Written for the benchmarks, shared with nobody."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from conversations import Message, Messages

A_MESSAGE = 3  # tokens beside its role and content; this and the next two by OpenAI's cookbook
A_NAME = 1  # beside the name itself
A_REQUEST = 3  # the beginning of the answer
VOCABULARIES = (("litellm", "litellm_core_utils/tokenizers"), ("llama_index.core", "_static/tiktoken_cache"))

CountText = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Audit:
    """What a trimmed conversation looks like to somebody who trusts nobody."""

    tokens: int
    over: int
    orphans: int
    unanswered: int
    altered: int
    system_kept: bool
    question_kept: bool

    @property
    def valid(self) -> bool:
        """Whether a provider would take it and a user would not be surprised."""
        return not self.orphans and not self.unanswered and self.system_kept and self.question_kept


def audit(result: Messages, original: Messages, budget: int, count: CountText) -> Audit:
    """Count the result, and compare it with the conversation that it was made of."""
    tokens = count_messages(result, count)
    texts = [(message["role"], text_of(message)) for message in result]
    said = {(message["role"], text_of(message)) for message in original}
    system, question = original[0], original[-1]
    return Audit(
        tokens=tokens,
        over=max(0, tokens - budget),
        orphans=sum((_results(result) - _calls(result)).values()),
        unanswered=sum((_calls(result) - _results(result)).values()),
        altered=sum(text not in said for text in texts),
        system_kept=("system", text_of(system)) in texts,
        question_kept=("user", text_of(question)) in texts,
    )


def count_messages(messages: Messages, count: CountText) -> int:
    """Count a request as OpenAI's cookbook does, and tool calls as JSON of name and arguments."""
    return A_REQUEST + sum(count_message(message, count) for message in messages)


def count_message(message: Message, count: CountText) -> int:
    """Count one message."""
    tokens = A_MESSAGE + count(message["role"]) + count(text_of(message))
    if message.get("name"):
        tokens += A_NAME + count(message["name"])
    return tokens + sum(count(_written(call)) for call in message.get("tool_calls") or ())


def text_of(message: Message) -> str:
    """Return the text of a message, whichever form its content has."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _written(call: dict[str, Any]) -> str:
    function = call["function"]
    return json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)


def _calls(messages: Messages) -> Counter[str]:
    return Counter(call["id"] for message in messages for call in message.get("tool_calls") or ())


def _results(messages: Messages) -> Counter[str]:
    return Counter(message["tool_call_id"] for message in messages if message["role"] == "tool")


# -- the reference tokenizer -----------------------------------------------------------------------------------------


@cache
def reference() -> Any:
    """Return tiktoken's o200k, from a vocabulary file that a peer bundles: nothing is downloaded."""
    os.environ["TIKTOKEN_CACHE_DIR"] = str(next(_folders()))
    return import_module("tiktoken").get_encoding("o200k_base")


def reference_count(text: str) -> int:
    """Count a text by tiktoken's o200k."""
    return len(cast("list[int]", reference().encode_ordinary(text)))


def _folders() -> Iterator[Path]:
    for package, folder in VOCABULARIES:
        spec = find_spec(package.split(".")[0]) and find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            if (Path(place) / folder).is_dir():
                yield Path(place) / folder
    raise SystemExit("the benchmarks need tiktoken, and litellm or llama-index-core for its vocabulary: install them")
