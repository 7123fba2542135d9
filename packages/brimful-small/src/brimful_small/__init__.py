"""The weights of Brimful's embedder `small`, which most users do not need."""

from pathlib import Path

FILE = Path(__file__).with_name("small.onnx")
