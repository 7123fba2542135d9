"""The engine: rooms and memories in a store, and the best context for the next answer."""

from brimful.engine.answering import Answering


class Engine(Answering):
    """One tenant's rooms, personas and memories, and contexts for their next answers.

    `url` names the store: `sqlite:///chat.db`, `postgresql://…`. `model` and `policy` are what is meant where a call
    and its persona say nothing. `embedder` is `static` (in the package), `minilm`, `openai:…`, `ollama:…`, or `none`.
    """
