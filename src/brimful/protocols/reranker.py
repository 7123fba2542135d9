"""Protocol of a reranker."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Judges how well texts answer a question, reading both together, as cross-encoders do."""

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each text, in the same order. Higher is better; any scale will do."""
        ...
