"""Test adapters and plugins with real frameworks and programs: `python tools/integrations.py langchain pi`.

Without names, all are tested, each in an environment of its own in `.venv/integrations`, with the versions in
`tests/adapters/locks` or in the table below. The tests of a program are in `tests/programs` and find it on the `PATH`.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".venv" / "integrations"
LOCKS = ROOT / "tests" / "adapters" / "locks"
UV = (sys.executable, "-m", "uv", "--quiet", "--system-certs")
COMMON = ("hypothesis", "pytest")


class Environment(NamedTuple):
    """What to install, the modules to test, and the pages whose examples run."""

    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()  # with their versions
    program: str = ""  # whose tests in `tests/programs` run


TABLE = {
    "adk": Environment(extras=("adk",), modules=("adk",), pages=("adapters/google-adk.md",)),
    "agent-framework": Environment(
        extras=("agent-framework",), modules=("agent_framework",), pages=("adapters/agent-framework.md",)
    ),
    "autogen": Environment(
        packages=("autogen-agentchat>=0.7,<0.8", "autogen-ext>=0.7,<0.8"), pages=("adapters/autogen.md",)
    ),
    "behind-proxy": Environment(
        extras=("server",),
        npm=(
            "node@22.23.3",  # Claude Code and Qwen Code need 22
            "@anthropic-ai/claude-code@2.1.326",
            "@google/gemini-cli@0.61.0",
            "@mariozechner/pi-coding-agent@0.73.1",
            "@openai/codex@0.169.0",
            "@qwen-code/qwen-code@0.24.4",
            "opencode-ai@1.18.33",
        ),
        program="behind_proxy",
    ),
    "claude-agent": Environment(
        extras=("claude-agent", "server"), modules=("claude_agent",), pages=("adapters/claude-agent-sdk.md",)
    ),
    "claude-code": Environment(
        extras=("mcp", "server"), npm=("node@22.23.3", "@anthropic-ai/claude-code@2.1.326"), program="claude_code"
    ),
    "codex": Environment(extras=("mcp", "server"), npm=("@openai/codex@0.169.0",), program="codex"),
    "crewai": Environment(packages=("crewai>=1.15,<2",), pages=("adapters/crewai.md",)),
    "dspy": Environment(packages=("dspy>=3.4,<4",), pages=("adapters/dspy.md",)),
    "haystack": Environment(extras=("haystack",), modules=("haystack",), pages=("adapters/haystack.md",)),
    "hermes": Environment(packages=("hermes-agent>=0.19,<0.20",), program="hermes"),
    "langchain": Environment(
        extras=("langchain", "langgraph"),
        packages=("langchain-classic>=1,<2", "langchain-tests>=1.1,<2", "pytest-asyncio>=1", "pytest-socket"),
        modules=("langchain", "langgraph"),
        pages=(
            "adapters/langchain.md",
            "adapters/langgraph.md",
            "migrate/trim-messages.md",
            "migrate/summarization-middleware.md",
            "migrate/langchain-memory.md",
        ),
    ),
    "litellm": Environment(
        extras=("litellm",),
        packages=("litellm[proxy]",),
        modules=("litellm",),
        pages=("adapters/litellm.md", "migrate/litellm-trimming.md"),
    ),
    "llama-index": Environment(
        extras=("llama-index",),
        modules=("llama_index",),
        pages=("adapters/llama-index.md", "migrate/chat-memory-buffer.md", "migrate/llama-index-memory.md"),
    ),
    "open-webui": Environment(extras=("server",), packages=("open-webui==0.12.4",), program="open_webui"),
    "openai-agents": Environment(
        extras=("openai-agents",), modules=("openai_agents",), pages=("adapters/openai-agents.md",)
    ),
    "opencode": Environment(extras=("server",), npm=("opencode-ai@1.18.33",), program="opencode"),
    "pi": Environment(extras=("server",), npm=("@mariozechner/pi-coding-agent@0.73.1",), program="pi"),
    "pydantic-ai": Environment(extras=("pydantic-ai",), modules=("pydantic_ai",), pages=("adapters/pydantic-ai.md",)),
    "sessions": Environment(
        extras=("server",),
        npm=(
            "node@22.23.3",
            "@anthropic-ai/claude-code@2.1.326",
            "@qwen-code/qwen-code@0.24.4",
        ),
        program="sessions",
    ),
    "smolagents": Environment(packages=("smolagents>=1.26,<2",), pages=("adapters/smolagents.md",)),
}


def main() -> int:
    """Test the environments that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(TABLE)}; by default all")
    parser.add_argument("--types", action="store_true", help="check the adapters against the types of their frameworks")
    parser.add_argument("--newest", action="store_true", help="try the newest versions instead of the locked ones")
    parser.add_argument("--lock", action="store_true", help="like --newest, and lock these versions if they pass")
    given = parser.parse_args()
    names = given.names or list(TABLE)
    if unknown := sorted(set(names) - TABLE.keys()):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(TABLE)}")
    failed = [name for name in names if not _check(name, given)]
    print(f"{len(names) - len(failed)} of {len(names)} passed" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return bool(failed)


def _check(name: str, given: argparse.Namespace) -> bool:
    started = time.monotonic()
    print(f"== {name}", flush=True)
    python, lock, environment = ENVIRONMENTS / name / "bin" / "python", LOCKS / f"{name}.txt", TABLE[name]
    passed = (
        _install(python, environment, lock, newest=given.newest or given.lock)
        and _test(python, environment)
        and (not given.types or _check_types(python, environment))
    )
    if passed and given.lock:
        versions = [*UV, "pip", "freeze", "--python", python, "--exclude-editable"]
        lock.write_bytes(subprocess.run(versions, check=True, stdout=subprocess.PIPE).stdout)
    print(f"== {name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
    return passed


def _install(python: Path, environment: Environment, lock: Path, *, newest: bool) -> bool:
    own = f"{ROOT}[{','.join(environment.extras)}]" if environment.extras else str(ROOT)
    versions = ["--constraint", lock] if lock.exists() and not newest else []
    packages = [*COMMON, *environment.packages, "--editable", own]
    return (
        _run([*UV, "venv", "--clear", "--python", sys.executable, python.parent.parent])
        and _run([*UV, "pip", "install", "--python", python, *versions, *packages])
        and _install_npm(python, environment, newest=newest)
    )


def _install_npm(python: Path, environment: Environment, *, newest: bool) -> bool:
    packages = [f"{each.rpartition('@')[0]}@latest" if newest else each for each in environment.npm]
    return not packages or _run(["npm", "install", "--silent", "--prefix", python.parent.parent, *packages])


def _test(python: Path, environment: Environment) -> bool:
    pages = [f"tests/test_docs.py::test_every_example_of_the_page_runs[docs/{page}]" for page in environment.pages]
    tests = [f"tests/adapters/test_{name}.py" for name in environment.modules]
    if environment.program:
        tests.append(f"tests/programs/test_{environment.program}.py")
    # Warnings of frameworks are not ours to mend, and fixtures of our other tests need more than is installed here.
    pytest = [python, "-m", "pytest", "--confcutdir", "tests/programs", "-p", "no:cacheprovider", "-W", "ignore"]
    pytest += ["-o", "filterwarnings=", "--hypothesis-profile", "ci"]
    commands = [python.parent, python.parent.parent / "node_modules" / ".bin"]
    path = os.pathsep.join([*map(str, commands), os.environ["PATH"]])
    groups = (tests, *([page] for page in pages))  # pages keep state
    return all(_run([*pytest, *group], os.environ | {"PATH": path}) for group in groups if group)


def _check_types(python: Path, environment: Environment) -> bool:
    modules = [f"src/brimful/adapters/{name}.py" for name in environment.modules]
    cache = ROOT / ".mypy_cache" / python.parent.parent.name
    mypy = [sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", cache]
    return not modules or _run([*mypy, *modules])


def _run(command: list[str | Path], environ: Mapping[str, str] | None = None) -> bool:
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
