"""The options of `brimful mcp`; tests/mcp_server talks to it."""

import pytest


@pytest.mark.parametrize(
    ("tools", "problem"), [("recall,said", "there is no tool 'said'"), (" , ", "no tool is named")]
)
def test_unknown_tools_are_wrong_usage(run, tools, problem):
    error = run("mcp", "--db", "chat.db", "--write", "--tools", tools, code=2).stderr
    assert f"{problem}; tools are recall, remember" in error


def test_a_missing_store_is_an_error(fails):
    assert fails("mcp", "--db", "chat.db").startswith("sqlite:///chat.db: there is no such store")
