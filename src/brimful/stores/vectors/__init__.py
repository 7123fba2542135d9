"""Vectors: storage, quantization and search."""
