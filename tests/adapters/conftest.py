"""Tests of adapters run in an environment of their framework: see `tools/adapters.py`. Elsewhere they are left out."""

from importlib.util import find_spec

FRAMEWORKS = {
    "test_adk.py": "google.adk",
    "test_agent_framework.py": "agent_framework",
    "test_claude_agent.py": "claude_agent_sdk",
    "test_haystack.py": "haystack",
    "test_langchain.py": "langchain.agents",
    "test_langgraph.py": "langgraph",
    "test_litellm.py": "litellm",
    "test_llama_index.py": "llama_index.core.workflow",
    "test_openai_agents.py": "agents",
    "test_pydantic_ai.py": "pydantic_ai",
}


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [name for name, module in FRAMEWORKS.items() if not is_installed(module)]
