"""The log of contexts, responses and usage."""
