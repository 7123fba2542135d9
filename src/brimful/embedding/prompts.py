"""What a model wants to read before a query or a passage. Without it, its vectors are measurably worse.

Sources: the cards of the models, as of 2026-11. Models that are not named here want nothing.
"""

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from brimful.protocols import Purpose


class Prompts(msgspec.Struct, frozen=True):
    """What stands before a text, by its purpose."""

    query: str = ""
    passage: str = ""

    def before(self, text: str, purpose: "Purpose") -> str:
        """Return the text with its prompt.

        >>> Prompts("query: ", "passage: ").before("tea", "query")
        'query: tea'
        """
        return (self.query if purpose == "query" else self.passage) + text


_SEARCHING: Final = Prompts(query="Represent this sentence for searching relevant passages: ")
_PROMPTS: Final = {
    "nomic-embed-text": Prompts("search_query: ", "search_document: "),
    "mxbai-embed-large": _SEARCHING,
    "snowflake-arctic-embed": _SEARCHING,
    "embeddinggemma": Prompts("task: search result | query: ", "title: none | text: "),
    "multilingual-e5": Prompts("query: ", "passage: "),
    "qwen3-embedding": Prompts(
        query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
    ),
}


def prompts_of(model: str) -> Prompts:
    """Return the prompts of a model, whoever serves it and in whichever size.

    >>> prompts_of("nomic-ai/nomic-embed-text:v1.5").query
    'search_query: '
    """
    name = model.rpartition("/")[2].lower()
    return next((prompts for known, prompts in _PROMPTS.items() if name.startswith(known)), Prompts())
