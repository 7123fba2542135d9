"""Quantized vectors do not depend on their batch."""

import numpy as np
import pytest

from brimful.stores.vectors.quantization import quantize


@pytest.mark.parametrize("dims", [3, 64, 100, 256])
@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 200, 4_097])
def test_a_vector_is_coded_the_same_alone_and_among_others(count, dims):
    vectors = np.random.default_rng(count + dims).standard_normal((count, dims)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    levels, scales = quantize(vectors)
    assert (len(levels), len(scales)) == (count, count)
    for at in {0, 1, count // 2, count - 1} & set(range(count)):
        level, scale = quantize(vectors[at : at + 1])
        assert np.abs(level[0].astype(int) - levels[at]).max() <= 1  # sums may differ in their last digit
        assert scale[0] == pytest.approx(scales[at], rel=1e-5)
