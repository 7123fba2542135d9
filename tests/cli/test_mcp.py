"""The options of `brimful mcp`; tests/mcp_server talks to it."""

import asyncio
import os
import sys

import pytest
from mcp import Client, StdioServerParameters


@pytest.mark.parametrize(
    ("tools", "problem"), [("recall,said", "there is no tool 'said'"), (" , ", "no tool is named")]
)
def test_unknown_tools_are_wrong_usage(run, tools, problem):
    error = run("mcp", "--db", "chat.db", "--write", "--tools", tools, code=2).stderr
    assert f"{problem}; tools are recall, remember" in error


def test_a_plugin_gets_a_store_of_its_own(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    monkeypatch.setenv("BRIMFUL_DATA", str(folder))
    names = asyncio.run(list_tools(["-m", "brimful", "mcp", "--plugin", "--embedder", "none"]))
    assert names == ["recall", "remember", "forget"]
    assert (folder / "plugins.db").exists()


async def list_tools(arguments):
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server) as client:
        await client.call_tool("remember", {"text": "The attic is dry."})
        return [tool.name for tool in (await client.list_tools()).tools]


def test_a_missing_store_is_an_error(fails):
    assert fails("mcp", "--db", "chat.db").startswith("sqlite:///chat.db: there is no such store")
