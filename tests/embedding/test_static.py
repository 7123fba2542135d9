"""The static table: unit vectors, similar for similar meanings, independent of the batch."""

import asyncio
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.embedding import StaticEmbedder, embed_static

SAME = [
    ("How do I reset my password?", "I forgot my login credentials"),
    ("The cat sleeps on the sofa.", "A kitten naps on the couch."),
    ("We fly to Paris in June.", "Our trip to France is next summer."),
    ("Her doctor prescribed antibiotics.", "The physician gave her medicine."),
    ("He plays the guitar in a band.", "She is a musician who writes songs."),
]


def embed(*texts):
    return asyncio.run(StaticEmbedder().embed(texts, "passage"))


def test_rows_are_of_length_one():
    rows = embed("one", "two words", "naïve café 漢字 👍")
    assert rows.shape == (3, 256)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("text", ["", "  \n", "\x00", "🦖", "🦖🦖"])
def test_a_text_without_known_pieces_is_zero(text):
    assert not embed(text).any()


def test_no_texts_give_no_rows():
    assert embed().shape == (0, 256)


def test_the_nearest_is_what_means_the_same():
    left, right = embed(*(a for a, _ in SAME)), embed(*(b for _, b in SAME))
    assert (left @ right.T).argmax(1).tolist() == list(range(len(SAME)))


def test_queries_and_passages_lie_in_one_space():
    query = asyncio.run(StaticEmbedder().embed(["tea"], "query"))
    assert np.array_equal(query, embed("tea"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=8))
def test_a_row_does_not_depend_on_its_batch(texts):
    rows = embed_static(texts)
    assert all(np.array_equal(row, embed_static([text])[0]) for row, text in zip(rows, texts, strict=True))


def test_a_long_text_is_read_to_its_end():
    once, often, more = embed(
        "quick brown fox", "quick brown fox " * 5_000, "quick brown fox " * 5_000 + "tea " * 2_000
    )
    assert once @ often == pytest.approx(1, abs=1e-3)
    assert more @ embed("tea")[0] > often @ embed("tea")[0]


def test_early_pieces_weigh_more_and_repeated_ones_less_than_twice():
    tea, early, late, twice = embed("tea", f"tea {'and so on ' * 40}", f"{'and so on ' * 40} tea", "coffee tea tea")
    assert tea @ early > tea @ late
    assert tea @ twice < tea @ (embed("coffee")[0] + 2 * tea)


def test_importing_the_room_does_not_import_numpy():
    code = "import sys, brimful.embedding; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "False\n"


def test_the_vectors_of_this_id_are_these():
    """If this fails, the vectors have changed: give them a new id."""
    assert StaticEmbedder.id == "static-minilm-256@7"
    row = embed("Fill the context window to the brim.")[0]
    assert row[:4] == pytest.approx([0.0410, 0.1525, -0.0221, -0.0076], abs=1e-4)
