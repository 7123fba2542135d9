"""Test adapters, each in an environment with its framework: `python tools/adapters.py langchain litellm`.

Without names, all are tested. Environments are in `.venv/adapters`, made by uv if it is installed, or else by pip.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".venv" / "adapters"
COMMON = ("hypothesis", "pytest")


class Environment(NamedTuple):
    """What to install, what to test, and the pages whose examples run. `tests` are names in `tests/adapters`."""

    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


TABLE = {
    "adk": Environment(extras=("adk",), tests=("adk",), pages=("adapters/google-adk.md",)),
    "agent-framework": Environment(
        extras=("agent-framework",), tests=("agent_framework",), pages=("adapters/agent-framework.md",)
    ),
    "autogen": Environment(
        packages=("autogen-agentchat>=0.7,<0.8", "autogen-ext>=0.7,<0.8"), pages=("adapters/autogen.md",)
    ),
    "claude-agent": Environment(
        extras=("claude-agent", "server"), tests=("claude_agent",), pages=("adapters/claude-agent-sdk.md",)
    ),
    "crewai": Environment(packages=("crewai>=1.15,<2",), pages=("adapters/crewai.md",)),
    "dspy": Environment(packages=("dspy>=3.4,<4",), pages=("adapters/dspy.md",)),
    "haystack": Environment(extras=("haystack",), tests=("haystack",), pages=("adapters/haystack.md",)),
    "langchain": Environment(
        extras=("langchain", "langgraph"),
        packages=("langchain-tests>=1.1,<2", "pytest-asyncio>=1", "pytest-socket"),
        tests=("langchain", "langgraph"),
        pages=(
            "adapters/langchain.md",
            "adapters/langgraph.md",
            "migrate/trim-messages.md",
            "migrate/summarization-middleware.md",
        ),
    ),
    "litellm": Environment(
        extras=("litellm",),
        packages=("litellm[proxy]",),
        tests=("litellm",),
        pages=("adapters/litellm.md", "migrate/litellm-trimming.md"),
    ),
    "llama-index": Environment(
        extras=("llama-index",),
        tests=("llama_index",),
        pages=("adapters/llama-index.md", "migrate/chat-memory-buffer.md"),
    ),
    "openai-agents": Environment(
        extras=("openai-agents",), tests=("openai_agents",), pages=("adapters/openai-agents.md",)
    ),
    "pydantic-ai": Environment(extras=("pydantic-ai",), tests=("pydantic_ai",), pages=("adapters/pydantic-ai.md",)),
    "smolagents": Environment(packages=("smolagents>=1.26,<2",), pages=("adapters/smolagents.md",)),
}


def main() -> int:
    """Test the environments that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(TABLE)}; by default all")
    names = parser.parse_args().names or list(TABLE)
    if unknown := sorted(set(names) - TABLE.keys()):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(TABLE)}")
    failed = [name for name in names if not _test(name, TABLE[name])]
    print(f"{len(names) - len(failed)} of {len(names)} passed" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return bool(failed)


def _test(name: str, environment: Environment) -> bool:
    started = time.monotonic()
    print(f"== {name}", flush=True)
    python = ENVIRONMENTS / name / "bin" / "python"
    own = f"{ROOT}[{','.join(environment.extras)}]" if environment.extras else str(ROOT)
    packages = (*COMMON, *environment.packages, "--editable", own)
    uv = shutil.which("uv")
    make = [uv, "venv", "--quiet", "--clear"] if uv else [sys.executable, "-m", "venv", "--clear"]
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    pages = [f"tests/test_docs.py::test_every_example_of_the_page_runs[docs/{page}]" for page in environment.pages]
    tests = [f"tests/adapters/test_{test}.py" for test in environment.tests]
    # Warnings of frameworks are not ours to mend, and fixtures of our other tests need more than is installed here.
    test = [python, "-m", "pytest", "--confcutdir", "tests/adapters", "-p", "no:cacheprovider", "-W", "ignore"]
    test += ["-o", "filterwarnings=", "--hypothesis-profile", "ci"]
    done = (
        (python.exists() or _run([*make, ENVIRONMENTS / name]))
        and _run([*pip, "--quiet", *packages])
        and all(_run([*test, *group]) for group in (tests, *([page] for page in pages)) if group)  # pages keep state
    )
    print(f"== {name}: {'passed' if done else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
    return done


def _run(command: list[str | Path]) -> bool:
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
