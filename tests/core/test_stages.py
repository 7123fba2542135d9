"""Parts that were overestimated leave no room unused."""

import pytest

from brimful import assemble, conversation

MODEL = "llama-3.1-8b"  # its template trims texts, which are counted with all their spaces


def make_message(number, text):
    return {"role": "assistant" if number % 2 else "user", "content": text}


OLDER = [make_message(number, f"Tea is a drink that people make of leaves. ({number})") for number in range(200)]
TRIMMED = [make_message(number, "Yes." + " \n" * 120) for number in range(20)]
QUESTION = [{"role": "user", "content": "And now?"}]


@pytest.mark.parametrize("window", [1_500, 2_000, 3_000, 4_000])
def test_texts_that_shrink_in_a_template_make_room_for_others(window):
    packages = conversation([*OLDER, *TRIMMED, *QUESTION], model=MODEL)
    context = assemble(packages, model=MODEL, window=window, completion=100, now=0)
    assert context.verification.parts > context.tokens + 1_000
    assert context.tokens >= 0.97 * context.budget.available
    assert context.remaining >= 0


def test_nothing_is_tried_again_where_the_parts_were_right():
    packages = conversation([*OLDER, *QUESTION], model=MODEL)
    assert assemble(packages, model=MODEL, window=1_500, completion=100, now=0).verification.rounds == 1
