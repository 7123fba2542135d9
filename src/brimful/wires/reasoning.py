"""The model's reasoning in the messages of a client: whether a request may leave it out, and the message without it."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from brimful.core.prompt import Message

ANTHROPIC_TYPES: Final = ("thinking", "redacted_thinking")
"""Types of blocks with reasoning."""
GEMINI_SIGNATURES: Final = ("thoughtSignature", "thought_signature")


class ReasoningRule(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a request may lack the reasoning of turns before the last answer. That of the last answer must stay."""

    is_removable: bool
    why: str
    source: str


REASONING_RULES: Final[dict[Literal["openai", "anthropic", "responses", "gemini", "ollama"], ReasoningRule]] = {
    "openai": ReasoningRule(
        is_removable=False,
        why="DeepSeek rejects requests that lack the reasoning of any message with tool calls",
        source="https://api-docs.deepseek.com/guides/thinking_mode",
    ),
    "anthropic": ReasoningRule(
        is_removable=True,
        why="only the blocks of the turn that is in progress must come back, unmodified",
        source="https://platform.claude.com/docs/en/build-with-claude/extended-thinking",
    ),
    "responses": ReasoningRule(
        is_removable=True,
        why="older reasoning is optional, but items that have an id are rejected without the reasoning before them",
        source="https://developers.openai.com/api/docs/guides/preserved-reasoning",
    ),
    "gemini": ReasoningRule(
        is_removable=True,
        why="only the signatures of the current turn are validated",
        source="https://ai.google.dev/gemini-api/docs/thought-signatures",
    ),
    "ollama": ReasoningRule(
        is_removable=False,
        why="the model's template decides which thoughts it repeats",
        source="https://docs.ollama.com/capabilities/thinking",
    ),
}
"""By wire format, as of 2026-11."""


def find_last_answer(turns: Sequence[Sequence[Message]]) -> int:
    """Return the index of the user's message that the last answer, with all of its tool calls, is for; 0 without one.

    >>> from brimful.core.content import Text
    >>> one, other = (Message(role=role, parts=(Text(text="Hi"),)) for role in ("user", "assistant"))
    >>> find_last_answer([[one], [other], [one], [other], [one]])
    2
    """
    last = max((at for at, turn in enumerate(turns) if any(each.role == "assistant" for each in turn)), default=0)
    return max((at for at, turn in enumerate(turns[:last]) if all(each.role == "user" for each in turn)), default=0)


def without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message in Anthropic's or Gemini's form without the model's reasoning.

    >>> thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    >>> without_reasoning({"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]})
    {'role': 'assistant', 'content': [{'type': 'text', 'text': 'Yes.'}]}
    """
    if "parts" in message:
        parts = [part for part in message["parts"] if not part.get("thought")]
        signed = [{key: value for key, value in part.items() if key not in GEMINI_SIGNATURES} for part in parts]
        return {**message, "parts": signed}
    return {**message, "content": [block for block in message["content"] if block["type"] not in ANTHROPIC_TYPES]}
