"""The engine: rooms and memories in a store, and the best context for the next answer."""

from brimful.engine.tidying import Tidying


class Engine(Tidying):
    """One tenant's rooms, personas and memories, and contexts for their next answers.

    `url` names the store: `sqlite:///chat.db`, `postgresql://…`. `model` and `policy` are what is meant where a call
    and its persona say nothing. `provider` is where models run: `openai`, `anthropic`, `gemini`, `ollama`, a server's
    address, or a provider of your own; without one, each model is asked at its maker's. `embedder` is `static` (in the
    package), `minilm`, `openai:…`, `ollama:…`, or `none`.
    """
