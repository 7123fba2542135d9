"""How much there is besides the request: candidates that are out, and messages that were not loaded."""

import pytest

import brimful
from brimful.core.context import RECALLED_SUFFIX
from brimful.errors import InvalidValue
from brimful.packagers import memory, message, package
from strategies import COUNTER, NOW
from support import NO_FORMS, build, words


def turns(count, size=10):
    return [message(f"{n} {words(size)}", counter=COUNTER, id=f"m{n}", timestamp=NOW - 100 + n) for n in range(count)]


def now():
    return message("so?", counter=COUNTER, id="now", current=True, timestamp=NOW)


def assemble(packages, **options):
    return brimful.assemble(packages, model="gpt-4o", now=NOW, **options)


def test_messages_that_were_not_loaded_are_left_out():
    context = assemble([*turns(3), now()], unread=(7, 700))
    assert (context.offered, context.left_out, context.naive) == (11, 7, context.tokens + 700)
    assert (context.loaded, context.stopped_at) == (3, "m0")
    assert assemble([*turns(3), now()]).stopped_at is None
    assert context.id != assemble([*turns(3), now()]).id


@pytest.mark.parametrize("unread", [(-1, 0), (0, -1), (1.0, 0), (1,), 7, None])
def test_invalid_numbers_of_messages_and_tokens_are_refused(unread):
    with pytest.raises(InvalidValue, match="unread"):
        assemble([now()], unread=unread)


@pytest.mark.parametrize("policy", brimful.policy_names())
def test_history_stops_where_older_messages_are_left_out(policy):
    context = build([*turns(200, 30), now()], policy, window=6_000, overrides=NO_FORMS)
    sent = [int(id[1:]) for id in context.kept if id[1:].isdigit()]
    assert 0 < len(sent) < 200
    assert context.stopped_at == f"m{min(sent)}"
    assert context.left_out == 200 - len(sent)


def test_without_any_history_it_stops_at_the_current_message():
    assert assemble([now()], unread=(5, 50)).stopped_at == "now"
    only_memories = [memory("tea", counter=COUNTER, id="tea"), package("system-prompt", "Hi", counter=COUNTER, id="s")]
    assert assemble(only_memories, unread=(5, 50)).stopped_at is None


def test_a_message_that_search_found_too_is_counted_once():
    """As history it is out, as a search result it is in, or both are out."""
    found = package("message-older", "tea at four", counter=COUNTER, id=f"m0{RECALLED_SUFFIX}", relevance=1.0)
    alone = package("message-older", "milk", counter=COUNTER, id=f"x{RECALLED_SUFFIX}", relevance=1.0)
    context = build([*turns(2), found, alone, now()], window=4_000)
    assert len(context.decisions) == 5
    assert (context.offered, context.left_out) == (4, 0)
    for policy in ("window", "auction"):
        tight = build([*turns(200, 30), found, now()], policy, window=6_000, overrides=NO_FORMS)
        sent = {id.removesuffix(RECALLED_SUFFIX) for id in tight.kept} - {"now"}
        assert 0 < len(sent) < 200
        assert (tight.offered, tight.left_out) == (201, 200 - len(sent))
        assert tight.naive == tight.tokens + 31 * tight.left_out
