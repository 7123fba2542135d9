"""Briefs of packages that no request has."""

import msgspec

from brimful.core.brief import write_brief
from brimful.core.content import ToolResult
from brimful.core.cost import OWN_KEY
from brimful.core.handles import Handles
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN
from brimful.packagers import memory, message, note, package
from strategies import COUNTER


def write(*packages, limit=200):
    asked = message("Who has tea?", counter=COUNTER, id="asked", current=True, timestamp=900)
    every = [*packages, asked]
    return write_brief(every, limit, COUNTER, Handles([each.id for each in every]))


def body(text):
    return text.removeprefix(HISTORY_OPEN).removesuffix(HISTORY_CLOSE)


def test_results_without_their_calls_and_messages_by_name():
    result = package("tool-result", (ToolResult(id="c", content="Tea is sold out."),), counter=COUNTER, id="lost")
    said = message("I like tea.", counter=COUNTER, id="m1", name="Ada", timestamp=5)
    assert body(write(said, result)) == "lost tool → Tea is sold out.\nm1 Ada → I like tea.\n"


def test_instructions_are_left_out_and_what_is_pinned_comes_before_other_memories():
    prompt = package("system-prompt", "Be brief.", counter=COUNTER, id="prompt")
    pinned = memory("Ada is ill " + "very " * 20, counter=COUNTER, id="ill", pinned=True, timestamp=2)
    matching = memory("Bob has tea " + "now " * 20, counter=COUNTER, id="tea", relevance=0.9, timestamp=1)
    other = memory("Mia runs " + "fast " * 20, counter=COUNTER, id="run", timestamp=3)
    told = note("Speak like a pirate.", counter=COUNTER, id="note", depth=1)
    for limit, shown in {200: ["tea", "ill", "run"], 80: ["ill"]}.items():
        text = write(prompt, pinned, matching, other, told, limit=limit)
        assert [line.partition(" ")[0] for line in body(text).splitlines()] == shown
    excluded = msgspec.structs.replace(matching, excluded="it is secret")
    assert "Bob" not in write(excluded, pinned)


def test_a_ledger_without_a_summary():
    ledger = HISTORY_OPEN + "r3 get_tea(id=7) → sencha\nr9 user → Hi\n" + HISTORY_CLOSE
    own = message(ledger, counter=COUNTER, id="msg-000000")
    own = msgspec.structs.replace(own, metadata={OWN_KEY: True})
    assert body(write(own)) == "r3 get_tea(id=7) → sencha\nr9 user → Hi\n"
