"""Unit vectors stored as float16: half the space, and the same nearest neighbors."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def normalize(vectors: Floats) -> Floats:
    """Scale vectors to length 1. Zero vectors stay zero, and NaN and infinity become 0.

    >>> normalize(np.array([3.0, 4.0], dtype=np.float32)).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    whole = np.nan_to_num(np.asarray(vectors, dtype=np.float32), posinf=0.0, neginf=0.0)
    peak = np.abs(whole).max(axis=-1, keepdims=True, initial=0.0)
    scaled = np.divide(whole, peak, out=np.zeros_like(whole), where=peak > 0)  # avoids overflow when squaring
    lengths = np.sqrt(np.square(scaled).sum(axis=-1, keepdims=True))
    units: Floats = np.divide(scaled, lengths, out=np.zeros_like(scaled), where=lengths > 0)
    return units


def encode_float16(vector: Floats) -> bytes:
    return vector.astype("<f2").tobytes()


def decode_float16(encoded: list[bytes]) -> Floats:
    """Decode vectors to a float32 matrix, scaled to length 1 again."""
    if not encoded:
        return np.empty((0, 0), dtype=np.float32)
    rows = np.frombuffer(b"".join(encoded), dtype="<f2").reshape(len(encoded), -1).astype(np.float32)
    lengths = np.sqrt(np.vecdot(rows, rows))[:, None]
    units: Floats = np.divide(rows, lengths, out=rows, where=lengths > 0)
    return units
