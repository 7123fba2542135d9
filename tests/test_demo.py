"""`make demo` shows what it claims."""

import asyncio

import demo
import pytest
from rich.console import Console


@pytest.fixture
def console():
    return Console(width=demo.WIDTH, record=True, quiet=False, force_terminal=False)


def cells(console, name):
    """Return the cells of a row of a table."""
    row = next(line for line in console.export_text(clear=False).splitlines() if line.startswith(f"│ {name}"))
    return [cell.strip() for cell in row.strip("│").split("│")]


def test_old_facts_are_only_in_our_requests(console, tmp_path):
    asyncio.run(demo.companion(console, tmp_path))
    for question in demo.memory.QUESTIONS:
        _, newest, ours = cells(console, question)
        assert newest == "✗ not in the request"
        assert ours.startswith("✓")
    assert cells(console, demo.UNRELATED)[2] == "✓ 0 old messages looked up"


def test_the_task_survives_and_the_answer_is_right(console):
    demo.refunds(console)
    assert cells(console, "task")[1:] == ["✗ no longer in the last request", "✓ still in the last request"]
    assert cells(console, "tool calls")[2] == "✓ 46, of which 0 repeated"
    assert cells(console, "answer")[2].startswith("✓ I refunded 5 orders to your gift card: 172.50")


def test_the_bill_is_smaller(console):
    asyncio.run(demo.bill(console))
    _, *newest = cells(console, "the newest messages")
    _, *fitted = cells(console, "brimful.fit")
    assert newest[1] == "0%"
    assert int(fitted[1].rstrip("%")) > 80
    assert float(fitted[2].strip("$")) < float(newest[2].strip("$"))
