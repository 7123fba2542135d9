"""An agent of LangGraph whose requests always fit, with a long-term memory in SQLite.

    pip install "brimful[langchain,langgraph]" langchain-openai
    OPENAI_API_KEY=… python examples/langgraph_agent.py "What should I drink at four?"

The middleware fits each request of the agent and leaves the state of the graph whole. The store remembers across
threads, and survives a restart.
"""

import sys
import uuid
from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langgraph.checkpoint.memory import InMemorySaver

import brimful
from brimful.adapters.langchain import BrimfulMiddleware
from brimful.adapters.langgraph import BrimfulStore


@tool
def remember(fact: str, runtime: ToolRuntime) -> str:
    """Remember a fact about the user."""
    key = uuid.uuid5(uuid.NAMESPACE_OID, fact)  # the same fact is stored once
    runtime.store.put(user_of(runtime), str(key), {"text": fact})
    return "Remembered."


@tool
def look_up(question: str, runtime: ToolRuntime) -> str:
    """Search what is known about the user."""
    found = runtime.store.search(user_of(runtime), query=question, limit=3)
    return "\n".join(item.value["text"] for item in found) or "Nothing is known."


def user_of(runtime: ToolRuntime) -> tuple[str, str]:
    """Return the namespace of the user."""
    return ("users", runtime.config["configurable"]["user"])


def make_agent(chat_model: Any, engine: brimful.SyncEngine, **options: Any) -> Any:
    """Return the agent. The options are those of `brimful.fit`."""
    return create_agent(
        chat_model,
        tools=[remember, look_up],
        system_prompt="You are Nova. Look up what you need to know about the user, and remember what is new.",
        middleware=[BrimfulMiddleware(engine=engine, recall=True, **options)],
        checkpointer=InMemorySaver(),
        store=BrimfulStore(engine),
    )


def main() -> None:
    """Answer one question."""
    with brimful.SyncEngine("sqlite:///brimful.db") as engine:
        agent = make_agent("openai:gpt-4o-mini", engine)
        config = {"configurable": {"thread_id": "ada-1", "user": "ada"}}
        result = agent.invoke({"messages": [("user", sys.argv[1])]}, config)
        sys.stdout.write(f"{result['messages'][-1].text}\n")


if __name__ == "__main__":
    main()
