"""Numbers are facts: messages that differ only in numbers are a flood only if no person could have written them."""

import pytest

from brimful.janitor.summaries import separate_floods
from janitor_rooms import NOW, chatter, echoes, flood, make_message


def invoices(count, *, every=60.0):
    return [
        make_message(
            f"i{n}",
            f"Invoice {4700 + n} was paid on {n % 30 + 1} November, amount {137 * n + 90} EUR.",
            at=NOW + n * every,
        )
        for n in range(count)
    ]


def sizes(messages):
    return [len(each) for each in separate_floods(messages).floods]


@pytest.mark.parametrize(("count", "every"), [(12, 60.0), (99, 1.0), (500, 60.0), (500, 0.0)])
def test_messages_that_differ_in_their_numbers_are_facts(count, every):
    assert sizes(invoices(count, every=every)) == []


def test_messages_too_fast_for_a_person_are_a_flood_whatever_their_number():
    assert sizes(flood(100)) == [100]
    assert sizes([*flood(100), *invoices(12), *chatter(12, at=NOW)]) == [100]


def test_messages_before_and_after_a_flood_stay():
    slow = [make_message(f"slow{n}", each.content, at=NOW + 3600 + 600 * n) for n, each in enumerate(flood(60)[40:])]
    assert sizes([*flood(150), *slow]) == [150]


def test_equal_numbers_are_summarized_once_and_others_stay():
    repeated = [
        make_message(f"again{n}", "Invoice 4700 was paid on 1 November, amount 90 EUR.", at=NOW + n) for n in range(11)
    ]
    found = separate_floods([*invoices(12), *repeated])
    assert [{each.content for each in group} for group in found.floods] == [{repeated[0].content}]
    assert len(found.rest) == 11
    assert sizes(echoes(10)) == [10]


def test_facts_stay_in_contexts_and_in_search(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post_many([*invoices(12, every=-60.0), make_message("end", "ok thanks", at=NOW)])
            await engine.run_janitor("r")
            context = await engine.assemble(room="r", message="Which amount was paid for invoice 4707?", window=8_000)
            return context, await engine.search("invoice 4707", room="r")

    context, found = run(story())
    assert "1049 EUR" in str(context.request)
    assert found.hits[0].record.id == "i7"
