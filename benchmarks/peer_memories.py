"""The memories of LangChain, LlamaIndex and mem0: which turns of a conversation they find for a question, best first.

Each holds every turn as a text of its own, with its speaker, and all have the same embedder. mem0 writes texts
of its own only with a language model; without one (`infer=False`), it keeps the turns as they are.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

import mem0_search
from evidence_data import Turn
from mem0_search import Embed

Find = Callable[[str], list[int]]
"""Return the numbers of the turns that a question finds, best first."""

QUIET = {"LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING": "false", **mem0_search.QUIET}


def memories() -> dict[str, Callable[[Sequence[Turn], Embed], Find]]:
    """Return the memories whose packages are installed."""
    os.environ.update(QUIET, MEM0_DIR=tempfile.mkdtemp())
    known = {
        "langchain_core": ("LangChain's vector store", by_langchain),
        "llama_index": ("LlamaIndex's vector memory", by_llama_index),
        "mem0": ("mem0, without a model", by_mem0),
    }
    return dict(row for package, row in known.items() if find_spec(package))


def by_langchain(turns: Sequence[Turn], embed: Embed) -> Find:
    """Search LangChain's vector store."""
    base = import_module("langchain_core.embeddings").Embeddings
    methods = {"embed_documents": lambda _, texts: embed(texts), "embed_query": lambda _, text: embed([text])[0]}
    store = import_module("langchain_core.vectorstores").InMemoryVectorStore(type("Embedder", (base,), methods)())
    store.add_texts([_text(turn) for turn in turns], ids=[str(at) for at in range(len(turns))])
    return lambda question: [int(found.id) for found in store.similarity_search(question, k=len(turns))]


def by_llama_index(turns: Sequence[Turn], embed: Embed) -> Find:
    """Search LlamaIndex's vector memory."""
    base = import_module("llama_index.core.embeddings").BaseEmbedding
    one = lambda _, text: embed([text])[0]  # noqa: E731 - two methods of one class
    many = lambda _, texts: embed(texts)  # noqa: E731
    methods = {"_get_query_embedding": one, "_aget_query_embedding": one, "_get_text_embedding": one}
    model = type("Embedder", (base,), {**methods, "_get_text_embeddings": many, "__module__": __name__})()
    memory = import_module("llama_index.core.memory").VectorMemory.from_defaults(
        embed_model=model, retriever_kwargs={"similarity_top_k": len(turns)}
    )
    message = import_module("llama_index.core.llms").ChatMessage
    for at, turn in enumerate(turns):
        memory.put(message(role="user", content=_text(turn), additional_kwargs={"turn": at}))
    return lambda question: [int(found.additional_kwargs["turn"]) for found in memory.get(question)]


def by_mem0(turns: Sequence[Turn], embed: Embed) -> Find:
    """Search mem0."""
    numbers = {_text(turn): at for at, turn in enumerate(turns)}
    search = mem0_search.open_search(list(numbers), embed, len(turns))
    return lambda question: [numbers[found] for found in search(question)]


def _text(turn: Turn) -> str:
    return turn.line().rstrip()
