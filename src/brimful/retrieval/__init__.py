"""Retrieval: find the memories, messages and lore that are relevant to a context."""
