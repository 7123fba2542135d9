"""A server's own prompt cache keeps working after the history has outgrown the window."""

from statistics import median

import pytest
from llama_server import LlamaServer, LlamaUnavailable

from cache import FAMILY, WINDOW, by_brimful, calls, replay
from conversations import plain, with_tools


@pytest.fixture(scope="module")
def alone():
    """Return the address of a server with one slot, which nobody else asks."""
    try:
        with LlamaServer(FAMILY.file(), context=WINDOW) as server:
            yield server.address
    except LlamaUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("conversation", [plain(40), with_tools(turns=20)], ids=lambda one: one.name)
def test_most_of_a_request_was_there_before_and_the_server_says_so(alone, conversation):
    seen = replay(by_brimful, conversation.messages, alone)
    assert len(seen.equal) > 10
    assert median(seen.equal) >= 0.9
    assert seen.cached == seen.equal
    assert min(seen.full) > 0.6
    assert max(seen.full) <= 1


def test_every_call_of_the_model_is_a_request():
    roles = [turn[-1]["role"] for turn in calls(with_tools(turns=2).messages)]
    assert roles == ["user", "tool", "user", "tool", "user"]
