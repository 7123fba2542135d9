"""The example of an agent: it finishes far past its window, repeats nothing, and recalls what it cannot see."""

import subprocess
import sys
from pathlib import Path

import agent

TOTAL = "I refunded 5 orders to your gift card: 172.50 in total."


def test_the_agent_finishes_without_repeating_a_call():
    run = agent.run_agent(overrides={"recall": "tool"})
    assert (run.answer, run.repeated) == (TOTAL, 0)
    assert agent.total_tokens(run.contexts[-1]) > 5 * agent.WINDOW
    assert all(context.tokens <= agent.WINDOW - agent.COMPLETION for context in run.contexts)
    assert run.recalls


def test_the_example_shows_the_ledger_a_recall_and_the_same_run_through_the_proxy():
    example = Path(agent.__file__)
    shown = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True, timeout=120).stdout
    assert "r9 get_order(order=W1023757) → condition broken" in shown
    assert "A recall." in shown
    assert "msg-000003  replaced: a line in 'ledger' stands for it" in shown
    assert shown.count(TOTAL) == 3  # in the table, and as the outcome with and without the proxy
